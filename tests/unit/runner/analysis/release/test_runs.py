"""The runs of a release, among nights and other releases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from compile_hud.db.records.results import Run, RunState
from compile_hud.runner.analysis.release.runs import (
    ReleaseRules,
    find_releases,
    measured_cases,
    rules_of,
)
from tests.support.builders import make_case, make_run

FIRST = make_run()


def run(name: str, toolchain: str, *, hours: int, trigger: str, machine: str = "box") -> Run:
    return replace(
        FIRST,
        id=name,
        toolchain=toolchain,
        trigger=trigger,
        machine=machine,
        started_at=FIRST.started_at + timedelta(hours=hours),
    )


def release_trigger(baseline: str, candidate: str) -> str:
    return ReleaseRules(baseline=baseline, candidate=candidate).trigger


@pytest.mark.parametrize("names", [("a", "b"), ("odd name", "(x) -> y"), ("2.12.0", "2.13.0")])
@pytest.mark.parametrize(("fail_above", "max_launches"), [(0.05, 40), (0.025, 400), (0.1, 4)])
def test_both_runs_state_the_rules_of_their_judgement(
    names: tuple[str, str], fail_above: float, max_launches: int
) -> None:
    rules = ReleaseRules(
        baseline=names[0], candidate=names[1], fail_above=fail_above, max_launches=max_launches
    )
    known = rules_of(run("a", names[0], hours=0, trigger=rules.trigger))
    assert known is not None
    assert known.fail_above == pytest.approx(fail_above)
    assert (known.baseline, known.candidate, known.max_launches) == (*names, max_launches)


def test_other_runs_have_no_rules() -> None:
    assert rules_of(FIRST) is None


def test_each_candidate_has_the_baseline_that_started_before_it() -> None:
    there, back = release_trigger("a", "b"), release_trigger("b", "a")
    runs = [
        run("old a", "a", hours=0, trigger=there),
        run("old b", "b", hours=1, trigger=there),
        run("a night", "a", hours=2, trigger="manual"),
        run("back b", "b", hours=3, trigger=back),
        run("back a", "a", hours=4, trigger=back),
        run("new a", "a", hours=5, trigger=there),
        run("elsewhere", "a", hours=6, trigger=there, machine="other"),
        run("new b", "b", hours=7, trigger=there),
    ]
    pairs = [(pair.baseline.id, pair.candidate.id) for pair in find_releases(runs)]
    assert pairs == [("new a", "new b"), ("back b", "back a"), ("old a", "old b")]


def test_sides_that_start_at_once_are_one_release() -> None:
    there = release_trigger("a", "b")
    for ids in (("1", "2"), ("2", "1")):
        sides = [
            run(name, toolchain, hours=0, trigger=there)
            for name, toolchain in zip(ids, ("a", "b"), strict=True)
        ]
        assert len(find_releases(sides)) == 1


def test_a_run_without_its_other_side_is_no_release() -> None:
    there = release_trigger("a", "b")
    assert find_releases([run("b", "b", hours=0, trigger=there)]) == []
    assert find_releases([run("a", "a", hours=0, trigger=there)]) == []


def test_machines_that_begin_at_one_moment_share_a_release() -> None:
    there = release_trigger("a", "b")
    runs = [
        run(f"{toolchain} {machine}", toolchain, hours=hours, trigger=there, machine=machine)
        for toolchain in ("a", "b")
        for machine, hours in (("rack-2", 1), ("rack-1", 1), ("rack-1", 0))
    ]
    newest, older = find_releases(
        [replace(item, id=f"{item.id} {n}") for n, item in enumerate(runs)]
    )
    assert newest.machines == ("rack-1", "rack-2")
    assert [pair.baseline.id for pair in newest.pairs] == ["a rack-1 1", "a rack-2 0"]
    assert [pair.candidate.id for pair in newest.pairs] == ["b rack-1 4", "b rack-2 3"]
    assert newest.has_candidate("b rack-2 3")
    assert not newest.has_candidate("b rack-1 5")
    assert older.machines == ("rack-1",)


@pytest.mark.parametrize(
    ("states", "together"),
    [
        ((RunState.FINISHED, RunState.FINISHED), RunState.FINISHED),
        ((RunState.FINISHED, RunState.INTERRUPTED), RunState.INTERRUPTED),
        ((RunState.INTERRUPTED, RunState.RUNNING), RunState.RUNNING),
    ],
)
def test_a_release_goes_on_while_one_machine_does(
    states: tuple[RunState, ...], together: RunState
) -> None:
    there = release_trigger("a", "b")
    runs = [
        replace(
            run(f"{toolchain}{number}", toolchain, hours=0, trigger=there, machine=f"m{number}"),
            state=state,
        )
        for toolchain in ("a", "b")
        for number, state in enumerate(states)
    ]
    (release,) = find_releases(runs)
    assert release.state is together


def test_the_cases_of_a_release_are_those_of_all_machines() -> None:
    cases = [make_case(name) for name in ("net", "mlp", "vit")]
    plans = [replace(FIRST, plan=tuple(plan)) for plan in (cases[:2], cases[1:])]
    assert measured_cases(plans) == cases
