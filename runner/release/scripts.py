"""Write a script for each cluster of a release, which runs its representative with torch alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from compile_hud.db.records.results import Case
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.analysis.release.report import ReleaseReport
from compile_hud.runner.analysis.repro import glob_escape
from compile_hud.runner.errors import DocumentNotWritten, ExecutorError
from compile_hud.runner.events import LogMessage
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.planning.plan import find_names, plan_case
from compile_hud.runner.workspace import Workspace

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
            case = named.representative.pair.candidate.case
            try:
                text = executor.script(
                    _order(case, run_id=report.candidate.id, workspace=workspace)
                )
            except (ExecutorError, UnknownNameError) as error:
                yield LogMessage(text=str(error), is_warning=True)
                continue
            path = folder / f"{number}-{_file_name(case)}.py"
            _write(path, text)
            yield LogMessage(text=f"wrote {path}")
    finally:
        executor.close()


def script_of_case(case: Case, *, toolchain: str, run_id: str, workspace: Workspace) -> str:
    """Return a script that runs the graphs of `case` with torch alone.

    Raises ExecutorError, and UnknownNameError for a model or a toolchain that is not there.
    """
    toolchains = workspace.config.toolchains
    find_names([glob_escape(toolchain)], known=toolchains, kind="toolchain")
    executor = _executor(toolchain, device=case.device, workspace=workspace)
    try:
        executor.start()
        return executor.script(_order(case, run_id=run_id, workspace=workspace))
    finally:
        executor.close()


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
