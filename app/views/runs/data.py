"""Read a run with its results and their findings, and the log of a run in progress."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.latest_results import load_machine_moves
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.views.runs.shape_sweep import SweepValues, Swept, SweptShape
from compile_hud.db.jobs.live_log import STATE_VARIABLE, LiveLog, find_live_log
from compile_hud.db.jobs.queue import get_live_log
from compile_hud.db.queries.alerts import (
    load_alerts_since,
)
from compile_hud.db.queries.results import (
    load_profiled_document,
    load_result_summaries,
    load_variants,
)
from compile_hud.db.queries.runs import load_run
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.findings import Finding
from compile_hud.runner.analysis.comparison.eager_processes import of_summaries
from compile_hud.runner.analysis.findings.documents import (
    case_findings,
    new_findings,
    run_findings,
)
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.rounds import speedups

Findings = tuple[Finding, ...]


def load_new_findings(alert: Alert) -> Findings:
    """Return the findings of the first bad run of `alert` that its last good run lacks."""
    if alert.last_good is None or alert.metric == OUTCOME:
        return ()
    return _new_findings(alert.last_good.run_id, alert.first_bad.run_id, alert.case.key).value


@cached_read
def _new_findings(at: StoreVersion, good_id: str, bad_id: str, case_key: str) -> Findings:
    documents = load_variants(at.store, [(good_id, case_key), (bad_id, case_key)])
    if not {good_id, bad_id} <= documents.keys():
        return ()
    return new_findings(documents[good_id], documents[bad_id], case_key=case_key)


@cached_read
def load_case_findings(at: StoreVersion, run_id: str, case_key: str) -> Findings:
    """Return the findings of a case in a run, none if the run was pruned or lacks the case."""
    document = load_variants(at.store, [(run_id, case_key)]).get(run_id)
    if document is None:
        return ()
    result = next((item for item in document.results if item.case.key == case_key), None)
    return () if result is None else case_findings(document, result)


@cached_read
def load_run_page(at: StoreVersion, run_id: str) -> RunPage:
    """Return a run with its results; an empty id means the latest run.

    Raises NotFoundError when there is no such run.
    """
    store = at.store
    run = load_run(store, run_id or "latest")
    results = load_result_summaries(store, run.id)
    return RunPage(
        run=run,
        results=results,
        alerts=load_alerts_since(store, run.id),
        machine=load_machine_moves.read_at(at).get(run.id, ()),
        own_eager_s={key: own.value for key, own in of_summaries(results).items()},
        findings=run_findings(load_profiled_document(store, run.id)),
    )


def load_local_log(run_id: str) -> LiveLog | None:
    """Return the output of the running case, if the run is on this machine."""
    folder = os.environ.get(STATE_VARIABLE)
    return find_live_log(Path(folder), run_id) if folder else None


@cached_read
def load_stored_log(at: StoreVersion, run_id: str) -> LiveLog | None:
    """Return the output of the case of a run up to the last heartbeat of the run."""
    with at.store.read() as connection:
        return get_live_log(connection, run_id)


def sweep_of(details: Mapping[str, Any]) -> SweepValues | None:
    """Return the sweep of a case result with its medians and intervals, None where it has none."""
    shapes = details.get("shapes")
    if not isinstance(shapes, Mapping) or not shapes.get("rows"):
        return None
    return SweepValues(
        axis=str(shapes["axis"]),
        own=int(shapes["own"]),
        clock=str(shapes["clock"]),
        shapes=tuple(map(_swept_shape, shapes["rows"])),
    )


def _swept_shape(row: Mapping[str, Any]) -> SweptShape:
    return SweptShape(
        value=row["value"],
        eager=_swept(row["eager_s"]),
        variant=_swept(row["variant_s"]),
        speedup=_swept(speedups(row)),
        num_rounds=len(row["variant_s"]),
        num_recompiles=row["num_recompiles"],
        compile_s=row["compile_s"],
        guards=tuple(str(recompile["reason"]) for recompile in row["recompiles"]),
        has_given_up=row["has_given_up"],
        reason=row["reason"],
    )


def _swept(samples: Sequence[float]) -> Swept:
    interval = estimate(samples)
    return Swept(median=interval.value, low=interval.low, high=interval.high)
