"""hud compare: two runs, revisions, result files or toolchains side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.queries.model_sources import load_code_diffs
from compile_hud.db.queries.results import load_document
from compile_hud.db.records.results import CaseResult, RunDocument, RunState
from compile_hud.db.shared.text import counted_of
from compile_hud.db.store import Store
from compile_hud.models_zoo.catalog.spec import near_names
from compile_hud.runner.analysis.comparison.resolution import has_inconclusive
from compile_hud.runner.analysis.comparison.runs import (
    DEFAULT_FAIL_ABOVE,
    CaseComparison,
    compare_results,
    has_failure,
    history_of,
)
from compile_hud.runner.analysis.judging.machine_state import (
    MachineChange,
    compare_machine,
    machine_text,
)
from compile_hud.runner.bisect.commit_comparison import CommitComparison
from compile_hud.runner.cli.compare.ci_report import (
    ReportOptions,
    publish,
    report_options,
    write_report,
)
from compile_hud.runner.cli.compare.commit_markdown import commit_markdown, job_link
from compile_hud.runner.cli.compare.memory import print_memory_diff
from compile_hud.runner.cli.compare.next_steps import next_commands
from compile_hud.runner.cli.compare.repository import (
    DEFAULT_MAX_LAUNCHES,
    CommitNames,
    RepositoryOptions,
    commits_json,
    exit_code,
    measure_commits,
    print_kernels,
    repository_options,
    result_lines,
)
from compile_hud.runner.cli.compare.table import print_differences
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.exit_codes import EXIT_INCONCLUSIVE, EXIT_INTERRUPTED
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import print_next
from compile_hud.runner.cli.option_types import NearestChoice, Percentage
from compile_hud.runner.cli.options import (
    CaseOptions,
    case_options,
    check_model_files,
    make_run_requests,
)
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.detection.confirm_comparison import ComparisonConfirmer
from compile_hud.runner.detection.settle_comparison import ComparisonSettler
from compile_hud.runner.documents.comparison import differences_json, models_of, with_causes
from compile_hud.runner.documents.memory import memory_diffs
from compile_hud.runner.documents.stored_runs import (
    LATEST,
    PREVIOUS,
    find_run,
    newest_runs,
    recent_histories,
)
from compile_hud.runner.errors import NoSuchDocument
from compile_hud.runner.events import PairLaunched
from compile_hud.runner.execution.paired_launches import PairLimits, PairSide, measure_pair
from compile_hud.runner.files.json_files import read_document
from compile_hud.runner.planning.plan import make_plan
from compile_hud.runner.run_requests import RunRequest, execute_together
from compile_hud.runner.workspace import Workspace

_LIMITS = PairLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunPair:
    """Two runs and their comparison."""

    baseline: RunDocument
    candidate: RunDocument
    rows: Sequence[CaseComparison]
    machine: Sequence[MachineChange]
    machine_line: str


# Drift affects both sides alike.
_NO_CONFIRM = "--confirm is for two runs: --toolchain and --repo measure until it is clear"
_NO_SETTLE = "--settle is for two runs: --toolchain and --repo measure until it is clear"
_IN_TURN = "the same: both sides were measured in turn"


_MEASURING_OPTIONS = (
    click.option(
        "--toolchain",
        "toolchains",
        type=TOOLCHAIN,
        metavar="T",
        multiple=True,
        help="Given twice: measure both now with interleaved launches, and compare them.",
    ),
    click.option(
        "--max-launches",
        type=click.IntRange(min=2),
        metavar="N",
        help=f"Launches a side at most, while it is not clear. Default: {_LIMITS.max_launches}.",
    ),
    click.option("--no-store", is_flag=True, help="Store no results."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeasuringOptions:
    """The options of a comparison that measures both sides now."""

    toolchains: tuple[str, ...]
    max_launches: int | None
    no_store: bool

    def option_names(self) -> list[str]:
        """Return the options that only go with two toolchains."""
        names = {"--max-launches": self.max_launches is not None, "--no-store": self.no_store}
        return [name for name, is_given in names.items() if is_given]


FAIL_ON_REGRESSION, FAIL_ON_INCONCLUSIVE = "regression", "inconclusive"
_SETTLE_MINUTES = 3.0
_VERDICT_OPTIONS = (
    click.option(
        "--settle",
        "settle_minutes",
        type=click.FloatRange(min=0, min_open=True),
        is_flag=False,
        flag_value=_SETTLE_MINUTES,
        metavar="[MINUTES]",
        help="Take more launches of undecided cases of two runs, for so many minutes"
        f" ({_SETTLE_MINUTES:g} if none are named).",
    ),
    click.option(
        "--fail-on",
        type=NearestChoice([FAIL_ON_REGRESSION, FAIL_ON_INCONCLUSIVE]),
        help="Exit with 3 if some comparison cannot tell (inconclusive), or never (regression)."
        " Default: inconclusive for --repo, else regression.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerdictOptions:
    """The treatment of inconclusive comparisons."""

    settle_minutes: float | None
    fail_on: str | None


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "A significant change beyond --fail-above made something worse.",
        3: "A comparison is inconclusive: with --repo, or with --fail-on inconclusive.",
    },
    examples=(
        "hud compare previous latest",
        "hud compare before.json after.json --fail-above 3%",
        "hud compare --toolchain current --toolchain torch-2.12 --model bert",
        "hud compare --repo . v1.2 HEAD --model ranker",
    ),
)
@click.argument("baseline", required=False)
@click.argument("candidate", required=False)
@gather_options(_MeasuringOptions, name="measuring", options=_MEASURING_OPTIONS)
@repository_options
@case_options
@click.option(
    "--fail-above",
    type=Percentage(),
    default=DEFAULT_FAIL_ABOVE,
    metavar="PCT",
    help=f"The smallest relevant change. Default: {100 * DEFAULT_FAIL_ABOVE:g}%.",
)
@click.option(
    "--confirm",
    "num_confirmations",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Re-measure regressions N times, and count confirmed ones only.",
)
@gather_options(_VerdictOptions, name="verdict", options=_VERDICT_OPTIONS)
@click.option("--all", "show_all", is_flag=True, help="Show unchanged rows as well.")
@report_options
@json_option
@with_workspace
def compare(
    workspace: Workspace,
    *,
    baseline: str | None,
    candidate: str | None,
    measuring: _MeasuringOptions,
    repo: RepositoryOptions,
    cases: CaseOptions,
    fail_above: float,
    num_confirmations: int,
    verdict: _VerdictOptions,
    show_all: bool,
    report: ReportOptions,
    as_json: bool,
) -> None:
    """Compare CANDIDATE with BASELINE; exit with 1 on a regression.

    Each is a run (an id, the start of one, `latest`, `previous`), a revision or a result file
    of `hud run --json`. With --toolchain twice both toolchains are measured now instead, with
    --repo two commits: BASELINE and CANDIDATE, or the branch point and your files as they are.
    """
    names = tuple(name for name in (baseline, candidate) if name is not None)
    toolchains = measuring.toolchains
    if toolchains or repo.repository is not None:
        _check_later_launches(num_confirmations, verdict)
    if repo.repository is not None:
        limits = _limits(measuring.max_launches or DEFAULT_MAX_LAUNCHES, fail_above=fail_above)
        request = CommitNames(names=names, toolchains=toolchains, cases=cases)
        measured = measure_commits(repo, request, limits=limits, workspace=workspace)
        _show_commits(measured, fail_above=fail_above, show_all=show_all, as_json=as_json)
        _publish_commits(measured, fail_above=fail_above, report=report, workspace=workspace)
        sys.exit(_commits_exit_code(measured, fail_on=verdict.fail_on))
    options = [*cases.option_names(), *measuring.option_names()]
    _check_usage(names, toolchains=toolchains, options=options, repo=repo)
    if toolchains:
        compared = _measure(
            # A drift of the machine affects both sides alike, so there are no reference cases.
            make_run_requests(
                cases, toolchains=toolchains, workspace=workspace, has_references=False
            ),
            limits=_limits(measuring.max_launches, fail_above=fail_above),
            workspace=replace(workspace, has_store=not measuring.no_store),
        )
    else:
        compared = _load(*names, fail_above=fail_above, store=workspace.store())
        compared = _confirm(
            compared, num_runs=num_confirmations, fail_above=fail_above, workspace=workspace
        )
        compared = _settle(
            compared, verdict.settle_minutes, fail_above=fail_above, workspace=workspace
        )
    show = partial(_show, fail_above=fail_above, show_all=show_all, as_json=as_json)
    show(compared, workspace=workspace)
    if not as_json and _is_stored(names, measuring=measuring):
        _print_next(compared, workspace=workspace)
    _publish(compared, report=report, workspace=workspace)
    if toolchains and compared.baseline.run.state is RunState.INTERRUPTED:
        _say_interrupted(compared.baseline)
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(_exit_code(compared.rows, fail_on=verdict.fail_on))


def _print_next(compared: _RunPair, *, workspace: Workspace) -> None:
    commands = next_commands(
        compared.baseline,
        compared.candidate,
        rows=compared.rows,
        store=workspace.store(),
        config=workspace.config,
    )
    print_next([*commands])


def _is_stored(names: Sequence[str], *, measuring: _MeasuringOptions) -> bool:
    """Return whether both sides are runs of the store."""
    return not measuring.no_store and not any(Path(name).is_file() for name in names)


def _publish(compared: _RunPair, *, report: ReportOptions, workspace: Workspace) -> None:
    write_report(
        compared.rows,
        sides=(compared.baseline, compared.candidate),
        machine=compared.machine_line,
        options=report,
        workspace=workspace,
    )


def _check_later_launches(num_confirmations: int, verdict: _VerdictOptions) -> None:
    """Raise a usage error for options that launch again after two runs were compared."""
    if num_confirmations:
        raise click.UsageError(_NO_CONFIRM)
    if verdict.settle_minutes is not None:
        raise click.UsageError(_NO_SETTLE)


def _commits_exit_code(measured: CommitComparison, *, fail_on: str | None) -> int:
    code = exit_code(measured)
    return 0 if code == EXIT_INCONCLUSIVE and fail_on == FAIL_ON_REGRESSION else code


def _exit_code(rows: Sequence[CaseComparison], *, fail_on: str | None) -> int:
    if has_failure(rows):
        return 1
    does_fail = fail_on == FAIL_ON_INCONCLUSIVE and has_inconclusive(rows)
    return EXIT_INCONCLUSIVE if does_fail else 0


def _say_interrupted(document: RunDocument) -> None:
    num_done, num_planned = len(document.results), len(document.run.plan)
    echo(f"interrupted after {counted_of(num_done, num_planned, 'case')}", err=True)


def _show_commits(
    measured: CommitComparison, *, fail_above: float, show_all: bool, as_json: bool
) -> None:
    if as_json:
        before, after = measured.baseline.run, measured.candidate.run
        rows = differences_json(measured.rows, before=before, after=after, fail_above=fail_above)
        print_json({**rows, **commits_json(measured, floor=fail_above)})
        return
    for line in result_lines(measured, floor=fail_above):
        echo(line)
    echo()
    pair = _RunPair(
        baseline=measured.baseline,
        candidate=measured.candidate,
        rows=measured.rows,
        machine=(),
        machine_line=_IN_TURN,
    )
    _show(pair, fail_above=fail_above, show_all=show_all, as_json=False)
    print_kernels(measured)


def _publish_commits(
    measured: CommitComparison, *, fail_above: float, report: ReportOptions, workspace: Workspace
) -> None:
    link = job_link(workspace.dependencies.env)
    text = commit_markdown(measured, floor=fail_above, link=link)
    publish(text, options=report, workspace=workspace)


def _check_usage(
    names: Sequence[str],
    *,
    toolchains: Sequence[str],
    options: Sequence[str],
    repo: RepositoryOptions,
) -> None:
    if repo.option_names():
        raise click.UsageError(f"{', '.join(repo.option_names())} only with --repo PATH")
    if toolchains and (names or len(toolchains) != 2):
        raise click.UsageError("--toolchain is given twice, baseline first, and no run with it")
    if options and not toolchains:
        raise click.UsageError(f"{', '.join(options)} only with --toolchain A --toolchain B")
    if len(names) < 2 and not toolchains:
        raise click.UsageError("name two runs to compare, or --toolchain A --toolchain B")


def _load(baseline: str, candidate: str, *, fail_above: float, store: Store) -> _RunPair:
    before, after = find_documents((baseline, candidate), store=store)
    histories = recent_histories(after.run, store=store)
    rows = compare_results(before, after, fail_above=fail_above, histories=histories)
    machine = compare_machine(
        before.results,
        candidate=after.results,
        history=history_of(before, after, histories=histories),
    )
    return _RunPair(
        baseline=before,
        candidate=after,
        rows=rows,
        machine=machine,
        machine_line=_machine_line(machine, rows=rows),
    )


def _machine_line(machine: Sequence[MachineChange], *, rows: Sequence[CaseComparison]) -> str:
    """Return the verdict of the reference cases; without any, the table's column has its own."""
    if not machine and any(row.machine_ratio is not None for row in rows):
        return "by the fixed work of each launch alone: no reference case was measured"
    return machine_text(machine)


