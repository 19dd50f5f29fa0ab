"""hud run: one run now."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.metrics import CPU_TIME, latency_name, result_latencies, speedup_name
from compile_hud.db.records.results import CaseResult, Outcome, RunDocument, RunState
from compile_hud.db.shared.text import counted, first_line, own_eager_text
from compile_hud.runner.analysis.comparison.eager_processes import of_results
from compile_hud.runner.analysis.findings.documents import document_json
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.cli.completion.names import TOOLCHAIN
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.help.next_steps import print_next
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.options import (
    CaseOptions,
    case_options,
    check_model_files,
    make_run_requests,
)
from compile_hud.runner.cli.output import print_json, with_workspace
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.run.after_run import judge, next_commands
from compile_hud.runner.cli.run.dry_run import show_dry_run
from compile_hud.runner.cli.run.nsight import watch_case
from compile_hud.runner.cli.run.nsight_commands import Tool
from compile_hud.runner.cli.run.ray import ExecutorOptions, executor_options, measure_on_ray
from compile_hud.runner.cli.tables import Column, print_table, stderr, stdout
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.errors import DocumentNotWritten, ResumeError
from compile_hud.runner.format import distinct, interval_text, metric, mode_text, quantity
from compile_hud.runner.planning.suites import Selection, custom_suite
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest, execute_together
from compile_hud.runner.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import Console

_REASON_WIDTH = 100
_LATEST = "latest"
_NUM_RUNS_SEARCHED = 1000
# A narrow terminal omits columns: first those with equal values in every row, then these.
_COMMON_AXES = ("shape", "phase", "dtype")
_INTERVAL = "95 % interval"
_NUMBERS = (
    "eager",
    "latency",
    _INTERVAL,
    "speedup",
    _INTERVAL,
    "compile cold",
    "compile warm",
    "peak memory",
)
_LEAST_USED = (_INTERVAL, "peak memory", "compile warm", "compile cold", "eager")


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "A case failed, a regression was confirmed, or the store did not take every"
        " result; --fail-on decides.",
    },
    examples=(
        "hud run",
        "hud run --suite nightly --dry-run",
        "hud run --model bert --mode eager --mode default --json out.json",
        "hud run --toolchain current --toolchain torch-2.12 --model vit",
    ),
)
@case_options
@click.option(
    "--toolchain",
    "toolchains",
    type=TOOLCHAIN,
    metavar="T",
    multiple=True,
    help="The toolchain; repeat it to measure several in turn.",
)
@click.option(
    "--json", "json_path", metavar="PATH", help="Write the result document there; - is stdout."
)
@click.option("--no-store", is_flag=True, help="Store nothing.")
@click.option(
    "--fail-on",
    type=NearestChoice(["none", "failure", "regression"]),
    default="regression",
    show_default=True,
    help="Exit with 1: never, when a case failed, or when one failed or regressed.",
)
@click.option(
    "--resume",
    "resume_id",
    metavar="RUN",
    is_flag=False,
    flag_value=_LATEST,
    help="Measure the remaining cases of an interrupted run (the latest, or RUN).",
)
@click.option(
    "--dry-run", is_flag=True, help="Measure nothing: list the cases, and about how long they take."
)
@click.option("--no-reference", is_flag=True, help="Omit the reference cases.")
@click.option(
    "--confirm/--no-confirm",
    "is_confirming",
    default=None,
    help="Re-measure suspected regressions before they count. Default: [run] confirm.",
)
@click.option(
    "--nsys",
    "tool",
    flag_value=str(Tool.NSYS),
    help="Profile one case with Nsight Systems instead.",
)
@click.option(
    "--ncu", "tool", flag_value=str(Tool.NCU), help="Profile one case with Nsight Compute instead."
)
@executor_options
@with_workspace
def run(
    workspace: Workspace,
    *,
    cases: CaseOptions,
    toolchains: tuple[str, ...],
    json_path: str | None,
    no_store: bool,
    fail_on: str,
    resume_id: str | None,
    dry_run: bool,
    no_reference: bool,
    is_confirming: bool | None,
    tool: str | None,
    executor: ExecutorOptions,
) -> None:
    """Measure now: compile, time and judge the selected cases.

    With --nsys or --ncu, print the commands that profile the one selected case with NVIDIA's tool.
    If the tool is installed, run them and store its counters with the kernels of the case.
    """
    if dry_run:
        _check_dry_run(resume_id, tool=tool, json_path=json_path, executor=executor)
    if tool is not None:
        if resume_id is not None or json_path is not None or no_store or len(toolchains) > 1:
            raise click.UsageError(
                f"--{tool} watches one case in one toolchain, and what it counts goes to the store:"
                " omit --resume, --json and --no-store"
            )
        _watch(cases, tool=Tool(tool), toolchains=toolchains, workspace=workspace)
        return
    executor.check()
    workspace = replace(workspace, has_store=not no_store)
    if is_confirming is not None:
        config = replace(workspace.config, has_confirmation=is_confirming)
        workspace = replace(workspace, config=config)
    if resume_id is not None:
        if toolchains:
            raise click.UsageError("--resume continues a run in its toolchain; omit --toolchain")
        requests = [_resume_request(resume_id, workspace=workspace, is_ray=executor.is_ray)]
    else:
        names = toolchains or (CURRENT_TOOLCHAIN,)
        requests = make_run_requests(
            cases, toolchains=names, workspace=workspace, has_references=not no_reference
        )
    if dry_run:
        show_dry_run(requests, workspace=workspace, as_json=json_path is not None)
        return
    _measure(
        requests,
        workspace=workspace,
        executor=executor,
        json_path=json_path,
        fail_on=fail_on,
    )


def _check_dry_run(
    resume_id: str | None, *, tool: str | None, json_path: str | None, executor: ExecutorOptions
) -> None:
    if resume_id is not None or tool is not None or executor.is_ray:
        raise click.UsageError("--dry-run measures nothing: omit --resume, --nsys, --ncu and Ray")
    if json_path not in (None, "-"):
        raise click.UsageError("--dry-run writes no file: give --json -")


def _measure(
    requests: Sequence[RunRequest],
    *,
    workspace: Workspace,
    executor: ExecutorOptions,
    json_path: str | None,
    fail_on: str,
) -> NoReturn:
    """Measure `requests`, store, print and judge them; exit with the code of the results."""
    no_store = not workspace.has_store
    if json_path is not None:
        _check_folder(json_path)
    measure = partial(measure_on_ray, options=executor) if executor.is_ray else measure_in_terminal
    documents = measure(requests, workspace=workspace)
    if json_path is not None:
        _write_documents(documents, json_path)
    print_results(*documents, is_stdout_free=json_path != "-")
    if documents[0].run.state is RunState.INTERRUPTED:
        _say_interrupted(documents, executor=executor, can_resume=not no_store)
        sys.exit(EXIT_INTERRUPTED)
    has_error = not no_store and _pass_on_rest(documents, workspace=workspace)
    alerts = []
    if not no_store and not has_error:
        alerts = judge(*documents, workspace=executor.measuring_workspace(workspace))
    is_stored = no_store or not workspace.spool().has_any_of({item.run.id for item in documents})
    if is_stored and not no_store and json_path != "-":
        print_next(next_commands(documents, alerts=alerts))
    sys.exit(_exit_code(documents, alerts=alerts, fail_on=fail_on, is_stored=is_stored))


def _pass_on_rest(documents: Sequence[RunDocument], *, workspace: Workspace) -> bool:
    """Drain the remaining results of these runs into the store; return whether it stays locked.

    The drain after the last case has waited for the lock already, so this one has a short timeout.
    A locked store is reported, since results outside of it are not judged.
    """
    spool = workspace.spool()
    if not spool.has_any_of({document.run.id for document in documents}):
        return False
    is_waiting = bool(spool.pending())
    report = spool.drain(workspace.store().with_short_timeout())
    for broken in report.broken:
        stderr().print(broken.text, markup=False)
    if report.error:
        stderr().print(
            "the store takes nothing yet: what was measured waits in the spool and is not judged."
            " `hud ingest` stores it, and `hud detect` judges it then",
        )
    elif is_waiting and not report.broken:
        stderr().print("the store takes results again; nothing was lost")
    return bool(report.error)


def _watch(
    cases: CaseOptions, *, tool: Tool, toolchains: tuple[str, ...], workspace: Workspace
) -> None:
    names = toolchains or (CURRENT_TOOLCHAIN,)
    (request,) = make_run_requests(
        cases, toolchains=names, workspace=workspace, has_references=False
    )
    watch_case(request, tool=tool, workspace=workspace)


def run_in_terminal(request: RunRequest, *, workspace: Workspace) -> RunDocument:
    """Execute `request` with its progress on standard error and return the run."""
    (document,) = measure_in_terminal([request], workspace=workspace)
    return document


def measure_in_terminal(
    requests: Sequence[RunRequest], *, workspace: Workspace
) -> list[RunDocument]:
    """Execute `requests` in turn with their progress on standard error and return their runs."""
    check_model_files(requests, config=workspace.config)
    with new_progress(workspace) as progress:
        return execute_together(requests, workspace=workspace, notify=progress)


def print_results(*documents: RunDocument, is_stdout_free: bool = True) -> None:
    """Print a row for each result, to standard error if standard output is used for JSON.

    The results of several runs are listed case by case, each with its toolchain or its machine.
    """
    kind, labels = _labels(documents)
    results = [
        (label, result)
        for label, document in zip(labels, documents, strict=True)
        for result in document.results
        if not result.case.is_reference and not result.is_deferred
    ]
    planned = [case.key for document in documents for case in document.run.plan]
    ranks = {key: index for index, key in enumerate(dict.fromkeys(planned))}
    results.sort(key=lambda item: ranks.get(item[1].case.key, len(ranks)))
    taken = [result.measurement("speedup") for _, result in results]
    methods = [speedup.method for speedup in taken if speedup is not None]
    latency = latency_name(
        name
        for _, result in results
        if result.measurement(name := _latencies(result)[1]) is not None
    )
    loads = [of_results(document.results) for document in documents]
    by_label = dict(zip(labels, loads, strict=True))
    rows = [
        (
            result.case.model,
            mode_text(result),
            *((label,) if len(documents) > 1 else ()),
            str(result.case.phase),
            result.case.shape,
            str(result.case.dtype),
            str(result.outcome),
            *_times(result),
            metric(result, "speedup"),
            interval_text(result.measurement("speedup")),
            metric(result, "compile_cold_s"),
            metric(result, "compile_warm_s"),
            metric(result, "peak_bytes"),
            _remark(result, own_eager=by_label[label].get(result.case.key)),
        )
        for label, result in results
    ]
    side_name = (kind,) if len(documents) > 1 else ()
    names = ("model", "mode", *side_name, "phase", "shape", "dtype", "outcome")
    columns = [
        *(Column(name=name, is_whole=name == "mode") for name in names),
        *(Column(name=latency if name == "latency" else name, is_number=True) for name in _NUMBERS),
        Column(name="", is_prose=True),
    ]
    same = [name for name in _COMMON_AXES if len({row[names.index(name)] for row in rows}) == 1]
    console = stdout() if is_stdout_free else stderr()
    if rows:
        print_table(columns, rows=rows, spare=(*same, *_LEAST_USED), console=console)
    if methods:
        console.print(f"{speedup_name(methods)}: eager over latency, in turn and on one clock")
    _print_notes(
        documents, results=[result for _, result in results], labels=labels, console=console
    )


def _remark(result: CaseResult, *, own_eager: Estimate | None) -> str:
    """Return the reason of a bad outcome, or that the load of eager's own process differed."""
    if result.outcome is not Outcome.OK:
        return shorten(result.reason)
    return "" if own_eager is None else own_eager_text(quantity(own_eager.value, unit="s"))


