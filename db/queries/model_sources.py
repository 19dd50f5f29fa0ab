"""The differences of models' code between two runs, with the files that both stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from compile_hud.db.queries.kernels import load_sources
from compile_hud.db.queries.runs import load_runs_of
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Run
from compile_hud.db.shared.model_code import code_changes
from compile_hud.db.shared.model_sources import ModelCodeDiff, code_diff, source_hash
from compile_hud.db.store import Store


def load_code_diffs(
    open_store: Callable[[], Store],
    baseline: Run,
    *,
    candidate: Run,
    models: Iterable[str],
    known: Mapping[str, KernelSource] | None = None,
) -> tuple[ModelCodeDiff, ...]:
    """Return those of `models` whose own code differs between the runs, with their diffs.

    `known` are sources by hash that need no store, those of result files. The store is opened only
    for others that a run stored.
    """
    changes = code_changes(baseline, candidate=candidate, models=models)
    hashes = {
        change.model: [source_hash(run, change.model) for run in (baseline, candidate)]
        for change in changes
    }
    names = {name for both in hashes.values() for name in both if name}
    sources = dict(known or {})
    if names := names - sources.keys():
        sources |= load_sources(open_store(), names)
    return tuple(
        code_diff(
            change,
            baseline=sources.get(hashes[change.model][0]),
            candidate=sources.get(hashes[change.model][1]),
        )
        for change in changes
    )


def load_alert_diff(store: Store, alert: Alert) -> ModelCodeDiff | None:
    """Return the change of the model's code between the runs of an alert, None for the same."""
    if alert.last_good is None:
        return None
    good, bad = alert.last_good.run_id, alert.first_bad.run_id
    runs = load_runs_of(store, [good, bad])
    if good not in runs or bad not in runs:
        return None
    models = [alert.case.model]
    diffs = load_code_diffs(lambda: store, runs[good], candidate=runs[bad], models=models)
    return next(iter(diffs), None)