def _confirm(
    compared: _RunPair, *, num_runs: int, fail_above: float, workspace: Workspace
) -> _RunPair:
    """Return the comparison after `num_runs` re-measurements of the regressions."""
    confirmer = ComparisonConfirmer(
        num_runs=num_runs,
        fail_above=fail_above,
        workspace=workspace,
        notify=new_progress(workspace),
    )
    rows = confirmer.rows(compared.rows, baseline=compared.baseline, candidate=compared.candidate)
    return replace(compared, rows=rows)


def _settle(
    compared: _RunPair, minutes: float | None, *, fail_above: float, workspace: Workspace
) -> _RunPair:
    """Return the comparison after `minutes` of launches of the undecided cases, None for none."""
    if minutes is None:
        return compared
    settler = ComparisonSettler(
        budget=timedelta(minutes=minutes),
        fail_above=fail_above,
        workspace=workspace,
        notify=new_progress(workspace),
    )
    rows = settler.rows(
        compared.rows,
        baseline=compared.baseline,
        candidate=compared.candidate,
        histories=recent_histories(compared.candidate.run, store=workspace.store()),
    )
    return replace(compared, rows=rows)


def _show(
    compared: _RunPair,
    *,
    fail_above: float,
    show_all: bool,
    as_json: bool,
    workspace: Workspace | None = None,
) -> None:
    """Print the comparison; with `workspace` also the diffs of models' code."""
    before, after = compared.baseline.run, compared.candidate.run
    if before.id == after.id:
        echo(f"both sides are run {before.id}: nothing can differ", err=True)
    diffs = (
        ()
        if workspace is None
        else load_code_diffs(
            workspace.store,
            before,
            candidate=after,
            models=models_of(compared.rows),
            known={
                source.hash: source
                for document in (compared.baseline, compared.candidate)
                for result in document.results
                for source in result.sources
            },
        )
    )
    memory = memory_diffs(compared.rows, baseline=compared.baseline, candidate=compared.candidate)
    if as_json:
        content = differences_json(
            compared.rows, before=before, after=after, fail_above=fail_above, diffs=diffs
        )
        print_json(with_causes(content, memory=memory, machine=compared.machine))
    else:
        print_differences(
            compared.rows,
            before=before,
            after=after,
            fail_above=fail_above,
            show_all=show_all,
            diffs=diffs,
        )
        echo(f"machine {compared.machine_line}")
        # A comparison of commits prints them with its kernels.
        for key, diff in memory.items() if workspace is not None else ():
            print_memory_diff(diff, title=f"memory at the peak of {key}")