def _print_notes(
    documents: Sequence[RunDocument],
    *,
    results: Sequence[CaseResult],
    labels: Sequence[str],
    console: Console,
) -> None:
    for label, document in zip(labels, documents, strict=True):
        if references := _reference_text(document):
            where = f" ({label})" if len(documents) > 1 else ""
            console.print(f"reference cases{where}, {references}", markup=False)
    every = [result for document in documents for result in document.results]
    # Interleaved toolchains defer the same cases.
    if num_deferred := len({result.case.key for result in every if result.is_deferred}):
        text = f"deferred {counted(num_deferred, 'case')}: the suite's time budget was spent"
        console.print(text, markup=False)
    if warnings := warning_text(results):
        console.print(warnings, markup=False)


def _times(result: CaseResult) -> tuple[str, str, str]:
    """Return the latencies of eager and of the variant, and the interval of the second."""
    eager, latency = _latencies(result)
    return (
        metric(result, eager),
        metric(result, latency),
        interval_text(result.measurement(latency)),
    )


def _latencies(result: CaseResult) -> tuple[str, str]:
    """Return the metrics of eager and of the variant that are on the clock of the result."""
    speedup = result.measurement("speedup")
    return result_latencies(
        [item.metric for item in result.measurements],
        speedup_method="" if speedup is None else speedup.method,
    )


