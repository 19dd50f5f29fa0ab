"""The setup of a bisection: the revisions, the case, and the executor."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click

from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX
from compile_hud.runner.analysis.repro import glob_escape
from compile_hud.runner.bisect.record import Bisection, BisectRevision, Limits, RevisionAxis
from compile_hud.runner.bisect.revisions import CommitRevisions, Revisions, ToolchainRevisions
from compile_hud.runner.bisect.worktrees import Worktrees, find_root, list_commits
from compile_hud.runner.cli.options import CaseOptions, make_run_requests
from compile_hud.runner.cli.toolchain import find_python, make_install_dependencies
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.errors import BisectError
from compile_hud.runner.events import Notify
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.planning.plan import PlannedCase, find_names, make_plan, plan_case
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.run_requests import AUTO_DEVICE
from compile_hud.runner.toolchains.torch_releases import (
    TorchSource,
    TorchToolchains,
    expand,
    list_versions,
)
from compile_hud.runner.workspace import Workspace

_NUM_SHOWN = 4
_OUR_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """The options that name revisions, as they were typed."""

    torch: tuple[str, ...]
    is_nightly: bool
    index_url: str | None
    python: str | None
    toolchains: tuple[str, ...]
    repository: Path | None
    good: str | None
    bad: str | None

    def has_any(self) -> bool:
        """Return whether any option names a revision."""
        return any(getattr(self, item.name) for item in fields(self))

    def with_more(self, names: Sequence[str]) -> BisectOptions:
        """Return this with `names` after the one torch or toolchain; raise UsageError."""
        if not names:
            return self
        if len(self.torch) == 1 and not self.toolchains:
            return replace(self, torch=(*self.torch, *names))
        if len(self.toolchains) == 1 and not self.torch and self.repository is None:
            return replace(self, toolchains=(*self.toolchains, *names))
        raise click.UsageError(f"{names[0]!r} follows neither one --torch nor one --toolchain")

    @property
    def axis(self) -> RevisionAxis:
        """Return the axis of the revisions; raise UsageError unless the options name one."""
        if self.repository is not None:
            if self.torch or self.good is None or self.bad is None or len(self.toolchains) > 1:
                raise click.UsageError(
                    "--repo goes with --good and --bad, and with one --toolchain at most"
                )
            return RevisionAxis.COMMIT
        if self.good is not None or self.bad is not None:
            raise click.UsageError("--good and --bad name commits: say of which --repo")
        if bool(self.torch) == bool(self.toolchains):
            raise click.UsageError(
                "name revisions: --torch A B C, --toolchain A B C or --repo PATH --good A --bad B"
            )
        return RevisionAxis.TORCH if self.torch else RevisionAxis.TOOLCHAIN


def begin(
    options: BisectOptions,
    *,
    cases: CaseOptions,
    metric: str | None,
    limits: Limits,
    workspace: Workspace,
) -> Bisection:
    """Return a bisection whose first step is still to come.

    Raises UsageError, UnknownNameError and BisectError where there is nothing to bisect.
    """
    axis = options.axis
    toolchain = options.toolchains[0] if options.toolchains else CURRENT_TOOLCHAIN
    check_toolchains(options.toolchains, workspace=workspace)
    plan, settings = plan_cases(cases, toolchain=toolchain, workspace=workspace)
    planned = one_case(plan)
    origin, revisions = find_revisions(options, axis=axis, planned=planned)
    return Bisection(
        id=uuid.uuid4().hex[:12],
        started_at=workspace.dependencies.now(),
        axis=axis,
        origin=origin,
        revisions=revisions,
        case=planned.case,
        toolchain=toolchain,
        # A case's own limit must not end a step before the step's.
        settings=replace(settings, timeout_s=max(settings.timeout_s, limits.step_s)),
        metric=metric,
        limits=limits,
    )


def plan_cases(
    cases: CaseOptions, *, toolchain: str, workspace: Workspace
) -> tuple[Sequence[PlannedCase], MeasureSettings]:
    """Return the cases that the options select, and the settings of their suite.

    Raises UnknownNameError and ConfigError.
    """
    config = workspace.config
    (request,) = make_run_requests(
        cases, toolchains=(toolchain,), workspace=workspace, has_references=False
    )
    plan = make_plan(
        request.suite.selection,
        catalog=config.catalog,
        variants=config.variants,
        device=device_of(cases.device, workspace=workspace),
    )
    return plan, request.suite.settings(config.measure)


def case_executor(python: Path, order: CaseOrder, *, workspace: Workspace) -> Executor:
    """Return an executor that launches the case of `order` under an interpreter."""
    return executor_maker(workspace.dependencies.make_executor)(
        python=python,
        state_dir=workspace.config.state_dir,
        device=order.case.device,
        num_threads=order.settings.num_threads,
    )


def check_toolchains(names: Sequence[str], *, workspace: Workspace) -> None:
    """Raise UnknownNameError for a name that no toolchain has: a glob would be many revisions."""
    exact = [glob_escape(name) for name in names]
    find_names(exact, known=workspace.config.toolchains, kind="toolchain")


def device_of(device: str | None, *, workspace: Workspace) -> str:
    """Return the device that is named, or that of this machine."""
    if device not in (None, AUTO_DEVICE):
        return str(device)
    return "cuda" if workspace.dependencies.has_gpu() else "cpu"


def one_case(plan: Sequence[PlannedCase]) -> PlannedCase:
    """Return the case of `plan`; raise BisectError unless it has one."""
    if len(plan) == 1:
        return plan[0]
    shown = ", ".join(planned.case.key for planned in plan[:_NUM_SHOWN])
    raise BisectError(
        f"this is about one case, and {len(plan)} are selected ({shown}"
        f"{', ...' if len(plan) > _NUM_SHOWN else ''}); narrow it with --model, --mode, --phase,"
        " --dtype",
        num_cases=len(plan),
    )


def find_revisions(
    options: BisectOptions, *, axis: RevisionAxis, planned: PlannedCase
) -> tuple[Mapping[str, str], tuple[BisectRevision, ...]]:
    """Return the origin of the revisions, and the revisions."""
    if axis is RevisionAxis.COMMIT:
        assert options.repository is not None
        assert options.good is not None
        assert options.bad is not None
        root = find_root(options.repository)
        check_model(planned, root=root)
        commits = list_commits(root, good=options.good, bad=options.bad)
        return {"repository": str(root)}, commits
    origin: Mapping[str, str] = {}
    names: Sequence[str] = options.toolchains
    if axis is RevisionAxis.TORCH:
        source = TorchSource(
            python=find_python(options.python),
            index_url=options.index_url or "",
            is_nightly=options.is_nightly,
        )
        origin = source.to_json()
        names = expand(options.torch, available=lambda: list_versions(source))
    if len(names) < 2 or len(set(names)) < len(names):
        raise BisectError(
            f"name two different revisions or more, not only {', '.join(names)}",
            names=tuple(names),
        )
    return origin, tuple(BisectRevision(name=name) for name in names)


def check_model(planned: PlannedCase, *, root: Path) -> None:
    """Raise BisectError when the model's code is known not to be of the repository `root`."""
    file = planned.workload.build.partition(":")[0]
    is_zoo = file.startswith(ZOO_PREFIX)
    is_elsewhere = file.endswith(".py") and not Path(file).is_relative_to(root)
    if root == _OUR_ROOT or is_zoo or is_elsewhere:
        raise BisectError(
            f"the code of {planned.case.model} ({file}) is not that of {root}: name the repository"
            " that holds the file of a model of hud.toml",
            model=planned.case.model,
            file=file,
            root=root,
        )


