"""hud list, runs, show, regressions: look without a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.queries.results import load_alerts, load_document, load_histories, load_runs
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import REFERENCE_FAMILY, Outcome, Run, Verdict
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.records.triage import worst_first
from compile_hud.db.shared.text import short_revision
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.tags import tags_of
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.alerting.payload import alerts_json
from compile_hud.runner.analysis.judging.machine_state import CLOCKS, machine_history, machine_text
from compile_hud.runner.cli.alerts.text import print_alerts
from compile_hud.runner.cli.output import (
    Column,
    json_option,
    print_json,
    print_table,
    say_when_empty,
    stdout,
    with_workspace,
)
from compile_hud.runner.cli.results.case_tables import print_compile, print_sweep
from compile_hud.runner.cli.results.case_text import find_case, print_case
from compile_hud.runner.cli.results.shapes_table import show_shapes
from compile_hud.runner.cli.run.command import print_results
from compile_hud.runner.cli.toolchain import show_toolchains
from compile_hud.runner.format import clock
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.workspace import Workspace

ALL_STATES = "all"


@click.group("list")
def list_group() -> None:
    """Show what there is: models, shapes, modes, suites, metrics, toolchains."""


@list_group.command()
@json_option
@with_workspace
def models(workspace: Workspace, *, as_json: bool) -> None:
    """Show the models that can be measured."""
    specs = list(workspace.config.catalog.values())
    if as_json:
        print_json(
            [
                {
                    "name": spec.name,
                    "family": spec.family,
                    "tags": list(tags_of(spec)),
                    "phases": list(spec.phases),
                    "shapes": [*spec.sizes, *spec.shapes],
                    "build": spec.build,
                    "summary": spec.summary,
                }
                for spec in specs
            ]
        )
        return
    names = ("model", "tags", "shapes", "phases", "what it stresses")
    rows = [
        (
            spec.name,
            " ".join(tags_of(spec)),
            " ".join((*spec.sizes, *spec.shapes)),
            " ".join(spec.phases),
            spec.summary,
        )
        for spec in specs
    ]
    print_table([Column(name=name) for name in names], rows=rows)


@list_group.command()
@click.option("--model", "patterns", metavar="GLOB", multiple=True, help="Models, as globs.")
@json_option
@with_workspace
def shapes(workspace: Workspace, *, patterns: tuple[str, ...], as_json: bool) -> None:
    """Show the shapes of the models, along which axes others can be named, and up to where."""
    show_shapes(workspace, patterns=patterns, as_json=as_json)


@list_group.command()
@json_option
@with_workspace
def modes(_workspace: Workspace, *, as_json: bool) -> None:
    """Show the modes and the variants of them."""
    if as_json:
        print_json(
            [
                {
                    "name": variant.name,
                    "mode": variant.mode,
                    "backend": variant.backend,
                    "dynamic": variant.dynamic,
                    "fullgraph": variant.fullgraph,
                    "phases": list(variant.phases),
                    "summary": variant.summary,
                }
                for variant in VARIANTS.values()
            ]
        )
        return
    rows = [
        (item.name, item.mode, item.backend, " ".join(item.phases), item.summary)
        for item in VARIANTS.values()
    ]
    names = ("variant", "mode", "backend", "phases", "what it is")
    print_table([Column(name=name) for name in names], rows=rows)


@list_group.command()
@json_option
@with_workspace
def suites(workspace: Workspace, *, as_json: bool) -> None:
    """Show the suites and what they select."""
    found = list(workspace.config.suites.values())
    if as_json:
        print_json(
            [
                {
                    "name": suite.name,
                    "models": list(suite.selection.models),
                    "tags": list(suite.selection.tags),
                    "exclude": list(suite.selection.exclude),
                    "modes": list(suite.selection.modes),
                    "phases": list(suite.selection.phases),
                    "dtypes": list(suite.selection.dtypes),
                    "shapes": list(suite.selection.shapes),
                    "time_budget_s": suite.time_budget_s,
                    "summary": suite.summary,
                }
                for suite in found
            ]
        )
        return
    rows = [
        (
            suite.name,
            _models_text(suite.selection),
            " ".join(suite.selection.modes),
            " ".join(suite.selection.phases),
            " ".join(suite.selection.dtypes),
            " ".join(suite.selection.shapes),
            "-" if suite.time_budget_s is None else clock(suite.time_budget_s),
            suite.summary,
        )
        for suite in found
    ]
    names = ("suite", "models", "modes", "phases", "dtypes", "shapes", "time budget", "what for")
    print_table([Column(name=name) for name in names], rows=rows)


def _models_text(selection: Selection) -> str:
    tags = f" tagged {' '.join(selection.tags)}" if selection.tags else ""
    without = f" without {' '.join(selection.exclude)}" if selection.exclude else ""
    return f"{' '.join(selection.models)}{tags}{without}"


@list_group.command()
@json_option
@with_workspace
def metrics(_workspace: Workspace, *, as_json: bool) -> None:
    """Show the metrics, their units and which way is better."""
    if as_json:
        print_json(
            [
                {
                    "name": row.name,
                    "unit": row.unit,
                    "direction": str(row.direction),
                    "relevance_floor": row.relevance_floor,
                    "judged": row.is_judged,
                    "description": row.description,
                }
                for row in METRICS.values()
            ]
        )
        return
    rows = [
        (
            row.name,
            row.unit,
            str(row.direction).replace("_", " "),
            f"{row.relevance_floor:.0%}" if row.is_judged else "not judged",
            row.description,
        )
        for row in METRICS.values()
    ]
    names = ("metric", "unit", "direction", "floor", "what it is")
    print_table([Column(name=name) for name in names], rows=rows)


@list_group.command()
@json_option
@with_workspace
def toolchains(workspace: Workspace, *, as_json: bool) -> None:
    """Show the toolchains, their torch and whether it can be imported."""
    show_toolchains(workspace, as_json=as_json)


@click.command()
@click.option("--limit", default=20, show_default=True, type=click.IntRange(min=1))
@json_option
@with_workspace
def runs(workspace: Workspace, *, limit: int, as_json: bool) -> None:
    """List the runs in the store, the newest first."""
    store = workspace.store()
    found = load_runs(store, limit=limit)
    if not found:
        say_when_empty(store)
    if as_json:
        print_json([_run_json(summary) for summary in found])
    if as_json or not found:
        return
    rows = [
        (
            summary.run.id,
            f"{summary.run.started_at:%Y-%m-%d %H:%M}",
            str(summary.run.state),
            summary.run.suite,
            summary.run.toolchain,
            short_revision(summary.run.revision),
            summary.run.machine,
            f"{summary.num_by_outcome.get(Outcome.OK, 0)}/{len(summary.run.plan)}",
        )
        for summary in found
    ]
    names = ("run", "started (UTC)", "state", "suite", "toolchain", "revision", "machine")
    columns = [*(Column(name=name) for name in names), Column(name="ok", is_number=True)]
    print_table(columns, rows=rows)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("case_name", metavar="[CASE]", required=False)
@json_option
@with_workspace
def show(workspace: Workspace, *, run_id: str, case_name: str | None, as_json: bool) -> None:
    """Show one run, or one case of it in full.

    RUN is an id, the start of one, or `latest`; CASE is a case's key, a part of it, or a glob.
    """
    store = workspace.store()
    document = load_document(store, run_id, has_kernels=as_json)
    if case_name is not None:
        result = find_case(document, case_name)
        document = replace(document, results=(result,))
    if as_json:
        print_json(document.to_json())
        return
    if case_name is not None:
        print_case(document.results[0])
        print_sweep(document.results[0])
        print_compile(document)
        return
    run = document.run
    facts = [
        ("run", run.id),
        ("state", f"{run.state}, {len(document.results)} of {len(run.plan)} cases"),
        ("started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("suite", run.suite),
        ("toolchain", run.toolchain),
        ("revision", run.revision),
        ("machine", f"{run.machine} ({run.environment.get('device_name', 'unknown device')})"),
        ("machine is", _machine_of(run, store=store)),
    ]
    console = stdout()
    for name, value in facts:
        console.print(f"{name:10} {value}", markup=False)
    console.print()
    print_results(document)
    print_compile(document)


def _machine_of(run: Run, *, store: Store) -> str:
    histories = load_histories(store, metrics=CLOCKS, family=REFERENCE_FAMILY)
    return machine_text(machine_history(histories).get(run.id, ()))


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([ALL_STATES, *(str(state) for state in AlertState)]),
    default=(str(AlertState.OPEN),),
    show_default=True,
    help="Alerts in this state; all lists every one, improvements included.",
)
@json_option
@with_workspace
def regressions(workspace: Workspace, *, states: tuple[str, ...], as_json: bool) -> None:
    """List the alerts, the worst first."""
    has_all = ALL_STATES in states
    wanted = None if has_all else [AlertState(state) for state in states]
    store = workspace.store()
    alerts = worst_first(
        alert
        for alert in load_alerts(store, states=wanted)
        if has_all or alert.verdict is Verdict.REGRESSION
    )
    if not alerts and not say_when_empty(store) and not as_json:
        click.echo(f"no alert in this state in the store {store.name}", err=True)
    if as_json:
        print_json(alerts_json(alerts, workspace=workspace))
    if as_json or not alerts:
        return
    print_alerts(alerts, at=workspace.dependencies.now())
    for line in _event_lines(alerts, store=store):
        stdout().print(line, markup=False, soft_wrap=True)


def _event_lines(alerts: Sequence[Alert], *, store: Store) -> list[str]:
    """Return a line for each event that several of `alerts` belong to, the largest first."""
    counts = Counter(alert.event_id for alert in alerts if alert.event_id)
    events = load_events(store, ids=counts)
    return [
        f"{count} alerts are one event: {events[event_id].title}"
        for event_id, count in counts.most_common()
        if count > 1 and event_id in events
    ]


def _run_json(summary: RunSummary) -> dict[str, Any]:
    document = summary.run.to_json()
    # The plan is long, and `hud show --json` has it.
    plan = document.pop("plan")
    counts = {str(outcome): num for outcome, num in summary.num_by_outcome.items()}
    return {**document, "num_planned": len(plan), "outcomes": counts}
