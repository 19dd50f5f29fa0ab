"""Alerts about kernels that became slower while the latency of their case stayed.

An alert is one for each case and onset: it names the kernel with the largest change. If the latency
itself has a step at that revision, its alert explains the change and the kernels are its cause.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from compile_hud.db.records.alerts import DRIFT, MASKED, Alert, AlertState
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Verdict, series_key
from compile_hud.db.records.summaries import KernelHistory, KernelNight
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import (
    counted,
    listed,
    one_line,
    shortened,
    signed_percent,
    signed_us,
)
from compile_hud.runner.analysis.alerts.lifecycle import CLOSED
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.false_discovery import AlertCandidate
from compile_hud.runner.analysis.detection.series_changes import STEP
from compile_hud.runner.analysis.judging.judge import alert_id
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from compile_hud.runner.analysis.kernel_series.chains import (
    KernelChain,
    chain_kernels,
    kernel_key,
)
from compile_hud.runner.analysis.kernel_series.masked_changes import (
    ChainChange,
    MaskedChange,
    at_common_speed,
    find_masked_changes,
)
from compile_hud.runner.analysis.kernels.call_locations import location_text
from compile_hud.runner.analysis.kernels.grouping import KernelSide

KERNEL_METRIC: Final = "kernel_s"
# Steps of these show what the kernels of an iteration take.
_MODEL_METRICS = ("latency_s", "latency_cpu_s")
_MAX_LABEL = 60
# A smaller offset masks nothing: it is part of the noise.
_MIN_OFFSET_SHARE = 0.1


def kernel_series_key(history: KernelHistory) -> str:
    """Return the key under which settings and alerts of the kernels of a case are stored."""
    return series_key(history.case, metric=KERNEL_METRIC, fingerprint=history.fingerprint)


def judge_kernels(
    history: KernelHistory, *, rules: SeriesRules, side_of: Callable[[KernelNight], KernelSide]
) -> list[AlertCandidate]:
    """Return the masked changes of a case, also the ones that are over.

    `side_of` returns the kernels of a night with their code. Raises RecordError for damaged ones.
    """
    rule = rules.rule_of(kernel_series_key(history))
    starts = [
        index
        for index, night in enumerate(history.nights)
        if night.run.run_id in rule.baseline_run_ids
    ]
    nights = history.nights[max(starts, default=0) :]
    changes = find_masked_changes(
        chain_kernels(nights, side_of=side_of),
        latencies_s=np.array([night.latency_s for night in nights]),
        floor=METRICS[KERNEL_METRIC].relevance_floor if rule.floor is None else rule.floor,
        latency_floor=METRICS["latency_s"].relevance_floor,
    )
    return [
        AlertCandidate(
            alert=_alert(change, history, nights=nights),
            run_id=nights[change.first].run.run_id,
            p_value=change.p_value,
        )
        for change in changes
    ]


def earlier_alerts(
    history: KernelHistory,
    *,
    stored: Iterable[Alert],
    side_of: Callable[[KernelNight], KernelSide],
) -> list[AlertCandidate]:
    """Return the ongoing masked alerts whose onset is too old to be judged again.

    They stay open while their kernel is slow. One whose kernel is back is fixed; one whose kernel
    or environment is no longer measured is closed, with the reason in its text. Raises RecordError
    for damaged kernels.
    """
    first = DEFAULT_CONFIG.min_noise_points
    nights = history.nights[first:]
    begin = nights[0].run.at if nights else None
    earlier = [
        alert
        for alert in stored
        if alert.kind == MASKED
        and alert.state in ONGOING
        and (alert.case.key, alert.machine, alert.toolchain)
        == (history.case.key, history.machine, history.toolchain)
        and (
            begin is None
            or alert.first_bad.at < begin
            or alert.series_key != kernel_series_key(history)
        )
    ]
    if not earlier:
        return []
    chains = chain_kernels(history.nights, side_of=side_of) if nights else []
    return [
        AlertCandidate(
            alert=_at_present(
                dataclasses.replace(alert, state=AlertState.OPEN), history, chains=chains
            ),
            run_id=alert.first_bad.run_id,
        )
        for alert in earlier
    ]


def _at_present(alert: Alert, history: KernelHistory, *, chains: Sequence[KernelChain]) -> Alert:
    """Return `alert` as the newest nights show it; without chains they show nothing."""
    if not chains:
        return alert
    if alert.series_key != kernel_series_key(history):
        return _closed(alert, why="its environment is no longer measured")
    latency_s = float(np.median([night.latency_s for night in history.nights]))
    table = at_common_speed(chains, latency_s=latency_s)
    if table is None or alert.baseline is None or alert.candidate is None:
        return alert
    newest = table[:, -DEFAULT_CONFIG.sustained_points :]
    own = [
        row
        for row, chain in enumerate(chains)
        if alert.cause_text.startswith(f"{_name_of(chain)} +") and not np.isnan(newest[row]).all()
    ]
    if not own:
        return _closed(alert, why="its kernel no longer runs")
    middle_s = (alert.baseline + alert.candidate) / 2
    # Kernels with one name differ in their code: the slowest one decides.
    seconds = table[max(own, key=lambda row: float(np.nanmedian(newest[row])))]
    known = np.flatnonzero(~np.isnan(seconds))
    level_s = float(np.median(seconds[known[-DEFAULT_CONFIG.baseline_points :]]))
    is_back = level_s < middle_s and bool((seconds[known][-newest.shape[1] :] < middle_s).all())
    slow = known[seconds[known] >= middle_s]
    last_seen = history.nights[slow[-1]].run.at if slow.size else alert.last_seen
    return dataclasses.replace(
        alert,
        state=AlertState.FIXED if is_back else AlertState.OPEN,
        last_seen=max(alert.last_seen, last_seen),
    )


def _closed(alert: Alert, *, why: str) -> Alert:
    text = f"{alert.cause_text}{CLOSED}{why}"
    return dataclasses.replace(alert, state=AlertState.FIXED, cause_text=text)


def without_explained(masked: Iterable[Alert], *, others: Iterable[Alert]) -> list[Alert]:
    """Return the `masked` alerts of whose case no time has a change at the same revision."""
    changes = [
        other for other in others if other.kind in (STEP, DRIFT) and other.metric in _MODEL_METRICS
    ]
    return [alert for alert in masked if not any(_is_explained(alert, other) for other in changes)]


def _is_explained(alert: Alert, other: Alert) -> bool:
    if (alert.case.key, alert.machine, alert.toolchain) != (
        other.case.key,
        other.machine,
        other.toolchain,
    ):
        return False
    # Each change lies between its last good and its first bad run; noise may move one by a run.
    begins = [(item.last_good or item.first_bad).at for item in (alert, other)]
    return begins[0] <= other.first_bad.at and begins[1] <= alert.first_bad.at


def _alert(
    change: MaskedChange,
    history: KernelHistory,
    *,
    nights: Sequence[KernelNight],
) -> Alert:
    main, first = change.slower[0], nights[change.first].run
    key = kernel_series_key(history)
    last = nights[len(nights) - 1 if change.end is None else max(change.first, change.end - 1)]
    low, high = change.interval
    return Alert(
        id=alert_id(key, kind=MASKED, first_bad_run_id=first.run_id),
        series_key=key,
        kind=MASKED,
        state=AlertState.OPEN if change.end is None else AlertState.FIXED,
        verdict=Verdict.REGRESSION,
        case=history.case,
        metric=KERNEL_METRIC,
        unit=METRICS[KERNEL_METRIC].unit,
        machine=history.machine,
        toolchain=history.toolchain,
        fingerprint=history.fingerprint,
        first_bad=first,
        last_good=nights[change.last_good].run,
        last_seen=last.run.at,
        baseline=main.before_s,
        candidate=main.after_s,
        change_pct=100 * (main.after_s / main.before_s - 1),
        interval_pct=(100 * low, 100 * high),
        cause_text=_text(change, nights=nights),
    )


def _text(change: MaskedChange, *, nights: Sequence[KernelNight]) -> str:
    main, *more = change.slower
    offsets = [
        item for item in change.offsets if -item.change_s >= _MIN_OFFSET_SHARE * main.change_s
    ]
    also = f" and {counted(len(more), 'more kernel')}" if more else ""
    masked = listed([_change_text(item) for item in offsets], limit=len(offsets))
    return (
        f"{_change_text(main)}{_location(main, nights)}{also};"
        f" {f'masked by {masked}; ' if masked else ''}"
        f"the latency changed by {signed_percent(change.latency_change)}"
    )


def _change_text(change: ChainChange) -> str:
    return f"{_name_of(change.chain)} {signed_us(change.change_s)} us"


def _name_of(chain: KernelChain) -> str:
    return shortened(one_line(chain.label.replace("aten::", "")), limit=_MAX_LABEL)


def _location(change: ChainChange, nights: Sequence[KernelNight]) -> str:
    """Return the module and line of the kernel in the newest night that has it."""
    keys = set(change.chain.keys)
    of_night = (
        [kernel for kernel in night.kernels if kernel_key(kernel) in keys]
        for night in reversed(nights)
    )
    return location_text((), next((kernels for kernels in of_night if kernels), []))