def open_revisions(
    known: Bisection, *, workspace: Workspace, folder: Path, notify: Notify
) -> Revisions:
    """Return the revisions of `known`, ready to be measured.

    Raises UnknownNameError for a model or toolchain that is not there any more.
    """
    config = workspace.config
    planned = plan_case(
        known.case,
        catalog=config.catalog,
        variants=config.variants,
    )
    order = CaseOrder(
        run_id=known.id, case=known.case, workload=planned.workload, settings=known.settings
    )

    def make_executor(python: Path) -> Executor:
        return case_executor(python, order, workspace=workspace)

    names = [revision.name for revision in known.revisions]
    if known.axis is RevisionAxis.COMMIT:
        check_toolchains([known.toolchain], workspace=workspace)
        repository = Path(known.origin["repository"])
        return CommitRevisions(
            names,
            repository=repository,
            worktrees=Worktrees(repository, folder=folder / "checkouts"),
            executor=make_executor(config.toolchains[known.toolchain]),
            order=order,
        )
    if known.axis is RevisionAxis.TOOLCHAIN:
        check_toolchains(names, workspace=workspace)
        return ToolchainRevisions(
            names,
            find_python=lambda name: config.toolchains[name],
            drop=lambda _name: None,
            make_executor=make_executor,
            order=order,
        )
    toolchains = TorchToolchains(
        TorchSource.from_json(known.origin),
        state_dir=config.state_dir,
        dependencies=make_install_dependencies(workspace, notify=notify),
    )
    return ToolchainRevisions(
        names,
        find_python=toolchains.find_python,
        drop=toolchains.drop,
        make_executor=make_executor,
        order=order,
    )
