"""The options of `hud release`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import click

from compile_hud.runner.analysis.release.runs import MAX_LAUNCHES, MIN_LAUNCHES
from compile_hud.runner.cli.compare.command import FAIL_ON_INCONCLUSIVE, FAIL_ON_REGRESSION
from compile_hud.runner.cli.option_types import Duration, NearestChoice, Percentage
from compile_hud.runner.cli.options import CaseOptions
from compile_hud.runner.cli.output import gather_options
from compile_hud.runner.cli.run.ray import RAY, executor_option

_OPTIONS = (
    click.option(
        "--budget",
        type=Duration(),
        metavar="TIME",
        help="Measure for so long, such as 12m or 8h. Default: until every case is decided.",
    ),
    click.option(
        "--max-launches",
        type=click.IntRange(min=MIN_LAUNCHES),
        metavar="N",
        help=f"Launches of each side of a case at most. Default: {MAX_LAUNCHES}.",
    ),
    click.option(
        "--fail-above",
        type=Percentage(),
        metavar="PCT",
        help="The smallest relevant change. Default: 5%.",
    ),
    click.option(
        "--fail-on",
        type=NearestChoice([FAIL_ON_REGRESSION, FAIL_ON_INCONCLUSIVE]),
        default=FAIL_ON_REGRESSION,
        show_default=True,
        help="Also exit with 3 if a case is not decided (inconclusive).",
    ),
    click.option(
        "--scripts",
        "scripts_folder",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="FOLDER",
        help="Write a script to FOLDER for each cluster, which needs torch alone.",
    ),
    executor_option,
    click.option("--resume", is_flag=True, help="Measure the cases that an earlier call left."),
    click.option("--report", "report_only", is_flag=True, help="Measure nothing: show the newest."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions:
    """The options of the measurement and its verdict."""

    budget: timedelta | None
    max_launches: int | None
    fail_above: float | None
    fail_on: str
    scripts_folder: Path | None
    kind: str
    resume: bool
    report_only: bool

    @property
    def is_ray(self) -> bool:
        """Return whether nodes of a cluster measure."""
        return self.kind == RAY

    def measuring_names(self) -> list[str]:
        """Return the options that only a new release takes, as they are typed."""
        names = {"--max-launches": self.max_launches, "--fail-above": self.fail_above}
        return [name for name, value in names.items() if value is not None]


release_options = gather_options(ReleaseOptions, name="options", options=_OPTIONS)


def check_usage(options: ReleaseOptions, *, cases: CaseOptions) -> None:
    """Raise UsageError for options that an earlier release has answered already."""
    new = [*cases.option_names(), *options.measuring_names()]
    if options.resume and new:
        raise click.UsageError(f"--resume goes on with the same cases: leave out {', '.join(new)}")
    if options.report_only:
        new += ["--resume"] * options.resume + ["--budget"] * (options.budget is not None)
        new += ["--executor"] * options.is_ray
        if new:
            raise click.UsageError(f"--report measures nothing: leave out {', '.join(new)}")
