"""The two runs of a release, among nights and other releases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from compile_hud.db.records.results import Run
from compile_hud.runner.analysis.release.runs import find_releases, release_trigger
from tests.support.builders import make_run

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