def _labels(documents: Sequence[RunDocument]) -> tuple[str, list[str]]:
    """Return the axis that distinguishes the runs, toolchain or machine, and the label of each."""
    machines = [document.run.machine for document in documents]
    if len(set(machines)) > 1:
        return "machine", distinct(machines)
    return "toolchain", distinct([document.run.toolchain for document in documents])


def warning_text(results: Sequence[CaseResult]) -> str:
    """Return the warnings of the results, the most frequent first; empty without any."""
    counts = Counter(code for result in results for code in {item.code for item in result.warnings})
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    counts_text = ", ".join(f"{code} ({number})" for code, number in ordered)
    warned = counted(sum(bool(result.warnings) for result in results), "result")
    if not counts_text:
        return ""
    return f"warnings on {warned}: {counts_text}; `hud show RUN CASE` says more"


def _reference_text(document: RunDocument) -> str:
    """Return the times of the reference cases after their clock, and how the others ended."""
    references = [result for result in document.results if result.case.is_reference]
    clocks = {_latencies(result)[1] for result in references if result.outcome is Outcome.OK}
    has_cpu_time = clocks == {"latency_cpu_s"}
    latency = "latency_cpu_s" if has_cpu_time else "latency_s"
    times = ", ".join(
        f"{result.case.model} {metric(result, latency)}"
        if result.outcome is Outcome.OK
        else f"{result.case.model} {result.outcome}"
        for result in references
    )
    return f"{CPU_TIME if has_cpu_time else 'wall time'}: {times}" if times else ""


