"""hud show: one run, or one case of it in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from compile_hud.db.queries.results import (
    load_profiled_document,
)
from compile_hud.db.queries.series import load_histories
from compile_hud.db.records.findings import Finding
from compile_hud.db.records.results import REFERENCE_FAMILY, Case, CaseResult, Run, RunDocument
from compile_hud.db.shared.model_code import revisions_text
from compile_hud.db.shared.text import counted_of, shortened
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.comparison.eager_processes import of_results
from compile_hud.runner.analysis.findings.documents import (
    case_findings,
    run_findings,
)
from compile_hud.runner.analysis.judging.machine_state import CLOCKS, machine_history, machine_text
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.results.case_tables import (
    findings_summary,
    print_caches,
    print_compilations,
    print_compile,
    print_compiler_log,
    print_findings,
    print_memory,
    print_sweep,
)
from compile_hud.runner.cli.results.case_text import print_case
from compile_hud.runner.cli.run.command import print_results
from compile_hud.runner.cli.tables import MAX_PROSE, stdout
from compile_hud.runner.config.load import Config
from compile_hud.runner.documents.results import case_document, load_case, run_document
from compile_hud.runner.documents.stored_runs import find_run
from compile_hud.runner.persistence.run_processes import mark_killed_runs_interrupted
from compile_hud.runner.remedies.catalog import RemedyError, make_remedy
from compile_hud.runner.workspace import Workspace


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud show latest",
        "hud show latest bert/inference",
        "hud show latest '*/reduce-overhead/*' --json",
    ),
)
@click.argument("run_id", metavar="RUN")
@click.argument("case_name", metavar="[CASE]", required=False)
@json_option
@with_workspace
def show(workspace: Workspace, *, run_id: str, case_name: str | None, as_json: bool) -> None:
    """Show one run, or one case of it in full.

    RUN is an id, the start of one, or `latest`; CASE is a case's key, a part of it, or a glob.
    """
    store = workspace.store()
    mark_killed_runs_interrupted(store, workspace.spool().processes)
    if as_json:
        print_json(
            run_document(store, run_id)
            if case_name is None
            else case_document(store, run_id, case_name)
        )
        return
    if case_name is not None:
        _show_case(*load_case(store, run_id, case_name), config=workspace.config)
        return
    # Most findings are about kernels; the tables need no samples.
    document = load_profiled_document(store, find_run(run_id, store=store).id)
    run = document.run
    facts = [
        ("run", run.id),
        (
            "state",
            f"{run.state}, {counted_of(len(document.results), len(run.plan), 'case')}",
        ),
        ("started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("suite", run.suite),
        ("toolchain", run.toolchain),
        ("revision", run.revision),
        *([("model code", code)] if (code := revisions_text(run)) else []),
        ("machine", f"{run.machine} ({run.environment.get('device_name') or 'unknown device'})"),
        ("stability", _stability(run, store=store)),
        ("findings", findings_summary(run_findings(document).values())),
    ]
    console = stdout()
    for name, value in facts:
        console.print(f"{name:10} {shortened(value, limit=MAX_PROSE)}", markup=False)
    console.print()
    print_results(document)
    print_compile(document)


def _show_case(document: RunDocument, result: CaseResult, *, config: Config) -> None:
    own_eager = of_results(document.results).get(result.case.key)
    findings = case_findings(document, result)
    document = replace(document, results=(result,))
    print_case(result, own_eager_s=None if own_eager is None else own_eager.value)
    print_findings(findings)
    _print_trials(document.run, result.case, findings=findings, config=config)
    print_memory(result)
    print_sweep(result)
    print_compile(document)
    print_compilations(result)
    print_caches(result)
    print_compiler_log(result)


def _print_trials(run: Run, case: Case, *, findings: Sequence[Finding], config: Config) -> None:
    """Print the commands that measure the remedies of findings, where one can run here."""
    if run.toolchain not in config.toolchains:
        return
    for finding in findings:
        try:
            remedy = make_remedy(
                case, finding.code, catalog=config.catalog, variants=config.variants
            )
        except (RemedyError, UnknownNameError):
            continue
        echo(f"try {remedy.name}: hud try {run.id} {case.key} {finding.code}")


def _stability(run: Run, *, store: Store) -> str:
    histories = load_histories(store, metrics=CLOCKS, family=REFERENCE_FAMILY)
    return machine_text(machine_history(histories).get(run.id, ()))
