"""Set up a run on a cluster from the settings in force."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import Run, RunDocument
from compile_hud.runner.cluster.api import CasePolicy, Cluster, Nodes, Setup
from compile_hud.runner.cluster.confirm import NodeExecutor
from compile_hud.runner.cluster.coordinator import (
    MachineDocuments,
    run_on_cluster,
    run_together_on_cluster,
)
from compile_hud.runner.cluster.node import RELEASE
from compile_hud.runner.cluster.resume import load_interrupted
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.errors import ConfigError, ExecutorError
from compile_hud.runner.events import Notify
from compile_hud.runner.execution.executor import Executor
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.run_requests import (
    RunRequest,
    clean_up_after_run,
    make_run_context,
    resolve_run,
)
from compile_hud.runner.workspace import Workspace

# A Ray runtime environment; empty for none.
RuntimeEnvironment = Mapping[str, Any]


def read_environment(path: Path) -> RuntimeEnvironment:
    """Return the Ray runtime environment in a JSON file; raise ConfigError."""
    try:
        document = read_json(path)
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", path=path, reason=error.strerror
        ) from error
    except RecordError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(document, dict):
        raise ConfigError(
            f"{path} holds no Ray runtime environment: that is an object with keys such as `pip`,"
            " `conda`, `py_executable` or `env_vars`",
            path=path,
        )
    return document


def execute_on_ray(
    request: RunRequest, *, environment: RuntimeEnvironment, workspace: Workspace, notify: Notify
) -> list[RunDocument]:
    """Execute `request` on the nodes of a Ray cluster; return the runs, sorted by machine.

    Raises the errors of `run_on_cluster`, UnknownNameError for a toolchain, and ResumeError for a
    finished run.
    """
    config = workspace.config
    find_names([request.toolchain], known=config.toolchains, kind="toolchain")
    earlier: tuple[RunDocument, ...] = ()
    if request.resume_id is not None:
        earlier = load_interrupted(workspace.store(), request.resume_id)
    nodes = _connect(
        [request.toolchain], device=request.device, environment=environment, workspace=workspace
    )
    documents = run_on_cluster(
        resolve_run(request, device=request.device, config=config),
        nodes=replace(nodes, machine=request.machine),
        context=make_run_context([], device=request.device, workspace=workspace, notify=notify),
        earlier=earlier,
    )
    clean_up_after_run(workspace, notify=notify)
    return documents


def execute_together_on_ray(
    requests: Sequence[RunRequest],
    *,
    earlier: Sequence[MachineDocuments],
    policy: CasePolicy,
    workspace: Workspace,
    notify: Notify,
) -> list[MachineDocuments]:
    """Execute `requests`, which differ only in their toolchain, on the nodes of a Ray cluster.

    Returns the runs of each machine, sorted by machine; `earlier` are those of an interrupted plan.
    Raises the errors of `run_together_on_cluster`, and UnknownNameError for a toolchain.
    """
    config, device = workspace.config, requests[0].device
    toolchains = [request.toolchain for request in requests]
    find_names(toolchains, known=config.toolchains, kind="toolchain")
    machines = run_together_on_cluster(
        [resolve_run(request, device=device, config=config) for request in requests],
        nodes=_connect(toolchains, device=device, environment={}, workspace=workspace),
        context=make_run_context([], device=device, workspace=workspace, notify=notify),
        earlier=earlier,
        policy=policy,
    )
    clean_up_after_run(workspace, notify=notify)
    return machines


def on_cluster(workspace: Workspace, *, environment: RuntimeEnvironment) -> Workspace:
    """Return `workspace` with executors that confirm a run on its own machine."""

    def elsewhere(run: Run) -> Executor:
        device = run.plan[0].device
        nodes = _connect(
            [run.toolchain], device=device, environment=environment, workspace=workspace
        )
        return NodeExecutor(replace(nodes, machine=run.machine), now=workspace.dependencies.now)

    return replace(workspace, elsewhere=elsewhere)


def _connect(
    toolchains: Sequence[str], *, device: str, environment: RuntimeEnvironment, workspace: Workspace
) -> Nodes:
    if importlib.util.find_spec("ray") is None:
        raise ExecutorError("Ray is not installed; `pip install 'compile-hud[ray]'` installs it")
    # Importing Ray takes half a second, and few runs need it, so the import is here.
    module = importlib.import_module("compile_hud.runner.cluster.ray_cluster")
    cluster: Cluster = module.RayCluster(device=device, environment=environment)
    config = workspace.config
    setup = Setup(
        device=device,
        num_threads=config.measure.num_threads,
        release=RELEASE,
        # `current`, and any toolchain under a runtime environment, is the tasks' own interpreter.
        pythons=tuple(
            "" if environment or name == CURRENT_TOOLCHAIN else str(config.toolchains[name])
            for name in toolchains
        ),
        wait_idle_s=config.wait_idle_s,
    )
    return Nodes(cluster=cluster, setup=setup, trace_folder=config.state_dir / "spool")