def shorten(reason: str) -> str:
    """Return the start of `reason` for a row; `--json` and the dashboard have all of it."""
    line = first_line(reason)
    return line if len(line) <= _REASON_WIDTH else f"{line[: _REASON_WIDTH - 3]}..."


def _resume_request(run_id: str, *, workspace: Workspace, is_ray: bool) -> RunRequest:
    if not workspace.has_store:
        raise ResumeError("--resume needs the store; leave out --no-store")
    if run_id == _LATEST:
        # Another machine resumes its own runs.
        run_id = _unfinished_run(workspace, machine=None if is_ray else workspace.config.machine)
    run = load_document(workspace.store(), run_id).run
    suites = workspace.config.suites
    return RunRequest(
        suite=suites.get(run.suite, custom_suite(Selection())),
        toolchain=run.toolchain,
        # A cluster machine without an assigned case has no plan.
        device=run.plan[0].device if run.plan else AUTO_DEVICE,
        resume_id=run.id,
    )


def _unfinished_run(workspace: Workspace, *, machine: str | None) -> str:
    """Return the id of the newest unfinished run; `latest` if all have finished."""
    for summary in load_runs(workspace.store(), limit=_NUM_RUNS_SEARCHED):
        run = summary.run
        if run.state is not RunState.FINISHED and machine in (None, run.machine):
            return run.id
    return _LATEST


def _check_folder(path: str) -> None:
    """Raise DocumentNotWritten now rather than after hours of measuring."""
    folder = Path(path).parent
    if path != "-" and not folder.is_dir():
        raise DocumentNotWritten(
            f"cannot write {path}: there is no folder {folder}", path=path, folder=folder
        )


def _write_documents(documents: Sequence[RunDocument], path: str) -> None:
    contents = [document_json(document) for document in documents]
    content = contents[0] if len(contents) == 1 else contents
    if path == "-":
        print_json(content)
        return
    try:
        write_json(Path(path), content)
    except OSError as error:
        raise DocumentNotWritten(
            f"cannot write {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error


def _say_interrupted(
    documents: Sequence[RunDocument], *, executor: ExecutorOptions, can_resume: bool
) -> None:
    # Machines of a cluster share a plan: each run lists all remaining cases.
    plans = [documents] if executor.is_ray else [[document] for document in documents]
    for runs in plans:
        results = [result for document in runs for result in document.results]
        planned = {case for document in runs for case in document.run.plan}
        num_left = len(planned - {result.case for result in results})
        command = f"{executor.resume_command} {runs[0].run.id}"
        how = f"; `{command}` measures the rest" if can_resume else ""
        results_text = counted(len(results), "result")
        text = f"interrupted: {results_text} kept, {counted(num_left, 'case')} left{how}"
        stderr().print(text, markup=False)


def _exit_code(
    documents: Sequence[RunDocument], *, alerts: list[Alert], fail_on: str, is_stored: bool
) -> int:
    # This device cannot execute a skipped or unavailable case; that is no failure.
    results = [result for document in documents for result in document.results]
    # A run outside of the store was not judged either.
    has_failure = not is_stored or any(
        not result.outcome.is_expected and result.outcome is not Outcome.SKIPPED
        for result in results
    )
    if fail_on == "none":
        return 0
    return int(has_failure or (fail_on == "regression" and bool(alerts)))
