"""hud list: models, shapes, modes, suites, metrics and toolchains."""

from __future__ import annotations

import click

from compile_hud.db.records.metrics import METRICS
from compile_hud.models_zoo.catalog.tags import tags_of
from compile_hud.runner.cli.completion.names import MODEL
from compile_hud.runner.cli.help.examples import ExampleGroup
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.results.shapes_table import show_shapes
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.cli.toolchain import show_toolchains
from compile_hud.runner.documents.series import metrics_json
from compile_hud.runner.format import clock
from compile_hud.runner.planning.suites import Selection
from compile_hud.runner.workspace import Workspace


@click.group("list", cls=ExampleGroup)
def list_group() -> None:
    """List models, shapes, modes, suites, metrics and toolchains."""


@list_group.command(
    examples=("hud list models",),
)
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


@list_group.command(
    examples=("hud list shapes --model 'gpt*'",),
)
@click.option(
    "--model", "patterns", type=MODEL, metavar="GLOB", multiple=True, help="Models, as globs."
)
@json_option
@with_workspace
def shapes(workspace: Workspace, *, patterns: tuple[str, ...], as_json: bool) -> None:
    """Show the shapes of the models, and the limits of others."""
    show_shapes(workspace, patterns=patterns, as_json=as_json)


@list_group.command(
    examples=("hud list modes",),
)
@json_option
@with_workspace
def modes(workspace: Workspace, *, as_json: bool) -> None:
    """Show the modes and their variants."""
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
                    "settings": variant.compile.flat,
                    "summary": variant.summary,
                }
                for variant in workspace.config.variants.values()
            ]
        )
        return
    rows = [
        (item.name, item.mode, item.backend, " ".join(item.phases), item.summary)
        for item in workspace.config.variants.values()
    ]
    names = ("variant", "mode", "backend", "phases", "what it is")
    print_table([Column(name=name) for name in names], rows=rows)


@list_group.command(
    examples=("hud list suites",),
)
@json_option
@with_workspace
def suites(workspace: Workspace, *, as_json: bool) -> None:
    """Show the suites and their selections."""
    suites = list(workspace.config.suites.values())
    if as_json:
        print_json(
            [
                {
                    "name": suite.name,
                    **_selection_json(suite.selection),
                    "also": [_selection_json(part) for part in suite.selection.also],
                    "time_budget_s": suite.time_budget_s,
                    "summary": suite.summary,
                }
                for suite in suites
            ]
        )
        return
    rows = [
        (
            suite.name,
            _models_text(part),
            " ".join(part.modes),
            " ".join(part.phases),
            " ".join(part.dtypes),
            " ".join(part.shapes),
            "-" if suite.time_budget_s is None else clock(suite.time_budget_s),
            suite.summary if part is suite.selection else f"also in {suite.name}",
        )
        for suite in suites
        for part in suite.selection.all
    ]
    names = ("suite", "models", "modes", "phases", "dtypes", "shapes", "time budget", "what for")
    print_table([Column(name=name) for name in names], rows=rows)


def _selection_json(selection: Selection) -> dict[str, list[str]]:
    return {
        name: list(getattr(selection, name))
        for name in ("models", "tags", "exclude", "modes", "phases", "dtypes", "shapes")
    }


def _models_text(selection: Selection) -> str:
    tags = f" tagged {' '.join(selection.tags)}" if selection.tags else ""
    without = f" without {' '.join(selection.exclude)}" if selection.exclude else ""
    return f"{' '.join(selection.models)}{tags}{without}"


@list_group.command(
    examples=("hud list metrics",),
)
@json_option
@with_workspace
def metrics(_workspace: Workspace, *, as_json: bool) -> None:
    """Show the metrics, their units and directions."""
    if as_json:
        print_json(metrics_json())
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


@list_group.command(
    examples=("hud list toolchains",),
)
@json_option
@with_workspace
def toolchains(workspace: Workspace, *, as_json: bool) -> None:
    """Show the toolchains and whether their torch can be imported."""
    show_toolchains(workspace, as_json=as_json)