def _limits(max_launches: int | None, *, fail_above: float) -> PairLimits:
    most = max_launches or _LIMITS.max_launches
    return replace(
        _LIMITS,
        min_launches=min(_LIMITS.min_launches, most),
        max_launches=most,
        fail_above=fail_above,
    )


def _measure(
    requests: Sequence[RunRequest], *, limits: PairLimits, workspace: Workspace
) -> _RunPair:
    check_model_files(requests, config=workspace.config)
    # The device does not matter here: a plan has the same number of cases on each.
    plan = make_plan(
        requests[0].suite.selection,
        catalog=workspace.config.catalog,
        variants=workspace.config.variants,
        device="cpu",
    )
    limits = replace(limits, num_cases=len(plan))
    rows: dict[str, tuple[CaseComparison, ...]] = {}
    progress = new_progress(workspace)

    def measure_case(sides: Sequence[PairSide]) -> tuple[CaseResult, CaseResult]:
        case = sides[0].order.case
        pair = measure_pair(
            *sides,
            limits=limits,
            on_pair=lambda number: progress(PairLaunched(case=case, num_pairs=number)),
        )
        rows[case.key] = pair.rows
        return pair.baseline, pair.candidate

    with progress:
        before, after = execute_together(
            requests, workspace=workspace, notify=progress, measure_case=measure_case
        )
    # An interrupted case has rows, but no results to store.
    comparisons = [row for result in before.results for row in rows[result.case.key]]
    return _RunPair(
        baseline=before,
        candidate=after,
        rows=comparisons,
        machine=(),
        machine_line=_IN_TURN,
    )


