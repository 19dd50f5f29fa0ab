"""The runs that a backfill stores: one a revision, its times normalised to those of the anchor.

The anchor is measured in turn with each revision. Its time in a pair over its time in the first
pair is the pace of the machine, by which the revision's times are divided. So points of different
hours compare. The order of the points is that of the revisions, whenever each was measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from compile_hud.db.records.imported import BACKFILLED_TOOLCHAIN
from compile_hud.db.records.results import CaseResult, Measurement, Run, RunState
from compile_hud.db.shared.model_code import MODEL_COMMITS
from compile_hud.runner.backfill.record import Backfill
from compile_hud.runner.bisect.record import BisectRevision, RevisionAxis
from compile_hud.runner.execution.environment import fingerprint, revision
from compile_hud.runner.execution.model_commits import NUM_DIGITS

SUITE = "backfill"
# The fact of a run, and the detail of a result, with the anchor of its values.
BACKFILL = "backfill"
# The times that follow the pace of the machine; counts and bytes do not.
NORMALISED = ("latency_s", "latency_cpu_s")
_DEV_DATE = re.compile(r"\.dev(\d{4})(\d{2})(\d{2})")
_STEP = timedelta(seconds=1)


def times_of(result: CaseResult) -> dict[str, float]:
    """Return the medians that values are normalised by."""
    return {
        name: measured.median
        for name in NORMALISED
        if (measured := result.measurement(name)) is not None
    }


def factor_of(anchor: CaseResult, *, reference: Mapping[str, float]) -> dict[str, float]:
    """Return the factor of each time that makes that of `anchor` its `reference`."""
    return {
        name: reference[name] / median
        for name, median in times_of(anchor).items()
        if name in reference and median > 0
    }


def normalised(
    result: CaseResult, *, factors: Mapping[str, float], run_id: str, anchor: str
) -> CaseResult:
    """Return `result` as one of the run `run_id`, with its times multiplied by `factors`."""
    return replace(
        result,
        id=f"{run_id}-{result.case.key}",
        run_id=run_id,
        measurements=tuple(_scaled(item, factors.get(item.metric)) for item in result.measurements),
        details={**result.details, BACKFILL: {"anchor": anchor, "factors": dict(factors)}},
    )


def _scaled(measurement: Measurement, factor: float | None) -> Measurement:
    if factor is None:
        return measurement
    low, high = measurement.interval
    return replace(
        measurement,
        samples=tuple(factor * value for value in measurement.samples),
        warmups=tuple(factor * value for value in measurement.warmups),
        median=factor * measurement.median,
        interval=(factor * low, factor * high),
    )


def run_of(
    backfill: Backfill,
    index: int,
    *,
    facts: Mapping[str, Any],
    machine: str,
    commits: Mapping[str, str],
) -> Run:
    """Return the finished run of the revision `index`."""
    environment = {
        **facts,
        "num_threads": backfill.settings.num_threads,
        BACKFILL: {"id": backfill.id, "anchor": backfill.revisions[0].name, "index": index},
        **({MODEL_COMMITS: dict(commits)} if commits else {}),
    }
    at = dates_of(backfill.revisions, now=backfill.started_at)[index]
    named = backfill.revisions[index].name
    return Run(
        id=run_id_of(backfill, index),
        started_at=at,
        finished_at=at,
        state=RunState.FINISHED,
        suite=SUITE,
        toolchain=f"{BACKFILLED_TOOLCHAIN}:{backfill.id[:6]}",
        revision=named[:NUM_DIGITS] if backfill.axis is RevisionAxis.COMMIT else revision(facts),
        machine=machine,
        environment=environment,
        fingerprint=fingerprint(environment),
        plan=backfill.cases,
        trigger=SUITE,
    )


def run_id_of(backfill: Backfill, index: int) -> str:
    """Return the id of the run of a revision, the same after a resume."""
    return f"{BACKFILL}-{backfill.id[:6]}-{index:03d}"


def dates_of(revisions: Sequence[BisectRevision], *, now: datetime) -> list[datetime]:
    """Return a time for each revision, in their order.

    It is that of its commit, or of its nightly version. Without one for each, the points follow
    each other by a second, up to `now`.
    """
    known = [_date_of(item) for item in revisions]
    dates = [date for date in known if date is not None]
    if len(dates) < len(revisions):
        return [now - (len(revisions) - index) * _STEP for index in range(len(revisions))]
    for index in range(1, len(dates)):
        # Commits may be dated before their parents.
        dates[index] = max(dates[index], dates[index - 1] + _STEP)
    return dates


def _date_of(item: BisectRevision) -> datetime | None:
    if item.authored_at:
        return datetime.fromisoformat(item.authored_at).astimezone(timezone.utc)
    match = _DEV_DATE.search(item.name)
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    try:
        return datetime(year, month, day, tzinfo=timezone.utc)
    except ValueError:
        return None
