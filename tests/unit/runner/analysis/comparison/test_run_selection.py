"""Selections for a comparison: the previous run, a revision, a variant, the mean over cases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.db.records.results import Case, CaseResult, Run
from compile_hud.runner.analysis.comparison.run_selection import (
    baseline_run,
    mean_ratios,
    of_variant,
    previous_run,
    revision_before,
    revisions_of,
    run_at_revision,
)
from compile_hud.runner.analysis.comparison.runs import compare_results
from tests.support.builders import START, make_case, make_measurement, make_result, make_run


def night(number: int, **values: str) -> Run:
    return make_run(f"run-{number}", started_at=START + timedelta(days=number), **values)


def result(case: Case, seconds: float) -> CaseResult:
    measured = make_measurement(samples=(seconds,) * 9, launches=(3, 3, 3))
    return make_result(f"{case.key}-{seconds}"[:64], case=case, measurements=[measured])


def test_the_run_before_is_the_newest_older_one_of_its_suite_and_machine() -> None:
    runs = [
        night(4),
        night(3),
        night(2, suite="other"),
        night(2, machine="elsewhere"),
        night(1),
        night(0),
    ]
    run = previous_run(runs[1], runs)
    assert run is not None
    assert run.id == "run-1"
    assert previous_run(runs[-1], runs) is None


def test_the_run_before_is_of_the_same_toolchain_where_there_is_one() -> None:
    runs = [night(3), night(2, toolchain="nightly"), night(1)]
    assert previous_run(runs[0], runs) is runs[2]
    assert previous_run(runs[0], runs[:2]) is runs[1]


@pytest.mark.parametrize("name", ["2.14.0@abc", "2.14.0", "abc"])
def test_a_revision_is_known_by_its_version_and_by_its_commit(name: str) -> None:
    runs = [night(2), night(1, revision="2.14.0@abc"), night(0, revision="2.14.0@abc")]
    assert run_at_revision(name, runs) is runs[1]
    assert run_at_revision("2.1", runs) is None


def commits(**revisions: str) -> dict[str, dict[str, str]]:
    return {"model_commits": {"models_zoo": "f00d", **revisions}}


def test_a_commit_of_an_own_model_is_a_revision() -> None:
    runs = [night(3, environment=commits(net="c2")), night(1, environment=commits(net="c1"))]
    assert run_at_revision("c1", runs) is runs[1]
    assert run_at_revision("f00d", runs) is None


def test_revisions_are_builds_and_commits_of_models_whose_code_changed() -> None:
    runs = [
        night(4, revision="2.14.0@b", environment=commits(net="c2", other="d1")),
        night(3, revision="2.13.0@a", environment=commits(net="c2", other="d1")),
        night(2, revision="2.13.0@a", environment=commits(net="c1", other="d1")),
    ]
    names = [(item.models, item.name, len(item.runs)) for item in revisions_of(runs)]
    assert names == [
        *(((), "2.14.0@b", 1), (("net",), "c2", 2)),
        *(((), "2.13.0@a", 2), (("net",), "c1", 1)),
    ]
    assert revisions_of([]) == ()


def test_models_of_one_repository_share_the_revision_of_their_commit() -> None:
    runs = [
        night(5, environment=commits(tower="e3", head="e3", lone="f1")),
        night(4, environment=commits(head="e3", lone="f1")),
        night(3, environment=commits(tower="e2", lone="f1")),
        night(2, environment=commits(tower="e2", head="e1")),
    ]
    own = {item.name: item for item in revisions_of(runs) if item.models}
    assert {name: item.models for name, item in own.items()} == {
        "e3": ("head", "tower"),
        "e2": ("tower",),
        "e1": ("head",),
    }
    assert [run.id for run in own["e3"].runs] == ["run-5", "run-4"]
    assert len({item.name for item in revisions_of(runs)}) == len(revisions_of(runs))


def test_the_baseline_run_shares_machine_then_suite_then_toolchain() -> None:
    candidate = night(9, suite="mine", toolchain="stable", revision="2.14.0@b")
    old = {"revision": "2.13.0@a"}
    alike = night(1, suite="mine", toolchain="stable", **old)
    other_toolchain = night(2, suite="mine", toolchain="nightly", **old)
    other_suite = night(3, suite="quick", toolchain="stable", **old)
    elsewhere = night(4, suite="mine", toolchain="stable", machine="far", **old)
    runs = [candidate, elsewhere, other_suite, other_toolchain, alike]
    for expected in (alike, other_toolchain, other_suite, None):
        assert baseline_run("2.13.0", candidate=candidate, runs=runs) is expected
        runs = [run for run in runs if run is not expected]


def test_the_revision_before_is_of_the_same_kind() -> None:
    runs = [
        night(4, revision="2.14.0@b", environment=commits(net="c2")),
        night(3, revision="2.13.0@a", environment=commits(net="c2")),
        night(2, revision="2.12.0@z", toolchain="other", environment=commits(net="c0")),
        night(1, revision="2.13.0@a", environment=commits(net="c1")),
    ]
    assert revision_before(runs[0], name="2.14.0", runs=runs) == "2.13.0@a"
    assert revision_before(runs[0], name="c2", runs=runs) == "c1"
    assert revision_before(runs[3], name="2.13.0@a", runs=runs) == ""


def test_the_commit_before_is_of_a_model_that_the_run_has() -> None:
    newest = night(4, environment=commits(tower="e3", head="e3"))
    runs = [newest, night(2, environment=commits(head="e1")), night(1, environment=commits())]
    assert revision_before(newest, name="e3", runs=runs) == "e1"
    assert revision_before(newest, name="e3", runs=[newest, runs[2]]) == ""


def test_results_of_a_variant_compare_as_those_of_another() -> None:
    eager, default = make_case(mode="eager"), make_case(mode="default")
    reference = make_case("ref_gemm", family="reference", mode="eager")
    results = [result(eager, 0.02), result(default, 0.01), result(reference, 0.001)]
    left = of_variant(results, "eager", case_of="default")
    assert [item.case.key for item in left] == [default.key, reference.key]
    rows = compare_results(left, results[1:])
    latency = next(row for row in rows if row.metric == "latency_s")
    assert latency.comparison.ratio == pytest.approx(0.5)


def test_a_mean_is_over_the_cases_that_both_sides_have() -> None:
    bert, vit, absent = (make_case(name) for name in ("bert", "vit", "lost"))
    before = [result(bert, 0.010), result(vit, 0.010), result(absent, 0.010)]
    rows = compare_results(before, [result(bert, 0.020), result(vit, 0.005)])
    (mean,) = mean_ratios(rows, metrics=["latency_s", "speedup"])
    assert (mean.metric, mean.variant) == ("latency_s", "default")
    assert mean.ratio == pytest.approx(1.0)
    assert (mean.least, mean.most) == (pytest.approx(0.5), pytest.approx(2.0))
    assert (mean.num_common, mean.num_cases) == (2, 3)
