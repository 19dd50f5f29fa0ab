"""Weights and compile times of the cases of a run, from the history in the store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from compile_hud.db.errors import StoreError
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.latest import load_case_seconds, load_compile_seconds
from compile_hud.db.queries.runs import load_last_measured
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.run_plan import ResolvedRun
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.planning.time_budget import Worth


def load_worth(
    run: ResolvedRun,
    *,
    catalog: Mapping[str, ModelSpec],
    writer: ResultWriter,
    notify: Notify,
) -> Worth:
    """Return the worth of the cases of `run`, equal for all if the store does not answer."""
    store = writer.store
    if store is None:
        return Worth()
    if writer.is_backing_off():
        notify(_in_plan_order(writer.error))
        return Worth()
    try:
        last_measured = load_last_measured(
            store, suite=run.suite, machine=run.machine, toolchain=run.toolchain
        )
        alerts = load_alerts(store, states=[AlertState.OPEN])
    except StoreError as error:
        notify(_in_plan_order(str(error)))
        return Worth()
    return Worth(
        last_measured=last_measured,
        suspects={alert.case.key for alert in alerts if alert.verdict is Verdict.REGRESSION},
        is_tracked=partial(_is_tracked, catalog=catalog),
    )


def load_costs(run: ResolvedRun, *, writer: ResultWriter) -> Mapping[str, float]:
    """Return the seconds that cases of `run` compiled last, by key; none without the store."""
    store = writer.store
    if store is None or writer.is_backing_off():
        return {}
    try:
        return load_compile_seconds(store, machine=run.machine, toolchain=run.toolchain)
    except StoreError:
        # The writer reports the store; without costs the night is only longer.
        return {}


def load_durations(run: ResolvedRun, *, writer: ResultWriter) -> Mapping[str, CaseSeconds]:
    """Return the seconds that cases of `run` took last, by key; none without the store."""
    store = writer.store
    if store is None or writer.is_backing_off():
        return {}
    try:
        return load_case_seconds(store, machine=run.machine, toolchain=run.toolchain)
    except StoreError:
        # The writer reports the store; the medians of the run itself replace them.
        return {}


def _in_plan_order(error: str) -> LogMessage:
    text = f"whose turn it is, the store does not say: {error}. Measuring in plan order"
    return LogMessage(text=text, is_warning=True)


def _is_tracked(case: Case, *, catalog: Mapping[str, ModelSpec]) -> bool:
    spec = catalog.get(case.model)
    shape = None if spec is None else spec.shapes.get(case.shape)
    return shape is not None and shape.is_tracked
