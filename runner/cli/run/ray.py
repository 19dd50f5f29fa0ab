"""`hud run --executor ray`: the options, and the run of each machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from compile_hud.db.records.results import RunDocument
from compile_hud.runner.cli.model_files import check_model_files
from compile_hud.runner.cli.output import gather_options, new_progress
from compile_hud.runner.cli.run.after_run import judge
from compile_hud.runner.cluster.resume import check_is_silent
from compile_hud.runner.cluster.setup import (
    RayOptions,
    address_of,
    execute_on_ray,
    on_cluster,
    read_environment,
)
from compile_hud.runner.events import Notify
from compile_hud.runner.scheduling.job_worker import Engine
from compile_hud.runner.workspace import AUTO_DEVICE, RunOrder, Workplace

RAY = "ray"
_OPTIONS = (
    click.option(
        "--executor",
        "kind",
        type=click.Choice(["local", RAY]),
        default="local",
        show_default=True,
        help="Measure on this machine, or on the nodes of a Ray cluster.",
    ),
    click.option(
        "--runtime-env",
        "environment_path",
        metavar="FILE",
        help="With Ray: measure in the runtime environment in this JSON file.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """Where to measure."""

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
        """Raise UsageError for what does not go together."""
        if not self.is_ray and self.environment_path is not None:
            raise click.UsageError("--runtime-env is an option of Ray; add --executor ray")

    def ray(self, env: Mapping[str, str]) -> RayOptions:
        """Return where the cluster is and what its tasks run under; raise ConfigError."""
        path = self.environment_path
        return RayOptions(
            address=address_of(env),
            environment={} if path is None else read_environment(Path(path)),
        )

    def place_of(self, workplace: Workplace) -> Workplace:
        """Return `workplace` where suspects are measured again by who measured them."""
        if not self.is_ray:
            return workplace
        return on_cluster(workplace, options=self.ray(workplace.seams.env))


def ray_engine(workplace: Workplace, *, notify: Notify) -> Engine:
    """Return who does the jobs of schedules that ask for Ray."""
    options = RayOptions(address=address_of(workplace.seams.env))
    return Engine(
        measure=partial(execute_on_ray, options=options, workplace=workplace, notify=notify),
        judge=partial(judge, workplace=on_cluster(workplace, options=options)),
    )


executor_options = gather_options(ExecutorOptions, name="executor", options=_OPTIONS)


def measure_on_ray(
    orders: Sequence[RunOrder], *, options: ExecutorOptions, workplace: Workplace
) -> list[RunDocument]:
    """Execute the one order on a Ray cluster, with its progress, and return each machine's run."""
    if len(orders) > 1:
        raise click.UsageError("--executor ray measures one toolchain at a time")
    if orders[0].device == AUTO_DEVICE:
        raise click.UsageError("--executor ray needs a kind of device: --device cuda or cpu")
    ray = options.ray(workplace.seams.env)
    if (run_id := orders[0].resume_id) is not None:
        check_is_silent(workplace.store(), run_id, now=workplace.seams.now())
    check_model_files(orders, config=workplace.config)
    with new_progress(workplace) as progress:
        return execute_on_ray(orders[0], options=ray, workplace=workplace, notify=progress)
