"""Set up a run on a cluster from the settings in force."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import Run, RunDocument
from compile_hud.runner.cluster.api import Cluster, Setup
from compile_hud.runner.cluster.confirm import NodeExecutor
from compile_hud.runner.cluster.coordinator import Nodes, run_on_cluster
from compile_hud.runner.cluster.node import RELEASE
from compile_hud.runner.cluster.resume import load_interrupted
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.errors import ConfigError, ExecutorError
from compile_hud.runner.events import Notify
from compile_hud.runner.execution.executor import Executor, MakeExecutor
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.planning.plan import find_names
from compile_hud.runner.run_requests import (
    RunRequest,
    clean_up_after_run,
    make_run_context,
    resolve_run,
)
from compile_hud.runner.workspace import Workspace

# Ray itself uses these names for the cluster's address.
ADDRESS_VARIABLE = "RAY_ADDRESS"
THIS_MACHINE = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class RayOptions:
    """The cluster's address and the Ray runtime environment of its tasks; empty for none."""

    address: str
    environment: Mapping[str, Any] = field(default_factory=dict)


def cluster_address(env: Mapping[str, str]) -> str:
    """Return the cluster address of `env`, by default the cluster on this machine."""
    return env.get(ADDRESS_VARIABLE) or THIS_MACHINE


def read_environment(path: Path) -> dict[str, Any]:
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
    request: RunRequest, *, options: RayOptions, workspace: Workspace, notify: Notify
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
    resolved = resolve_run(request, device=request.device, config=config)
    python = config.toolchains[request.toolchain]
    documents = run_on_cluster(
        resolved,
        nodes=Nodes(
            cluster=_connect(options, device=request.device),
            setup=Setup(
                device=request.device,
                num_threads=config.measure.num_threads,
                release=RELEASE,
                python=_node_python(request.toolchain, python=python, options=options),
                wait_idle_s=config.wait_idle_s,
            ),
            trace_folder=config.state_dir / "spool",
            machine=request.machine,
        ),
        context=make_run_context([], device=request.device, workspace=workspace, notify=notify),
        earlier=earlier,
    )
    clean_up_after_run(workspace, notify=notify)
    return documents


def on_cluster(workspace: Workspace, *, options: RayOptions) -> Workspace:
    """Return `workspace` with executors that confirm a run on its own machine."""
    return replace(
        workspace, elsewhere=partial(_executors_on, options=options, workspace=workspace)
    )


def _executors_on(run: Run, *, options: RayOptions, workspace: Workspace) -> MakeExecutor:
    config = workspace.config

    def make(*, python: Path, state_dir: Path, device: str, num_threads: int = 1) -> Executor:
        del state_dir  # The machine has one of its own.
        return NodeExecutor(
            _connect(options, device=device),
            machine=run.machine,
            setup=Setup(
                device=device,
                num_threads=num_threads,
                release=RELEASE,
                python=_node_python(run.toolchain, python=python, options=options),
                wait_idle_s=config.wait_idle_s,
            ),
            now=workspace.dependencies.now,
        )

    return make


def _node_python(toolchain: str, *, python: Path, options: RayOptions) -> str:
    """Return the interpreter of a toolchain on the nodes, empty for the tasks' own.

    Its path is the same on every node. The toolchain `current`, and any toolchain under a Ray
    runtime environment, is the tasks' own interpreter.
    """
    is_theirs = bool(options.environment) or toolchain == CURRENT_TOOLCHAIN
    return "" if is_theirs else str(python)


def _connect(options: RayOptions, *, device: str) -> Cluster:
    if importlib.util.find_spec("ray") is None:
        raise ExecutorError("Ray is not installed; `pip install 'compile-hud[ray]'` installs it")
    # Importing Ray takes half a second, and few runs need it, so the import is here.
    module = importlib.import_module("compile_hud.runner.cluster.ray_cluster")
    cluster: Cluster = module.RayCluster(
        address=options.address, device=device, environment=options.environment
    )
    return cluster
