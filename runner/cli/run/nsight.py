"""hud run --nsys, --ncu: one launch of one case under a profiler of NVIDIA."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.kernels import load_kernel_runs
from compile_hud.db.queries.results import load_result, load_result_summaries
from compile_hud.db.records.results import Case, CaseResult
from compile_hud.runner.analysis.repro import repro_command
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.kernels.counter_files import import_counters, print_report
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.run.nsight_commands import (
    Tool,
    WatchedLaunch,
    commands_of,
    csv_of,
    run_commands,
)
from compile_hud.runner.execution.worker_process import package_links
from compile_hud.runner.planning.plan import PlannedCase, find_names, make_plan
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest
from compile_hud.runner.system.locks import device_lock
from compile_hud.runner.system.toolchain_home import toolchain_home
from compile_hud.runner.workspace import Workspace

# These samples only determine a number of iterations; they are not stored.
_NUM_ROUNDS = 5
_BUDGET_S = 0.5
# More keys than this do not help to narrow a selection.
_MAX_KEYS = 5


def watch_case(request: RunRequest, *, tool: Tool, workspace: Workspace) -> None:
    """Print the commands that watch the case of `request`; run them where `tool` is installed.

    Raises UsageError unless the request plans one case on a GPU, NotFoundError when no result
    for counters is stored, ProfilerFailed and ImportFailed.
    """
    planned = _one_case(request, tool=tool, workspace=workspace)
    find_names([request.toolchain], known=workspace.config.toolchains, kind="toolchain")
    launch = _leave_request(planned, toolchain=request.toolchain, workspace=workspace)
    commands = commands_of(tool, launch)
    result = _last_profiled(planned.case, toolchain=request.toolchain, workspace=workspace)
    measure = repro_command(planned.case, toolchain=request.toolchain)
    if result is None:
        echo(measure)
    for command in commands:
        echo(command.text)
    csv = csv_of(tool, launch)
    run_name = "latest" if result is None else result.run_id
    keep = ["hud", "kernels", "counters", run_name, planned.case.key, str(csv)]
    echo(shlex.join(keep))
    if shutil.which(tool) is None:
        echo(f"{tool} is not on PATH: nothing was run", err=True)
        return
    if result is None:
        raise NotFoundError(
            f"no kernels of {planned.case.key} are stored that counters could go to: `{measure}`"
            " records them; then do this again",
            case=planned.case.key,
            measure=measure,
        )
    progress = new_progress(workspace)
    with device_lock(planned.case.device, lock_dir=workspace.lock_dir(), notify=progress):
        run_commands(commands)
    for report in import_counters([csv], result=result, store=workspace.store()):
        print_report(report)


def _one_case(request: RunRequest, *, tool: Tool, workspace: Workspace) -> PlannedCase:
    device = request.device
    if device == AUTO_DEVICE:
        device = "cuda" if workspace.dependencies.has_gpu() else "cpu"
    if device != "cuda":
        raise click.UsageError(
            f"--{tool} watches a GPU, and this would run on the CPU. --device cuda prints the"
            " commands all the same"
        )
    plan = make_plan(
        request.suite.selection,
        catalog=workspace.config.catalog,
        variants=workspace.config.variants,
        device=device,
    )
    if len(plan) != 1:
        keys = ", ".join(planned.case.key for planned in plan[:_MAX_KEYS])
        raise click.UsageError(
            f"--{tool} watches one case, and {len(plan)} are selected ({keys}"
            f"{', ...' if len(plan) > _MAX_KEYS else ''}). Narrow it with --model, --mode, --phase"
            " and --dtype"
        )
    return plan[0]


def _leave_request(planned: PlannedCase, *, toolchain: str, workspace: Workspace) -> WatchedLaunch:
    """Write the launch request into the state directory, and return its location."""
    config = workspace.config
    folder = (config.state_dir / "nsight" / planned.case.key.replace("/", "-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    request = LaunchRequest(
        case=planned.case,
        workload=planned.workload,
        settings=_settings(config.measure),
        launch=0,
        cache_dir=str(folder / "cache"),
        report_path=str(folder / "report.json"),
        log_path="",
        is_watched=True,
    )
    path = folder / "request.json"
    write_json(path, request.to_json())
    python = config.toolchains[toolchain]
    packages = package_links(toolchain_home(config.state_dir, python=python))
    inherited = os.environ.get("PYTHONPATH")
    python_path = os.pathsep.join([str(packages), *([inherited] if inherited else [])])
    return WatchedLaunch(request=path, python=python, python_path=python_path)


def _settings(measure: MeasureSettings) -> MeasureSettings:
    return replace(
        measure, num_launches=1, max_launches=1, num_rounds=_NUM_ROUNDS, budget_s=_BUDGET_S
    )


def _last_profiled(case: Case, *, toolchain: str, workspace: Workspace) -> CaseResult | None:
    """Return the newest result of `case` here, on this machine in `toolchain`, with kernels."""
    store = workspace.store()
    scope = (workspace.config.machine, toolchain)
    for run in reversed(load_kernel_runs(store, case.key)):
        if (run.machine, run.toolchain) == scope:
            results = load_result_summaries(store, run.run_id)
            return load_result(
                store, next(item.id for item in results if item.case.key == case.key)
            )
    return None
