"""The options that select cases and their device, and the check of the model files they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click

from compile_hud.db.records.results import MEASURED_DTYPES
from compile_hud.runner.cli.completion.names import DTYPE, MODE, MODEL, PHASE, SHAPE, SUITE, TAG
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import gather_options
from compile_hud.runner.config.load import Config
from compile_hud.runner.config.settings_file import setting_error
from compile_hud.runner.config.suite_names import check_suite
from compile_hud.runner.planning.plan import DEVICES, find_suite, make_plan
from compile_hud.runner.planning.suites import QUICK, Selection, Suite, custom_suite
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest
from compile_hud.runner.workspace import Workspace

_OPTIONS = (
    click.option(
        "--suite",
        type=SUITE,
        metavar="S",
        help="A named selection. Default: quick; of `hud release` nightly.",
    ),
    click.option(
        "--model", "models", type=MODEL, metavar="GLOB", multiple=True, help="Models, as globs."
    ),
    click.option(
        "--tag", "tags", type=TAG, metavar="T", multiple=True, help="Models with a tag; globs."
    ),
    click.option(
        "--exclude", type=MODEL, metavar="GLOB", multiple=True, help="Excluded models; globs."
    ),
    click.option(
        "--mode",
        "modes",
        type=MODE,
        metavar="M",
        multiple=True,
        help="Modes or variants, as globs.",
    ),
    click.option(
        "--phase", "phases", type=PHASE, metavar="P", multiple=True, help="inference or training."
    ),
    click.option(
        "--dtype",
        "dtypes",
        type=DTYPE,
        metavar="D",
        multiple=True,
        help=f"{', '.join(MEASURED_DTYPES)}.",
    ),
    click.option(
        "--shape",
        "shapes",
        type=SHAPE,
        metavar="S",
        multiple=True,
        help="tiny, small, full, or auto; globs.",
    ),
    click.option(
        "--device",
        type=NearestChoice([AUTO_DEVICE, *DEVICES]),
        help="auto (the default) uses the GPU if there is one.",
    ),
)

_AXES = tuple(item.name for item in fields(Selection) if item.name != "also")
# The keys of hud.toml with another name than the axis.
_KEYS = {"shapes": "shape"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOptions:
    """The values of these options; empty for those that were left out."""

    suite: str | None
    models: tuple[str, ...]
    tags: tuple[str, ...]
    exclude: tuple[str, ...]
    modes: tuple[str, ...]
    phases: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[str, ...]
    device: str | None

    def option_names(self) -> list[str]:
        """Return the options that have a value, as they are typed."""
        names = [item.name for item in fields(self) if getattr(self, item.name)]
        return [f"--{name.removesuffix('s')}" for name in names]


case_options = gather_options(CaseOptions, name="cases", options=_OPTIONS)


def make_run_requests(
    cases: CaseOptions, *, toolchains: tuple[str, ...], workspace: Workspace, has_references: bool
) -> list[RunRequest]:
    """Return a request for each toolchain; raise UnknownNameError for an unknown suite.

    Raises ConfigError for a name in a suite of hud.toml that matches nothing.
    """
    suite = _choose_suite(cases, workspace=workspace)
    typed = {_KEYS.get(axis, axis) for axis in _AXES if getattr(cases, axis)}
    check_suite(suite, config=workspace.config, overridden=typed)
    return [
        RunRequest(
            suite=suite,
            toolchain=toolchain,
            device=cases.device or AUTO_DEVICE,
            has_references=has_references,
        )
        for toolchain in toolchains
    ]


def _choose_suite(cases: CaseOptions, *, workspace: Workspace) -> Suite:
    if cases.suite is None and any(getattr(cases, axis) for axis in _AXES):
        suite = custom_suite(Selection())
    else:
        suite = find_suite(cases.suite or QUICK.name, suites=workspace.config.suites)
    usual = suite.selection
    if not any(getattr(cases, axis) for axis in _AXES):
        return suite
    selection = Selection(
        models=cases.models or usual.models,
        # A user who names models means exactly these, whatever tags the suite has.
        tags=cases.tags or (() if cases.models else usual.tags),
        exclude=cases.exclude or (() if cases.models else usual.exclude),
        modes=cases.modes or usual.modes,
        phases=cases.phases or usual.phases,
        dtypes=cases.dtypes or usual.dtypes,
        shapes=cases.shapes or usual.shapes,
    )
    return replace(suite, selection=selection)


def check_model_files(requests: Sequence[RunRequest], *, config: Config) -> None:
    """Raise ConfigError, with file and line, if a model of `requests` has no file.

    The content of the file is not checked: a model that raises is a failed case. A resumed run has
    its plan already; a schedule measures the models that exist.
    """
    for request in requests:
        if request.resume_id is not None:
            continue
        device = "cpu" if request.device == AUTO_DEVICE else request.device
        plan = make_plan(
            request.suite.selection, catalog=config.catalog, variants=config.variants, device=device
        )
        for name, build in {item.case.model: item.workload.build for item in plan}.items():
            file = Path(build.partition(":")[0])
            # Any other build string is a module of the toolchain's interpreter.
            if file.suffix == ".py" and not file.is_file():
                problem = f"there is no file {file}. Its path is relative to the settings file"
                raise setting_error(
                    f"models.{name}", key="build", problem=problem, path=config.path
                )
