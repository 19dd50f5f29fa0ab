"""`hud run --executor ray`: the options, and the run of each machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from compile_hud.db.records.results import RunDocument
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.options import check_model_files
from compile_hud.runner.cli.output import gather_options
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.run.after_run import judge
from compile_hud.runner.cluster.resume import check_is_silent
from compile_hud.runner.cluster.setup import (
    RuntimeEnvironment,
    execute_on_ray,
    on_cluster,
    read_environment,
)
from compile_hud.runner.events import Notify
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest
from compile_hud.runner.scheduling.job_worker import JobRunner
from compile_hud.runner.workspace import Workspace

RAY = "ray"
executor_option = click.option(
    "--executor",
    "kind",
    type=NearestChoice(["local", RAY]),
    default="local",
    show_default=True,
    help="Measure on this machine, or on the nodes of a Ray cluster.",
)
_OPTIONS = (
    executor_option,
    click.option(
        "--runtime-env",
        "environment_path",
        metavar="FILE",
        help="With Ray: measure in the runtime environment in this JSON file.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """The executor of a run."""

    kind: str
    environment_path: str | None

    @property
    def is_ray(self) -> bool:
        """Return whether nodes of a cluster measure."""
        return self.kind == RAY

    @property
    def resume_command(self) -> str:
        """Return the command that continues a run, as far as the run's id."""
        return f"hud run --executor {RAY} --resume" if self.is_ray else "hud run --resume"

    def check(self) -> None:
        """Raise UsageError for options that do not combine."""
        if not self.is_ray and self.environment_path is not None:
            raise click.UsageError("--runtime-env is an option of Ray; add --executor ray")

    def environment(self) -> RuntimeEnvironment:
        """Return the runtime environment of the tasks; raise ConfigError."""
        path = self.environment_path
        return {} if path is None else read_environment(Path(path))

    def measuring_workspace(self, workspace: Workspace) -> Workspace:
        """Return `workspace`, in which the machine of a run measures its suspects again."""
        if not self.is_ray:
            return workspace
        return on_cluster(workspace, environment=self.environment())


def make_ray_runner(workspace: Workspace, *, notify: Notify) -> JobRunner:
    """Return the runner of jobs whose schedules use Ray."""
    return JobRunner(
        measure=partial(execute_on_ray, environment={}, workspace=workspace, notify=notify),
        judge=partial(judge, workspace=on_cluster(workspace, environment={})),
    )


executor_options = gather_options(ExecutorOptions, name="executor", options=_OPTIONS)


def check_device(requests: Sequence[RunRequest]) -> None:
    """Raise UsageError for requests to a cluster that name no kind of device."""
    if requests[0].device == AUTO_DEVICE:
        raise click.UsageError("--executor ray needs a kind of device: --device cuda or cpu")


def measure_on_ray(
    requests: Sequence[RunRequest], *, options: ExecutorOptions, workspace: Workspace
) -> list[RunDocument]:
    """Execute the one request on a Ray cluster with progress; return the run of each machine."""
    if len(requests) > 1:
        raise click.UsageError("--executor ray measures one toolchain at a time")
    check_device(requests)
    environment = options.environment()
    if (run_id := requests[0].resume_id) is not None:
        check_is_silent(workspace.store(), run_id, now=workspace.dependencies.now())
    check_model_files(requests, config=workspace.config)
    with new_progress(workspace) as progress:
        return execute_on_ray(
            requests[0], environment=environment, workspace=workspace, notify=progress
        )
