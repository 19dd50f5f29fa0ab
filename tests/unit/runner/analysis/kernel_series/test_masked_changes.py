"""A kernel step that the latency does not show is a change; noise, machine and blips are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compile_hud.db.records.alerts import MASKED, Alert, AlertState
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import KernelHistory
from compile_hud.db.records.triage import SeriesSettings
from compile_hud.runner.analysis.alerts.lifecycle import update_alerts
from compile_hud.runner.analysis.alerts.severity import severity_of
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from compile_hud.runner.analysis.kernel_series.chains import chain_kernels
from compile_hud.runner.analysis.kernel_series.masked_alerts import (
    earlier_alerts,
    judge_kernels,
    without_explained,
)
from compile_hud.runner.analysis.kernel_series.masked_changes import (
    NIGHT_BUDGET,
    NUM_RESULTS,
    MaskedChange,
    find_masked_changes,
)
from tests.support.builders import make_alert
from tests.support.records.kernel_nights import (
    NORM,
    PRODUCT,
    Times,
    kernel_history,
    kernel_nights,
    masked_from,
    side_of,
    steady,
)

ONSET = 40


def changes_of(
    times: Times, *, num_nights: int = 43, latency_from: float = 1.0
) -> list[MaskedChange]:
    """Return the masked changes; the latency is times `latency_from` from the onset on."""
    nights = kernel_nights(num_nights, times=times)
    latencies_s = np.array([night.latency_s for night in nights])
    latencies_s[ONSET:] *= latency_from
    return find_masked_changes(
        chain_kernels(nights, side_of=side_of),
        latencies_s=latencies_s,
        floor=0.01,
        latency_floor=0.05,
    )


def test_a_masked_kernel_shows_on_the_third_night() -> None:
    assert not changes_of(masked_from(ONSET), num_nights=ONSET + 2)
    (change,) = changes_of(masked_from(ONSET))
    (slower,) = change.slower
    assert (slower.chain.label, change.first, change.last_good) == (NORM, ONSET, ONSET - 1)
    assert 1e6 * slower.change_s == pytest.approx(48, abs=2)
    assert change.offsets[0].chain.label == PRODUCT
    assert change.p_value < NIGHT_BUDGET
    assert change.end is None


def test_a_step_of_one_percent_of_the_latency_shows() -> None:
    (change,) = changes_of(masked_from(ONSET, change_us=10.0))
    assert change.slower[0].chain.label == NORM


def test_a_smaller_step_is_none() -> None:
    assert not changes_of(masked_from(ONSET, change_us=4.0))


def test_equal_nights_have_no_change() -> None:
    assert not changes_of(steady, num_nights=60)


def test_a_blip_of_two_nights_is_none() -> None:
    def times(night: int, label: str, time_us: float) -> float:
        return time_us * (1.4 if label == NORM and night in (40, 41) else 1.0)

    assert not changes_of(times, num_nights=50)


def test_a_slow_machine_is_no_slow_kernel() -> None:
    def times(night: int, _label: str, time_us: float) -> float:
        return time_us * (1.03 if night >= ONSET else 1.0)

    assert not changes_of(times)


def test_a_step_that_the_latency_shows_is_not_masked() -> None:
    assert not changes_of(masked_from(ONSET), latency_from=1.048)


def test_a_kernel_that_is_back_ends_the_change() -> None:
    def times(night: int, label: str, time_us: float) -> float:
        return time_us * (1.4 if label == NORM and 20 <= night < 27 else 1.0)

    (change,) = changes_of(times, num_nights=32)
    assert (change.first, change.end) == (20, 27)


def test_few_nights_or_kernels_decide_nothing() -> None:
    assert not changes_of(masked_from(5), num_nights=9)
    nights = kernel_nights(43, times=masked_from(ONSET))
    chains = [
        chain for chain in chain_kernels(nights, side_of=side_of) if chain.label in (NORM, PRODUCT)
    ]
    latencies_s = np.array([night.latency_s for night in nights])
    assert not find_masked_changes(chains, latencies_s=latencies_s, floor=0.01, latency_floor=0.05)


def alert_of(rules: SeriesRules | None = None) -> list[Alert]:
    history = kernel_history(kernel_nights(43, times=masked_from(ONSET)))
    candidates = judge_kernels(history, rules=rules or SeriesRules(), side_of=side_of)
    return [candidate.alert for candidate in candidates]


def test_the_alert_names_kernel_location_and_offset() -> None:
    (alert,) = alert_of()
    assert (alert.kind, alert.metric, alert.verdict) == (MASKED, "kernel_s", Verdict.REGRESSION)
    assert (alert.first_bad.run_id, alert.state) == (f"run-{ONSET}", AlertState.OPEN)
    assert alert.last_good is not None
    assert alert.last_good.run_id == f"run-{ONSET - 1}"
    assert alert.change_pct == pytest.approx(40, abs=2)
    for part in (NORM, "`encoder`, model.py:58", f"masked by {PRODUCT} -4", "latency"):
        assert part in alert.cause_text


def test_a_masked_alert_is_minor() -> None:
    (alert,) = alert_of()
    assert severity_of(alert) is Severity.MINOR


def test_a_floor_of_the_user_counts() -> None:
    floor = SeriesSettings(pattern="bert/*#kernel_s", floor=0.2)
    assert not alert_of(SeriesRules(settings=[floor]))


def test_nothing_is_compared_across_a_new_baseline() -> None:
    (alert,) = alert_of()
    expected = {alert.series_key: frozenset([f"run-{ONSET}"])}
    assert not alert_of(SeriesRules(expected=expected))


def test_a_step_of_the_latency_at_the_revision_explains_the_kernel() -> None:
    (alert,) = alert_of()
    step = make_alert(
        case=alert.case,
        metric="latency_s",
        kind="step",
        machine=alert.machine,
        toolchain=alert.toolchain,
        first_bad=alert.first_bad,
        last_good=alert.last_good,
    )
    assert without_explained([alert], others=[step]) == []
    memory = make_alert(
        case=alert.case,
        metric="peak_bytes",
        kind="step",
        machine=alert.machine,
        toolchain=alert.toolchain,
        first_bad=alert.first_bad,
        last_good=alert.last_good,
    )
    assert without_explained([alert], others=[memory]) == [alert]


def newest(times: Times, *, num_nights: int = 90) -> KernelHistory:
    """Return the nights that are judged after `num_nights`."""
    return kernel_history(kernel_nights(num_nights, times=times)[-NUM_RESULTS:])


def test_an_alert_older_than_the_judged_nights_stays_while_its_kernel_is_slow() -> None:
    (alert,) = alert_of()
    later = newest(masked_from(ONSET))
    (candidate,) = earlier_alerts(later, stored=[alert], side_of=side_of)
    assert candidate.alert == replace(alert, last_seen=later.nights[-1].run.at)
    assert candidate.p_value is None
    assert not earlier_alerts(
        newest(masked_from(ONSET), num_nights=50), stored=[alert], side_of=side_of
    )


def test_an_old_alert_whose_kernel_is_fast_again_is_fixed() -> None:
    (alert,) = alert_of()
    slow = masked_from(ONSET)

    def times(night: int, label: str, time_us: float) -> float:
        return (steady if night >= 87 else slow)(night, label, time_us)

    (candidate,) = earlier_alerts(newest(times), stored=[alert], side_of=side_of)
    # Three nights may be a blip of the level; its median decides too.
    assert candidate.alert.state is AlertState.OPEN
    history = newest(times, num_nights=97)
    (candidate,) = earlier_alerts(history, stored=[alert], side_of=side_of)
    assert candidate.alert.state is AlertState.FIXED
    assert candidate.alert.last_seen == kernel_nights(87, times=slow)[-1].run.at
    assert candidate.alert.cause_text == alert.cause_text


def closing_reason(alert: Alert, history: KernelHistory) -> str:
    """Return the reason that is stored when `history` closes `alert`."""
    (candidate,) = earlier_alerts(history, stored=[alert], side_of=side_of)
    update = update_alerts([candidate.alert], stored=[alert], judged_runs=())
    (revision,) = update.revisions
    assert revision.alert.state is AlertState.FIXED
    assert revision.why.startswith("closed: ")
    # The next judgement changes nothing.
    assert not earlier_alerts(history, stored=[revision.alert], side_of=side_of)
    return revision.why


def test_an_old_alert_whose_kernel_no_longer_runs_is_closed_with_the_reason() -> None:
    (alert,) = alert_of()
    renamed = replace(alert, cause_text=alert.cause_text.replace(NORM, "another"))
    assert "its kernel" in closing_reason(renamed, newest(masked_from(ONSET)))


def test_an_alert_of_an_environment_that_is_gone_is_closed_with_the_reason() -> None:
    (alert,) = alert_of()
    other = replace(alert, series_key="of another environment")
    assert "its environment" in closing_reason(other, newest(masked_from(ONSET)))
    # A new environment needs nights of its own first.
    young = newest(masked_from(ONSET), num_nights=5)
    (candidate,) = earlier_alerts(young, stored=[other], side_of=side_of)
    assert candidate.alert == other
