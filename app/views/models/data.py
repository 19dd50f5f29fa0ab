"""Read the history of each model, and compute its health from the latest results."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from compile_hud.app.components.alert_rows import is_by_machine, open_alerts
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.mode_summaries import MODE_ORDER
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.urls import ModelsState
from compile_hud.app.views.models.records import ModeHealth, ModelHealth
from compile_hud.db.queries.latest import Recent, load_last_ok, load_model_summaries
from compile_hud.db.records.alerts import MISSING_WORDS, Alert, AlertState
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import is_muted, missing_cases
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.stats.estimates import robust_sd

# The noise of a model is that of the medians of this metric.
NOISE_METRIC = "latency_s"
_COMPILE_METRIC = "compile_cold_s"
# The metrics that the page reads of the latest results.
MODELS_METRICS = (_COMPILE_METRIC,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHistory:
    """The history that complements the latest results.

    `trends` are the last medians by case key and metric. `last_ok` has the time of each case's last
    ok result, `summaries` the catalog's text on each model.
    """

    trends: Recent
    last_ok: Mapping[str, datetime]
    summaries: Mapping[str, str]


@cached_read
def load_last_oks(at: StoreVersion, *, machine: str, toolchain: str) -> Mapping[str, datetime]:
    """Return the time of each case's last ok result, by its key."""
    return load_last_ok(at.store, machine=machine, toolchain=toolchain)


def load_summaries(cells: Iterable[LatestCell]) -> Mapping[str, str]:
    """Return the catalog's summary of each model when it was last measured, by model."""
    newest = {
        cell.summary.case.model: cell
        for cell in sorted(cells, key=lambda cell: cell.run_started_at)
    }
    # The ids are the key of the cache, so that filters of the page read nothing again.
    by_id = {cell.summary.id: model for model, cell in sorted(newest.items())}
    texts = _model_summaries(tuple(by_id)).value
    return {by_id[result_id]: text for result_id, text in texts.items()}


@cached_read
def _model_summaries(at: StoreVersion, result_ids: tuple[str, ...]) -> dict[str, str]:
    return load_model_summaries(at.store, result_ids)


def model_healths(
    cells: Sequence[LatestCell],
    *,
    alerts: Sequence[Alert],
    known: ModelHistory,
    now: datetime,
) -> tuple[ModelHealth, ...]:
    """Return the health of each model, by name; all input is of one machine and one toolchain.

    A missing or overdue case is bad, whatever its newest result was. The noise is the median
    over the cases of the relative difference between consecutive nights.
    """
    by_model: dict[str, list[LatestCell]] = {}
    for cell in cells:
        by_model.setdefault(cell.summary.case.model, []).append(cell)
    missing = {key: MISSING_WORDS[alert.kind] for key, alert in missing_cases(alerts).items()}
    return tuple(
        _health(
            own,
            missing=missing,
            alerts=[alert for alert in alerts if alert.case.model == model],
            known=known,
            now=now,
        )
        for model, own in sorted(by_model.items())
    )


def _compile_s_by_phase(cells: Iterable[LatestCell]) -> dict[str, float]:
    """Return the median cold compile time of mode default over the cases of each phase."""
    compiled: dict[str, list[float]] = {}
    for cell in cells:
        measured = cell.summary.measurements.get(_COMPILE_METRIC)
        if cell.summary.case.variant == MODE_ORDER[1] and measured is not None:
            compiled.setdefault(str(cell.summary.case.phase), []).append(measured.median)
    return {phase: statistics.median(values) for phase, values in compiled.items()}


def _health(
    cells: Sequence[LatestCell],
    *,
    missing: Mapping[str, str],
    alerts: Sequence[Alert],
    known: ModelHistory,
    now: datetime,
) -> ModelHealth:
    case = cells[0].summary.case
    keys = [cell.summary.case.key for cell in cells]
    noises = [noise for key in keys if (noise := _noise(known.trends.get((key, NOISE_METRIC), ())))]
    regressions = open_alerts(alerts, verdict=Verdict.REGRESSION)
    num_by_machine = sum(map(is_by_machine, regressions))
    of_code = [alert for alert in regressions if not is_by_machine(alert)]
    num_muted = sum(is_muted(alert, at=now) for alert in of_code)
    return ModelHealth(
        model=case.model,
        family=case.family,
        summary=known.summaries.get(case.model, ""),
        modes=tuple(
            _mode(variant, cells, missing=missing)
            for variant in dict.fromkeys(cell.summary.case.variant for cell in cells)
        ),
        coverage={
            name: tuple(dict.fromkeys(str(getattr(cell.summary.case, name)) for cell in cells))
            for name in ("phase", "shape", "dtype", "device")
        },
        last_ok=max((known.last_ok[key] for key in keys if key in known.last_ok), default=None),
        noise=statistics.median(noises) if noises else None,
        compile_s_by_phase=_compile_s_by_phase(cells),
        num_open=len(of_code) - num_muted,
        num_muted=num_muted,
        num_by_machine=num_by_machine,
        num_acknowledged=sum(
            alert.state is AlertState.ACKNOWLEDGED and alert.verdict is Verdict.REGRESSION
            for alert in alerts
        ),
        trend=next(
            (
                known.trends.get((cell.summary.case.key, NOISE_METRIC), ())
                for cell in cells
                if cell.summary.case.variant == MODE_ORDER[1]
            ),
            (),
        ),
    )


def _mode(variant: str, cells: Sequence[LatestCell], *, missing: Mapping[str, str]) -> ModeHealth:
    own = [cell for cell in cells if cell.summary.case.variant == variant]
    own.sort(key=lambda cell: not _is_bad(cell, missing))
    return ModeHealth(
        variant=variant,
        num_by_state=Counter(
            missing.get(cell.summary.case.key) or str(cell.summary.outcome) for cell in own
        ),
        num_bad=sum(_is_bad(cell, missing) for cell in own),
        case=own[0].summary.case,
        run_id=own[0].run_id,
    )


def _is_bad(cell: LatestCell, missing: Mapping[str, str]) -> bool:
    return cell.summary.case.key in missing or not cell.summary.outcome.is_expected


def _noise(medians: Sequence[float]) -> float | None:
    """Return the difference between consecutive nights as robust noise, None for too few of them.

    Differences exclude steps and drifts of the level from the noise.
    """
    if len(medians) <= DEFAULT_CONFIG.min_baseline_points or min(medians) <= 0:
        return None
    # A difference of two nights has twice the variance of one.
    return robust_sd(np.diff(np.log(medians)).tolist()) / math.sqrt(2)


def fitting(healths: Sequence[ModelHealth], state: ModelsState) -> list[ModelHealth]:
    """Return the models in whose name, family or summary the text of `state` occurs."""
    text = state.text.lower().strip()
    return [
        item for item in healths if text in f"{item.model} {item.family} {item.summary}".lower()
    ]
