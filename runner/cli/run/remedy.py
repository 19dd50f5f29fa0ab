"""hud try: measure what the remedy of a finding brings."""

from __future__ import annotations

from typing import Any

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.results import load_document, load_result_summaries
from compile_hud.db.queries.runs import load_run
from compile_hud.db.records.findings import FINDING_CODES, Finding
from compile_hud.db.records.results import Run
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.analysis.findings.documents import case_findings
from compile_hud.runner.bisect.commit_comparison import CaseChange
from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.cli.compare.sentences import change_sentence, resolution_text
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.documents.cases import find_case
from compile_hud.runner.documents.comparison import row_json
from compile_hud.runner.execution.executor import Executor
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.execution.paired_launches import PairLimits
from compile_hud.runner.execution.run_plan import recorded_settings
from compile_hud.runner.format import quantity
from compile_hud.runner.planning.plan import find_named, plan_case
from compile_hud.runner.remedies.catalog import CaseRemedy, make_remedy
from compile_hud.runner.remedies.trial import TrialDependencies, try_remedy
from compile_hud.runner.workspace import Workspace

DEFAULT_MINUTES = 3.0
_LIMITS = PairLimits()


@click.command(
    "try",
    cls=ExampleCommand,
    examples=(
        "hud try latest bert/inference host-bound",
        "hud try latest 'vit/*' graph-break --minutes 5",
    ),
)
@click.argument("run_id", metavar="RUN")
@click.argument("case_name", metavar="CASE")
@click.argument("code", metavar="FINDING")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_MINUTES,
    metavar="N",
    help=f"How long it measures at most. Default: {DEFAULT_MINUTES:g}.",
)
@json_option
@with_workspace
def try_command(
    workspace: Workspace,
    *,
    run_id: str,
    case_name: str,
    code: str,
    minutes: float,
    as_json: bool,
) -> None:
    """Measure what the remedy of a finding brings.

    Launches with and without the remedy take turns. RUN is an id, the start of one, or `latest`;
    CASE is a case's key, a part of it, or a glob. FINDING is the code of one of its findings, such
    as `host-bound`. Nothing is stored.
    """
    store, config = workspace.store(), workspace.config
    run = load_run(store, run_id)
    case = find_case(load_result_summaries(store, run.id), case_name, run=run.id).case
    document = load_document(store, run.id, has_kernels=True, case_key=case.key)
    result = next(item for item in document.results if item.case.key == case.key)
    finding = _find(case_findings(document, result), code, key=case.key)
    remedy = make_remedy(case, code, catalog=config.catalog, variants=config.variants)
    settings = recorded_settings(run, default=config.measure)
    with BisectProgress(stderr(), now=workspace.dependencies.now) as progress:
        change = try_remedy(
            plan_case(case, catalog=config.catalog, variants=config.variants),
            remedy,
            settings=settings,
            limits=_LIMITS,
            case_s=60 * minutes,
            dependencies=TrialDependencies(
                executor=_executor(run, device=case.device, workspace=workspace),
                lock_dir=workspace.lock_dir(),
                now=workspace.dependencies.now,
                notify=progress,
            ),
        )
    if as_json:
        print_json(_to_json(change, finding=finding, remedy=remedy))
    else:
        for line in _lines(change, finding=finding, remedy=remedy):
            echo(line)
    if not all(side.outcome.is_success for side in (change.pair.baseline, change.pair.candidate)):
        raise click.exceptions.Exit(1)


def _find(findings: tuple[Finding, ...], code: str, *, key: str) -> Finding:
    """Return the finding with this code; raise NotFoundError."""
    for finding in findings:
        if finding.code == code:
            return finding
    names = [finding.code for finding in findings]
    # A code of another case is spelled right.
    known = [] if code in FINDING_CODES else [names, FINDING_CODES]
    near = next(filter(None, (near_names(code, codes) for codes in known)), "")
    hint = f" Did you mean {near}?" if near else ""
    raise NotFoundError(
        f"{key} has no finding {code!r}.{hint} It has {', '.join(names) or 'none'}",
        case=key,
        code=code,
    )


def _executor(run: Run, *, device: str, workspace: Workspace) -> Executor:
    config = workspace.config
    python = find_named(run.toolchain, known=config.toolchains, kind="toolchain")
    return executor_maker(workspace.dependencies.make_executor)(
        python=python,
        state_dir=config.state_dir,
        device=device,
        num_threads=config.measure.num_threads,
    )


def _lines(change: CaseChange, *, finding: Finding, remedy: CaseRemedy) -> list[str]:
    cost = "not measured" if finding.cost_s is None else quantity(finding.cost_s, unit="s")
    sentence = change_sentence(change, floor=_LIMITS.fail_above)
    resolution = resolution_text([change])
    return [
        f"{finding.code} (cost {cost}), tried with {remedy.name}: {sentence}",
        *([resolution] if resolution else []),
    ]


def _to_json(change: CaseChange, *, finding: Finding, remedy: CaseRemedy) -> dict[str, Any]:
    return {
        "finding": finding.to_json(),
        "remedy": remedy.name,
        "baseline": change.pair.baseline.case.to_json(),
        "candidate": change.pair.candidate.case.to_json(),
        "sentences": _lines(change, finding=finding, remedy=remedy),
        "num_pairs": change.num_pairs,
        "took_s": change.took_s,
        "rows": [row_json(row, fail_above=_LIMITS.fail_above) for row in change.pair.rows],
        "kernels": None if change.kernels is None else change.kernels.to_json(),
    }
