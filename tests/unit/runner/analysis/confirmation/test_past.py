"""The nights before a suspect, on a machine whose pace changes."""

from __future__ import annotations

import pytest

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case, CaseResult
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.confirmation.suspects import early_suspects
from compile_hud.runner.analysis.confirmation.verdict import (
    Conclusion,
    ConfirmationResult,
    baseline_history,
    confirm_by_history,
)
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from tests.support.builders import make_case, make_measurement, make_result, make_run
from tests.support.records.histories import make_series, night

CASE = make_case(mode="eager")
REFERENCE = make_case("ref_gemm", family="reference", mode="eager")
CASE_S = [0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0098, 0.0100, 0.0101, 0.0099, 0.0100]
REFERENCE_S = [value / 2 for value in CASE_S]
SPEED_PROBE_S = 0.0006


def histories() -> list[Series]:
    """Return ten quiet nights of a case and a reference case, and one on which the case is slow."""
    values = {CASE: [*CASE_S, 0.0112], REFERENCE: [*REFERENCE_S, 0.005]}
    return [
        make_series(numbers, metric=metric, case=case)
        for case, times in values.items()
        for metric, numbers in (("latency_cpu_s", times), ("pace_s", [SPEED_PROBE_S] * 11))
    ]


def suspect() -> Alert:
    run = make_run("run-10", started_at=night(10))
    (alert,) = early_suspects(histories(), run=run, alerts=(), rules=SeriesRules())
    return alert


def evening(case: Case, level: float, *, slowdown: float) -> CaseResult:
    """Return what is measured of `level` while the machine is slower by `slowdown`."""
    return make_result(
        case=case,
        measurements=[
            make_measurement(
                name, samples=[value * slowdown * factor for factor in (0.99, 1, 1.01)]
            )
            for name, value in (("latency_cpu_s", level), ("pace_s", SPEED_PROBE_S))
        ],
    )


def measured_again(
    level: float, *, slowdown: float, reference_s: float = 0.005
) -> ConfirmationResult:
    alert = suspect()
    now = {REFERENCE.key: evening(REFERENCE, reference_s, slowdown=slowdown)}
    past = baseline_history(alert, histories(), alerts=[alert], now=now)
    return confirm_by_history(alert, evening(CASE, level, slowdown=slowdown), history=past)


@pytest.mark.parametrize("slowdown", [0.8, 1.0, 1.3])
def test_good_level_is_refuted_at_any_pace_of_the_evening(slowdown: float) -> None:
    finding = measured_again(0.0100, slowdown=slowdown)
    assert (finding.conclusion, finding.cause.kind) == (Conclusion.REFUTED, "unknown")


@pytest.mark.parametrize("slowdown", [0.8, 1.0, 1.3])
def test_bad_level_is_confirmed_at_its_size_at_any_pace_of_the_evening(slowdown: float) -> None:
    finding = measured_again(0.0112, slowdown=slowdown)
    assert (finding.conclusion, finding.cause.kind) == (Conclusion.CONFIRMED, "eager")
    assert finding.candidate == pytest.approx(0.0112)


def test_a_slower_machine_is_reported_by_its_reference_case() -> None:
    finding = measured_again(0.0112, slowdown=1.1, reference_s=0.0057)
    assert (finding.conclusion, finding.cause.kind) == (Conclusion.REFUTED, "machine")
