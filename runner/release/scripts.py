"""Write scripts that run the graphs of cases with torch alone: of a release, or of an alert."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.alerting.case_file import CaseScript
from compile_hud.runner.analysis.release.report import ReleaseReport
from compile_hud.runner.analysis.repro import glob_escape
from compile_hud.runner.errors import DocumentNotWritten, ExecutorError
from compile_hud.runner.events import LogMessage
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.planning.plan import find_names, plan_case
from compile_hud.runner.protocol.graphs import CapturedCase
from compile_hud.runner.release.recorded_sides import RecordedSide, recorded_side
from compile_hud.runner.release.script_text import SCRIPT_METRICS, AlertedChange, script_text
from compile_hud.runner.workspace import Workspace

SAME_GRAPHS = (
    "the graphs and settings of both runs are the same: run it under the torch of each run"
)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def write_scripts(
    report: ReleaseReport, *, folder: Path, workspace: Workspace
) -> Iterator[LogMessage]:
    """Write the scripts to `folder`, and yield a line for each, a warning without one.

    The models are built under the candidate. Raises DocumentNotWritten, and ExecutorError if its
    interpreter does not start.
    """
    if not report.clusters:
        return
    device = report.clusters[0].representative.pair.candidate.case.device
    executor = _executor(report.candidate.toolchain, device=device, workspace=workspace)
    try:
        executor.start()
        for number, named in enumerate(report.clusters, start=1):
            result = named.representative.pair.candidate
            case = result.case
            try:
                graphs = executor.graphs(_order(case, run_id=result.run_id, workspace=workspace))
            except (ExecutorError, UnknownNameError) as error:
                yield LogMessage(text=str(error), is_warning=True)
                continue
            path = folder / f"{number}-{_file_name(case)}.py"
            _write(path, script_text(case, candidate=graphs))
            yield LogMessage(text=f"wrote {path}")
    finally:
        executor.close()


def script_of_alert(alert: Alert, *, workspace: Workspace) -> CaseScript:
    """Return a script that runs the graphs of both runs of `alert` in turn, with torch alone.

    The note says which side is missing or uncertain, and why. Raises ExecutorError, and
    UnknownNameError for a model or a toolchain that is not there.
    """
    toolchains = workspace.config.toolchains
    find_names([glob_escape(alert.toolchain)], known=toolchains, kind="toolchain")
    executor = _executor(alert.toolchain, device=alert.case.device, workspace=workspace)
    order = _order(alert.case, run_id=alert.first_bad.run_id, workspace=workspace)
    with tempfile.TemporaryDirectory() as folder:
        after = recorded_side(
            alert.first_bad, order=order, folder=Path(folder, "after"), workspace=workspace
        )
        before = recorded_side(
            alert.last_good, order=order, folder=Path(folder, "before"), workspace=workspace
        )
        try:
            executor.start()
            candidate, after_note = _candidate(after, present=order, executor=executor)
            baseline, note = _baseline(before, executor=executor)
        finally:
            executor.close()
    if baseline == candidate:
        baseline, note = None, SAME_GRAPHS
    return CaseScript(
        text=script_text(
            alert.case, candidate=candidate, baseline=baseline, alerted=_alerted(alert)
        ),
        notes=tuple(text for text in (after_note, note) if text),
    )


def _candidate(
    side: RecordedSide, *, present: CaseOrder, executor: Executor
) -> tuple[CapturedCase, str]:
    """Return the graphs of the code that the run stored, else those of the present code."""
    if side.order is None:
        return executor.graphs(present), side.note
    try:
        return executor.graphs(side.order), side.note
    except ExecutorError as error:
        # Its files may need others that no run stored.
        return executor.graphs(present), f"the first bad run has the present code: {error}"


def _baseline(side: RecordedSide, *, executor: Executor) -> tuple[CapturedCase | None, str]:
    if side.order is None:
        return None, side.note
    try:
        return executor.graphs(side.order), side.note
    except ExecutorError as error:
        # Its files may need others that no run stored; the candidate has its script all the same.
        return None, f"the last good run has no script: {error}"


def _alerted(alert: Alert) -> AlertedChange | None:
    if alert.metric not in SCRIPT_METRICS or alert.change_pct is None or not alert.interval_pct:
        return None
    return AlertedChange(
        metric=alert.metric, change_pct=alert.change_pct, interval_pct=alert.interval_pct
    )


def _executor(toolchain: str, *, device: str, workspace: Workspace) -> Executor:
    config = workspace.config
    return executor_maker(workspace.dependencies.make_executor)(
        python=config.toolchains[toolchain],
        state_dir=config.state_dir,
        device=device,
        num_threads=config.measure.num_threads,
    )


def _order(case: Case, *, run_id: str, workspace: Workspace) -> CaseOrder:
    config = workspace.config
    planned = plan_case(case, catalog=config.catalog, variants=config.variants)
    return CaseOrder(
        run_id=run_id,
        case=case,
        workload=planned.workload,
        settings=config.measure,
    )


def _file_name(case: Case) -> str:
    return _UNSAFE.sub("-", f"{case.model}-{case.phase}-{case.dtype}-{case.variant}")[:100]


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DocumentNotWritten(
            f"cannot write {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error
