"""Latencies that moved as eager in the same processes did."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import RunDocument, Verdict
from compile_hud.runner.analysis.comparison.resolution import has_inconclusive, is_undecided
from compile_hud.runner.analysis.comparison.runs import (
    CaseComparison,
    compare_results,
    has_failure,
)
from tests.support.builders import make_case, make_measurement, make_result, make_run
from tests.support.texts import without_numbers

_NAMES = ("latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s")
_WOBBLE = (0.998, 1.0, 1.003)
_REFERENCES = ("ref_gemm", "ref_copy", "ref_chain")


def _document(
    run_id: str,
    *,
    variant: float,
    eager: float,
    reference: float | None = None,
    device: str = "cpu",
    **run: Any,
) -> RunDocument:
    """Return a run whose times are `variant` and `eager`; references only with a factor."""
    levels = dict(zip(_NAMES, (variant, variant, eager, eager), strict=True))
    levels["speedup"] = eager / variant
    cases = [(make_case("gan", device=device), levels)]
    if reference is not None:
        times = {"latency_s": reference, "latency_cpu_s": reference}
        cases += [
            (make_case(name, family="reference", mode="eager", device=device), times)
            for name in _REFERENCES
        ]
    results = tuple(
        make_result(
            f"{run_id}-{number}",
            run_id=run_id,
            case=case,
            measurements=[
                make_measurement(
                    metric,
                    samples=[level * part for part in _WOBBLE for _ in range(6)],
                    launches=(6, 6, 6),
                )
                for metric, level in numbers.items()
            ],
        )
        for number, (case, numbers) in enumerate(cases)
    )
    return RunDocument(run=make_run(run_id, **run), results=results)


def _rows(before: RunDocument, after: RunDocument) -> dict[str, CaseComparison]:
    return {row.metric: row for row in compare_results(before, after)}


def _verdicts(rows: dict[str, CaseComparison]) -> set[Verdict]:
    return {rows[name].comparison.verdict for name in ("latency_s", "latency_cpu_s")}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("factor", [1.17, 0.8])
def test_latency_that_moved_as_eager_did_is_machine_drift_in_runs_of_one_build(
    device: str, factor: float, words: SnapshotAssertion
) -> None:
    before = _document("a", variant=0.02, eager=0.03, device=device)
    after = _document("b", variant=0.02 * factor, eager=0.03 * factor, device=device)
    rows = _rows(before, after)
    assert _verdicts(rows) == {Verdict.INCONCLUSIVE}
    assert {rows[name].comparison.decided_by for name in _NAMES[:2]} == {"speedup"}
    assert rows["speedup"].comparison.verdict is Verdict.IDENTICAL
    assert not has_failure(list(rows.values()))
    assert not is_undecided(rows["latency_s"])
    assert not has_inconclusive([rows[name] for name in ("latency_s", "speedup")])
    assert without_numbers(rows["latency_s"].comparison.reason) == words


def test_latency_that_moved_more_than_eager_is_a_regression() -> None:
    before = _document("a", variant=0.02, eager=0.03)
    rows = _rows(before, _document("b", variant=0.02 * 1.4, eager=0.03 * 1.15))
    assert _verdicts(rows) == {Verdict.REGRESSION}
    assert rows["speedup"].comparison.verdict is Verdict.REGRESSION


def test_latency_that_moved_while_eager_stayed_is_a_regression() -> None:
    before = _document("a", variant=0.02, eager=0.03)
    assert _verdicts(_rows(before, _document("b", variant=0.024, eager=0.03))) == {
        Verdict.REGRESSION
    }


def test_other_code_with_steady_references_is_a_regression_of_eager() -> None:
    before = _document("a", variant=0.02, eager=0.03, reference=0.01, revision="2.13.0")
    after = _document("b", variant=0.024, eager=0.036, reference=0.01, revision="2.14.0")
    assert _verdicts(_rows(before, after)) == {Verdict.REGRESSION}
    # The same numbers of one build cannot be eager's own.
    same = dataclasses.replace(after, run=dataclasses.replace(after.run, revision="2.13.0"))
    assert _verdicts(_rows(before, same)) == {Verdict.INCONCLUSIVE}


def test_other_code_without_references_is_a_regression() -> None:
    before = _document("a", variant=0.02, eager=0.03, revision="2.13.0")
    after = _document("b", variant=0.024, eager=0.036, revision="2.14.0")
    assert _verdicts(_rows(before, after)) == {Verdict.REGRESSION}


def test_other_code_with_references_in_between_leaves_eager_and_machine_open(
    words: SnapshotAssertion,
) -> None:
    before = _document("a", variant=0.02, eager=0.03, reference=0.01, revision="2.13.0")
    after = _document("b", variant=0.028, eager=0.042, reference=0.0115, revision="2.14.0")
    rows = _rows(before, after)
    assert _verdicts(rows) == {Verdict.INCONCLUSIVE}
    assert without_numbers(rows["latency_s"].comparison.reason) == words


def test_other_model_code_is_other_code() -> None:
    commits = [{"model_commits": {"gan": name}} for name in ("one", "two")]
    before = _document("a", variant=0.02, eager=0.03, reference=0.01, environment=commits[0])
    after = _document("b", variant=0.024, eager=0.036, reference=0.01, environment=commits[1])
    assert _verdicts(_rows(before, after)) == {Verdict.REGRESSION}
