"""hud compare --repo: two commits of a repository, measured now and in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX
from compile_hud.runner.analysis.comparison.runs import has_failure
from compile_hud.runner.bisect.commit_comparison import (
    CaseChange,
    CommitComparison,
    CommitDependencies,
    CommitRequest,
    compare_commits,
)
from compile_hud.runner.bisect.worktrees import (
    NamedCommit,
    Worktrees,
    commit_working_tree,
    find_base,
    find_commit,
    find_root,
)
from compile_hud.runner.cli.bisect.command import BisectProgress
from compile_hud.runner.cli.bisect.stored import alone_in
from compile_hud.runner.cli.compare.sentences import (
    change_sentence,
    has_inconclusive,
    resolution_text,
)
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.exit_codes import EXIT_INCONCLUSIVE
from compile_hud.runner.cli.kernels.diff_table import print_diff
from compile_hud.runner.cli.options import CaseOptions, check_model_files, make_run_requests
from compile_hud.runner.cli.output import gather_options
from compile_hud.runner.cli.tables import stderr
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.errors import BisectError
from compile_hud.runner.execution.executor import Executor
from compile_hud.runner.execution.local_executor import executor_maker
from compile_hud.runner.execution.paired_launches import PairLimits
from compile_hud.runner.planning.plan import PlannedCase, find_names, make_plan
from compile_hud.runner.run_requests import AUTO_DEVICE, RunRequest
from compile_hud.runner.workspace import Workspace

DEFAULT_MINUTES = 3.0
# Three minutes hold some sixty pairs of a small model; a fast one may take more.
DEFAULT_MAX_LAUNCHES = 90
# A repository's own models are compiled for production in this mode, unless --mode says otherwise.
_MODES = ("default",)
_OUR_ROOT = Path(__file__).resolve().parents[3]
_OPTIONS = (
    click.option(
        "--repo",
        "repository",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="Measure two commits of this git repository: BASE and HEAD, or your files as they"
        " are.",
    ),
    click.option(
        "--base",
        metavar="REV",
        help="Compare with the commit where HEAD branched off REV. Default: the default branch.",
    ),
    click.option(
        "--minutes",
        type=click.FloatRange(min=0, min_open=True),
        metavar="N",
        help=f"With --repo: how long a case is measured at most. Default: {DEFAULT_MINUTES:g}.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryOptions:
    """The options of --repo, as they were typed."""

    repository: Path | None
    base: str | None
    minutes: float | None

    def option_names(self) -> list[str]:
        """Return the options that only go with --repo."""
        names = {"--base": self.base, "--minutes": self.minutes}
        return [name for name, value in names.items() if value is not None]


repository_options = gather_options(RepositoryOptions, name="repo", options=_OPTIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNames:
    """The commits, the toolchain and the cases, as they were typed."""

    names: tuple[str, ...]
    toolchains: tuple[str, ...]
    cases: CaseOptions


def measure_commits(
    options: RepositoryOptions, typed: CommitNames, *, limits: PairLimits, workspace: Workspace
) -> CommitComparison:
    """Return the comparison of two commits; raise UsageError and BisectError.

    Without names it compares the working tree with the commit at which it branched off the base.
    """
    assert options.repository is not None
    if len(typed.toolchains) > 1:
        raise click.UsageError("--repo measures in one --toolchain")
    if typed.names and options.base is not None:
        raise click.UsageError("give --base, or BASE and HEAD by their names")
    root = find_root(options.repository)
    toolchain = typed.toolchains[0] if typed.toolchains else CURRENT_TOOLCHAIN
    find_names([toolchain], known=workspace.config.toolchains, kind="toolchain")
    (request,) = make_run_requests(
        _with_defaults(typed.cases, root=root, workspace=workspace),
        toolchains=(toolchain,),
        workspace=workspace,
        has_references=False,
    )
    plan = _plan(request, root=root, workspace=workspace)
    baseline, candidate = _commits(root, names=typed.names, base=options.base)
    commit_request = CommitRequest(
        plan=plan,
        repository=root,
        toolchain=toolchain,
        machine=workspace.config.machine,
        settings=request.suite.settings(workspace.config.measure),
        limits=limits,
        case_s=60 * (options.minutes or DEFAULT_MINUTES),
    )
    folder = workspace.config.state_dir / "compare"
    with (
        alone_in(folder, f"comparing commits in {folder}"),
        BisectProgress(stderr(), now=workspace.dependencies.now) as progress,
    ):
        return compare_commits(
            commit_request,
            baseline=baseline,
            candidate=candidate,
            dependencies=CommitDependencies(
                executor=_executor(commit_request, workspace=workspace),
                worktrees=Worktrees(root, folder=folder / "checkouts"),
                lock_dir=workspace.lock_dir(),
                now=workspace.dependencies.now,
                notify=progress,
            ),
        )


def _executor(request: CommitRequest, *, workspace: Workspace) -> Executor:
    return executor_maker(workspace.dependencies.make_executor)(
        python=workspace.config.toolchains[request.toolchain],
        state_dir=workspace.config.state_dir,
        device=request.plan[0].case.device,
        num_threads=request.settings.num_threads,
    )


def exit_code(comparison: CommitComparison) -> int:
    """Return 1 for a regression, 3 if the time of a case is inconclusive, else 0."""
    if has_failure(comparison.rows):
        return 1
    return EXIT_INCONCLUSIVE if has_inconclusive(comparison.changes) else 0


def _with_defaults(cases: CaseOptions, *, root: Path, workspace: Workspace) -> CaseOptions:
    """Return `cases` with the models of the repository under mode default where none is named."""
    if not (cases.models or cases.tags or cases.suite):
        own = [
            name for name, spec in workspace.config.catalog.items() if _is_of(spec.build, root=root)
        ]
        if not own:
            raise BisectError(
                f"hud.toml has no model whose code is in {root}; `[models.NAME] build = ...` adds"
                " one, and --model names it"
            )
        cases = replace(cases, models=tuple(own))
    return cases if cases.modes or cases.suite else replace(cases, modes=_MODES)


def _plan(request: RunRequest, *, root: Path, workspace: Workspace) -> tuple[PlannedCase, ...]:
    device = request.device
    if device == AUTO_DEVICE:
        device = "cuda" if workspace.dependencies.has_gpu() else "cpu"
    check_model_files([request], config=workspace.config)
    plan = make_plan(
        request.suite.selection,
        catalog=workspace.config.catalog,
        variants=workspace.config.variants,
        device=device,
    )
    own = tuple(
        planned
        for planned in plan
        if _is_of(planned.workload.build, root=root, is_module_known=False)
    )
    if not own:
        first = plan[0]
        raise BisectError(
            f"the code of {first.case.model} ({first.workload.build}) is not that of {root}:"
            " name models of hud.toml whose files the repository holds"
        )
    return own


def _is_of(build: str, *, root: Path, is_module_known: bool = True) -> bool:
    """Return whether the model's code is in the repository `root`.

    The origin of a module is unknown before its import. A module counts as part of the repository
    if its package is a folder there, and always unless `is_module_known`.
    """
    location = build.partition(":")[0]
    if location.startswith(ZOO_PREFIX) or root == _OUR_ROOT:
        return False
    if location.endswith(".py"):
        return Path(location).is_relative_to(root)
    package = location.partition(".")[0]
    folders = (root, root / "src", Path.cwd())
    has_package = any(
        (folder / package).is_dir() or (folder / f"{package}.py").is_file()
        for folder in folders
        if folder.is_relative_to(root)
    )
    return has_package or not is_module_known


def _commits(
    root: Path, *, names: tuple[str, ...], base: str | None
) -> tuple[NamedCommit, NamedCommit]:
    """Return the two commits to compare; raise BisectError if they are the same."""
    candidate = find_commit(root, names[1]) if len(names) > 1 else commit_working_tree(root)
    if names:
        baseline = find_commit(root, names[0])
    else:
        baseline = find_base(root, base, head=candidate.revision.name)
    if baseline.revision.name == candidate.revision.name:
        raise BisectError(
            f"there is nothing to compare: both sides are {baseline.label}, and no file has changed"
            " since. Name two commits, or another --base"
        )
    return baseline, candidate


def result_lines(comparison: CommitComparison, *, floor: float) -> list[str]:
    """Return a sentence for each case, and what size of change would have been seen."""
    has_several = len({change.pair.baseline.case.model for change in comparison.changes}) > 1
    lines = []
    for change in comparison.changes:
        name = f"{change.pair.baseline.case.model}: " if has_several else ""
        lines.append(f"{name}{change_sentence(change, floor=floor)}")
    resolution = resolution_text(comparison.changes)
    return [*lines, resolution] if resolution else lines


def print_kernels(comparison: CommitComparison) -> None:
    """Print the kernel diff of each case that has one."""
    titles = (comparison.baseline.run.revision, comparison.candidate.run.revision)
    for change in comparison.changes:
        if change.kernels is not None:
            echo()
            echo(f"kernels of {change.pair.baseline.case.key}")
            print_diff(change.kernels, titles=titles, show_all=False)


def commits_json(comparison: CommitComparison, *, floor: float) -> dict[str, Any]:
    """Return the JSON that only a comparison of commits has."""
    return {
        "sentences": result_lines(comparison, floor=floor),
        "cases": [_case_json(change) for change in comparison.changes],
    }


def _case_json(change: CaseChange) -> dict[str, Any]:
    return {
        "case": change.pair.baseline.case.to_json(),
        "num_pairs": change.num_pairs,
        "took_s": change.took_s,
        "model_code": None if change.code is None else change.code.to_json(),
        "kernels": None if change.kernels is None else change.kernels.to_json(),
    }