def find_documents(names: Sequence[str], *, store: Store) -> list[RunDocument]:
    """Return the runs that `names` stand for; one NoSuchDocument names all without any."""
    documents: list[RunDocument] = []
    unknown: dict[str, NoSuchDocument | NotFoundError] = {}
    for name in names:
        try:
            documents.append(find_document(name, store=store))
        except (NoSuchDocument, NotFoundError) as error:
            unknown[name] = error
    if len(unknown) > 1 and all("name" in error.parameters for error in unknown.values()):
        near = [str(error.parameters["near"]) for error in unknown.values()]
        hint = f" Did you mean {' and '.join(filter(None, near))}?" if any(near) else ""
        raise NoSuchDocument(
            f"neither {' nor '.join(map(repr, unknown))} is a result file, a run or a revision in"
            f" the store {store.name}.{hint} `hud runs` lists what there is",
            names=tuple(unknown),
            store=store.name,
        )
    if unknown:
        raise next(iter(unknown.values()))
    return documents


def find_document(name: str, *, store: Store, has_kernels: bool = False) -> RunDocument:
    """Return the run that `name` stands for; raise NoSuchDocument when there is none."""
    path = Path(name)
    if path.is_file():
        try:
            return read_document(path)
        except OSError as error:
            raise NoSuchDocument(
                f"cannot read {path}: {error.strerror or error}", path=path, reason=str(error)
            ) from error
        except RecordError as error:
            raise NoSuchDocument(str(error), path=path, reason=str(error)) from error
    try:
        run = find_run(name, store=store)
    except NotFoundError as error:
        runs = newest_runs(store)
        if name == LATEST or any(run.id.startswith(name) for run in runs):
            # The first error is more specific: there is no run at all, or more than one.
            raise
        near = near_names(name, [LATEST, PREVIOUS, *(run.id for run in runs)])
        hint = f" Did you mean {near}?" if near else ""
        raise NoSuchDocument(
            f"{name!r} is no result file, no run and no revision in the store {store.name}.{hint}"
            " `hud runs` lists what there is",
            name=name,
            store=store.name,
            near=near,
        ) from error
    return load_document(store, run.id, has_kernels=has_kernels)
