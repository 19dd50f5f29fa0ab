"""hud run: one run now."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from db.errors import StoreError
from db.queries import load_document
from db.records import Alert, Outcome, Run, RunDocument, RunState, Verdict
from runner.commands.common import Column, print_json, print_table, stderr, stdout, with_workplace
from runner.config import CURRENT_TOOLCHAIN
from runner.detect import detect
from runner.errors import DocumentNotWritten, ResumeError
from runner.events import Said
from runner.plan import DEVICES, find_suite
from runner.progress import TerminalProgress, first_line
from runner.protocol import write_json
from runner.suites import QUICK, Selection, Suite
from runner.text import metric, mode_text
from runner.wiring import AUTO_DEVICE, RunOrder, Workplace, custom_suite, execute_order

# What a shell reports for a program that SIGINT ended.
EXIT_INTERRUPTED = 130

_REASON_WIDTH = 100
# What a narrow terminal does without: first what is the same in every row, then these.
_TOLD_ONCE = ("phase", "dtype")
_LEAST_USED = ("peak memory", "compile warm", "compile cold")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    models: tuple[str, ...]
    modes: tuple[str, ...]
    phases: tuple[str, ...]
    dtypes: tuple[str, ...]
    shape: str | None


@click.command()
@click.option("--suite", "suite_name", metavar="S", help="A named selection. Default: quick.")
@click.option("--model", "models", metavar="GLOB", multiple=True, help="Models, as globs.")
@click.option("--mode", "modes", metavar="M", multiple=True, help="Modes or variants, as globs.")
@click.option("--phase", "phases", metavar="P", multiple=True, help="inference or training.")
@click.option("--dtype", "dtypes", metavar="D", multiple=True, help="fp32, bf16, fp16-autocast.")
@click.option("--shape", metavar="S", help="tiny, small, full, or auto.")
@click.option(
    "--device",
    type=click.Choice([AUTO_DEVICE, *DEVICES]),
    default=AUTO_DEVICE,
    help="auto takes the GPU when there is one.",
)
@click.option("--toolchain", metavar="T", default=CURRENT_TOOLCHAIN, help="The torch to measure.")
@click.option(
    "--json", "json_path", metavar="PATH", help="Write the result document there; - is stdout."
)
@click.option("--no-store", is_flag=True, help="Store nothing.")
@click.option(
    "--fail-on",
    type=click.Choice(["none", "failure", "regression"]),
    default="regression",
    show_default=True,
    help="Exit with 1: never, when a case failed, or when one failed or regressed.",
)
@click.option(
    "--resume",
    "resume_id",
    metavar="RUN",
    is_flag=False,
    flag_value="latest",
    help="Measure what is left of an interrupted run (the latest, or RUN).",
)
@with_workplace
def run(
    workplace: Workplace,
    *,
    suite_name: str | None,
    models: tuple[str, ...],
    modes: tuple[str, ...],
    phases: tuple[str, ...],
    dtypes: tuple[str, ...],
    shape: str | None,
    device: str,
    toolchain: str,
    json_path: str | None,
    no_store: bool,
    fail_on: str,
    resume_id: str | None,
) -> None:
    """Measure now: compile and time each selected case, store it and judge it."""
    workplace = replace(workplace, has_store=not no_store)
    if resume_id is not None:
        order = _resume_order(resume_id, workplace=workplace)
    else:
        axes = _Axes(models=models, modes=modes, phases=phases, dtypes=dtypes, shape=shape)
        suite = _choose_suite(suite_name, axes=axes, workplace=workplace)
        order = RunOrder(suite=suite, toolchain=toolchain, device=device)
    if json_path is not None:
        _check_folder(json_path)
    document = run_in_terminal(order, workplace=workplace)
    if json_path is not None:
        _write_document(document, json_path)
    print_results(document, is_stdout_free=json_path != "-")
    if document.run.state is RunState.INTERRUPTED:
        _say_interrupted(document, has_store=not no_store)
        sys.exit(EXIT_INTERRUPTED)
    alerts = [] if no_store else judge(document, workplace=workplace)
    sys.exit(_exit_code(document, alerts=alerts, fail_on=fail_on))


def run_in_terminal(order: RunOrder, *, workplace: Workplace) -> RunDocument:
    """Execute `order` with its progress on standard error and return what came of it."""
    with TerminalProgress(stderr(), now=workplace.seams.now) as progress:
        return execute_order(order, workplace=workplace, notify=progress)


def judge(document: RunDocument, *, workplace: Workplace) -> list[Alert]:
    """Judge the stored history, say what this run brought up and return it.

    A store that is busy is only said: `hud detect` judges later.
    """
    progress = TerminalProgress(stderr(), now=workplace.seams.now)
    try:
        report = detect(workplace.store())
    except StoreError as error:
        progress(Said(text=f"not judged: {error}. `hud detect` does it later", is_warning=True))
        return []
    found = regressions_of(document.run, report.new)
    for alert in found:
        progress(Said(text=f"regression: {alert.case.key} {alert.metric}: {alert.cause_text}"))
    return found


def regressions_of(run: Run, alerts: Sequence[Alert]) -> list[Alert]:
    """Return the regressions among `alerts` on the run's machine in its toolchain.

    Not by their first bad run: a step is known on its third night, and news then.
    """
    return [
        alert
        for alert in alerts
        if (alert.machine, alert.toolchain) == (run.machine, run.toolchain)
        and alert.verdict is Verdict.REGRESSION
    ]


def print_results(document: RunDocument, *, is_stdout_free: bool = True) -> None:
    """Print a row for each result, to standard error when standard output is taken."""
    rows = [
        (
            result.case.model,
            mode_text(result),
            str(result.case.phase),
            str(result.case.dtype),
            str(result.outcome),
            metric(result, "latency_s"),
            metric(result, "speedup"),
            metric(result, "compile_cold_s"),
            metric(result, "compile_warm_s"),
            metric(result, "peak_bytes"),
            "" if result.outcome is Outcome.OK else shorten(result.reason),
        )
        for result in document.results
    ]
    names = ("model", "mode", "phase", "dtype", "outcome")
    numbers = ("latency", "speedup", "compile cold", "compile warm", "peak memory")
    columns = [
        *(Column(name=name, is_whole=name == "mode") for name in names),
        *(Column(name=name, is_number=True) for name in numbers),
        Column(name="", is_prose=True),
    ]
    same = [name for name in _TOLD_ONCE if len({row[names.index(name)] for row in rows}) == 1]
    console = stdout() if is_stdout_free else stderr()
    print_table(columns, rows=rows, spare=(*same, *_LEAST_USED), console=console)


def shorten(reason: str) -> str:
    """Return what of `reason` fits beside a row; `--json` and the dashboard have all of it."""
    line = first_line(reason)
    return line if len(line) <= _REASON_WIDTH else f"{line[: _REASON_WIDTH - 3]}..."


def _choose_suite(name: str | None, *, axes: _Axes, workplace: Workplace) -> Suite:
    named = axes.models or axes.modes or axes.phases or axes.dtypes or axes.shape
    if name is None and named:
        suite = custom_suite(Selection())
    else:
        suite = find_suite(name or QUICK.name, suites=workplace.config.suites)
    wanted = suite.selection
    selection = Selection(
        models=axes.models or wanted.models,
        modes=axes.modes or wanted.modes,
        phases=axes.phases or wanted.phases,
        dtypes=axes.dtypes or wanted.dtypes,
        shape=axes.shape or wanted.shape,
    )
    return replace(suite, selection=selection)


def _resume_order(run_id: str, *, workplace: Workplace) -> RunOrder:
    if not workplace.has_store:
        raise ResumeError("--resume needs the store; leave out --no-store")
    run = load_document(workplace.store(), run_id).run
    suites = workplace.config.suites
    return RunOrder(
        suite=suites.get(run.suite, custom_suite(Selection())),
        toolchain=run.toolchain,
        device=run.plan[0].device,
        resume_id=run.id,
    )


def _check_folder(path: str) -> None:
    """Raise DocumentNotWritten now rather than after hours of measuring."""
    folder = Path(path).parent
    if path != "-" and not folder.is_dir():
        raise DocumentNotWritten(f"cannot write {path}: there is no folder {folder}")


def _write_document(document: RunDocument, path: str) -> None:
    content = document.to_json()
    if path == "-":
        print_json(content)
        return
    try:
        write_json(Path(path), content)
    except OSError as error:
        raise DocumentNotWritten(f"cannot write {path}: {error.strerror}") from error


def _say_interrupted(document: RunDocument, *, has_store: bool) -> None:
    num_left = len(document.run.plan) - len(document.results)
    how = f"; `hud run --resume {document.run.id}` measures the rest" if has_store else ""
    text = f"interrupted: {len(document.results)} results kept, {num_left} cases left{how}"
    stderr().print(text, markup=False)


def _exit_code(document: RunDocument, *, alerts: list[Alert], fail_on: str) -> int:
    # A skipped case is one that this device cannot do; that is no failure.
    harmless = (Outcome.OK, Outcome.SKIPPED)
    has_failure = any(result.outcome not in harmless for result in document.results)
    if fail_on == "none":
        return 0
    return int(has_failure or (fail_on == "regression" and bool(alerts)))
