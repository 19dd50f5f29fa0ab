"""The search for the revision behind an alert: between its last good and its first bad run.

The axis is what moved between the two runs. Commits come first, since a checkout needs no
installation: then the versions of torch that the index of the toolchain lists, then the
toolchains of the settings that have a version between.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from compile_hud.db.queries.runs import load_runs_of
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.results import Run
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.model_code import MODEL_COMMITS, code_changes, revision_of
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE
from compile_hud.runner.bisect.record import Bisection, BisectRevision, Limits, RevisionAxis
from compile_hud.runner.bisect.search import METRICS_OF_SEARCH
from compile_hud.runner.bisect.worktrees import find_root, list_commits
from compile_hud.runner.errors import BisectError, SearchImpossible, ToolchainError
from compile_hud.runner.execution.run_plan import recorded_settings
from compile_hud.runner.files.model_files import model_files
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import MeasureSettings, TracePolicy
from compile_hud.runner.toolchains.installer import ToolchainRequest
from compile_hud.runner.toolchains.registry import recipe_of, toolchain_folder
from compile_hud.runner.toolchains.torch_releases import TorchSource
from compile_hud.runner.workspace import Workspace

ListVersions = Callable[[TorchSource], Sequence[str]]
# Two changes of this kind have bounds that were compared at one commit each.
_SEARCHED_KINDS = ("step", "outcome")
# The speedup compares two modes in one run; a search compares launches of one.
_METRICS = {"speedup": None, OUTCOME: OUTCOME}
# An answer seldom needs more, and a run that becomes due waits for no longer step.
MAX_STEP_S = 900.0
# The ends, two halvings and the check fit into the budget, however long they take.
MIN_STEPS = 4
MAX_LAUNCHES = 80
# The other moved axis, for the text of a search that does not decide.
ALSO_MOVED = "also_moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """The revisions from the last good to the first bad one of an alert, both included."""

    axis: RevisionAxis
    origin: Mapping[str, str]
    revisions: tuple[BisectRevision, ...]
    toolchain: str

    @property
    def is_decided(self) -> bool:
        """Return whether no revision is between: the first bad one is known without a launch."""
        return len(self.revisions) == 2


def wants_search(alert: Alert, *, machine: str) -> bool:
    """Return whether a confirmed regression on `machine` waits for its first search."""
    return (
        alert.is_confirmed is True
        and alert.verdict == "regression"
        and alert.state in ONGOING
        and alert.machine == machine
        and alert.bisection is None
    )


def plan_search(alert: Alert, *, workspace: Workspace, list_versions: ListVersions) -> SearchPlan:
    """Return the revisions to search for the change of `alert`.

    Raises SearchImpossible with the reason if there are none, BisectError if an index does not
    answer, and the errors of the store.
    """
    if alert.kind not in _SEARCHED_KINDS or _is_unmeasured(alert.metric):
        raise SearchImpossible(
            f"a search compares launches, which do not show a change of {alert.metric}"
            f" ({alert.kind})",
            alert=alert.id,
        )
    if alert.toolchain not in workspace.config.toolchains:
        raise SearchImpossible(
            f"toolchain {alert.toolchain} was removed from the settings", alert=alert.id
        )
    good, bad = _bounds(alert, workspace=workspace)
    code = code_changes(good, candidate=bad, models=[alert.case.model])
    torch = "" if good.revision == bad.revision else f"torch {good.revision} -> {bad.revision}"
    if code:
        return _commits(alert, code[0].baseline, code[0].candidate, torch, workspace=workspace)
    if torch:
        return _torch_versions(alert, (good, bad), workspace=workspace, list_versions=list_versions)
    before, after = (_code_of(run, alert.case.model) for run in (good, bad))
    if before != after:
        raise SearchImpossible(
            f"the code of {alert.case.model} changed ({before} -> {after}), and its repository is"
            " not that of a model of the settings",
            alert=alert.id,
        )
    raise SearchImpossible(
        f"both runs have torch {bad.revision} and the same code of {alert.case.model}",
        alert=alert.id,
    )


def _code_of(run: Run, model: str) -> str:
    return revision_of(run.environment.get(MODEL_COMMITS) or {}, model)


def begin_search(
    alert: Alert, plan: SearchPlan, *, workspace: Workspace, budget_s: float
) -> Bisection:
    """Return a bisection over the revisions of `plan` that is still to be measured."""
    config = workspace.config
    run = load_runs_of(workspace.store(), [alert.first_bad.run_id])[alert.first_bad.run_id]
    step_s = min(MAX_STEP_S, budget_s / MIN_STEPS)
    metric = _METRICS.get(alert.metric, alert.metric)
    return Bisection(
        id=uuid.uuid4().hex[:12],
        started_at=workspace.dependencies.now(),
        axis=plan.axis,
        origin=plan.origin,
        revisions=plan.revisions,
        case=alert.case,
        toolchain=plan.toolchain,
        settings=_settings(run, default=config.measure, step_s=step_s, metric=metric),
        metric=metric,
        limits=Limits(floor=search_floor(alert), max_launches=MAX_LAUNCHES, step_s=step_s),
        alert_id=alert.id,
    )


def search_floor(alert: Alert) -> float:
    """Return the change below which the ends are the same: half of the alert's, at most 5 %."""
    if not alert.change_pct:
        return DEFAULT_FAIL_ABOVE
    return min(DEFAULT_FAIL_ABOVE, abs(alert.change_pct) / 200)


def _is_unmeasured(metric: str) -> bool:
    return metric not in METRICS_OF_SEARCH


def _settings(
    run: Run, *, default: MeasureSettings, step_s: float, metric: str | None
) -> MeasureSettings:
    recorded = recorded_settings(run, default=default)
    return replace(
        recorded,
        sweep=metric is not None and metric.startswith("sweep"),
        energy=False,
        memory_snapshot=False,
        compile_trace=TracePolicy.NEVER.value,
        timeout_s=max(recorded.timeout_s, step_s),
    )


def _bounds(alert: Alert, *, workspace: Workspace) -> tuple[Run, Run]:
    if alert.last_good is None:
        raise SearchImpossible("no run before it was good", alert=alert.id)
    ids = (alert.last_good.run_id, alert.first_bad.run_id)
    runs = load_runs_of(workspace.store(), ids)
    missing = [run_id for run_id in ids if run_id not in runs]
    if missing:
        raise SearchImpossible(f"run {missing[0]} is no longer in the store", alert=alert.id)
    return runs[ids[0]], runs[ids[1]]


def _commits(alert: Alert, good: str, bad: str, torch: str, *, workspace: Workspace) -> SearchPlan:
    config, model = workspace.config, alert.case.model
    for revision in (good, bad):
        if "(" in revision:
            raise SearchImpossible(
                f"the code of {model} was in no commit ({revision})", alert=alert.id
            )
    try:
        planned = plan_case(alert.case, catalog=config.catalog, variants=config.variants)
    except UnknownNameError as error:
        raise SearchImpossible(f"{model} is no longer in the settings", alert=alert.id) from error
    build = planned.workload.build
    files = () if build.startswith(ZOO_PREFIX) else model_files(build, folder=Path.cwd())
    if not files:
        raise SearchImpossible(
            f"the code of {model} is in no repository that can be checked out", alert=alert.id
        )
    try:
        root = find_root(files[0].parent)
        commits = list_commits(root, good=good, bad=bad)
    except BisectError as error:
        reason = str(error).partition(";")[0]
        raise SearchImpossible(f"commits are not available: {reason}", alert=alert.id) from error
    origin = {"repository": str(root), **({ALSO_MOVED: torch} if torch else {})}
    return SearchPlan(
        axis=RevisionAxis.COMMIT, origin=origin, revisions=commits, toolchain=alert.toolchain
    )


def _torch_versions(
    alert: Alert,
    runs: tuple[Run, Run],
    *,
    workspace: Workspace,
    list_versions: ListVersions,
) -> SearchPlan:
    good, bad = (run.revision.partition("@")[0] for run in runs)
    ends = tuple(version.partition("+")[0] for version in (good, bad))
    source = _source(alert.toolchain, state_dir=workspace.config.state_dir, versions=ends)
    versions = () if source is None else _between(ends, list_versions(source))
    if source is not None and versions:
        axis, origin, names = RevisionAxis.TORCH, source.to_json(), versions
    else:
        axis, origin = RevisionAxis.TOOLCHAIN, {}
        names = _toolchains(alert, good=good, bad=bad, workspace=workspace)
    revisions = tuple(BisectRevision(name=name) for name in names)
    return SearchPlan(axis=axis, origin=origin, revisions=revisions, toolchain=alert.toolchain)


def _source(name: str, *, state_dir: Path, versions: Sequence[str]) -> TorchSource | None:
    """Return the index that the torch of toolchain `name` came from, None if that is unknown."""
    try:
        recipe = ToolchainRequest.from_json(recipe_of(toolchain_folder(name, state_dir=state_dir)))
    except ToolchainError:
        return None
    is_nightly = recipe.is_nightly or any(".dev" in version for version in versions)
    return TorchSource(
        python=recipe.python, index_url=recipe.index_url or "", is_nightly=is_nightly
    )


def _between(ends: Sequence[str], available: Sequence[str]) -> Sequence[str]:
    """Return the versions from the first to the last of `ends`, none if one is not available."""
    good, bad = ends
    if good == bad or good not in available or bad not in available:
        return ()
    first, last = available.index(good), available.index(bad)
    if first < last:
        return available[first : last + 1]
    # The bad run had the older torch.
    return tuple(reversed(available[last : first + 1]))


def _toolchains(alert: Alert, *, good: str, bad: str, workspace: Workspace) -> list[str]:
    """Return the toolchains that have `good`, `bad` or a version between them, in that order."""
    versions: dict[str, str] = {}
    pythons = workspace.config.toolchains
    for name in sorted(pythons, key=lambda name: name != alert.toolchain):
        version = workspace.dependencies.probe(pythons[name]).torch_version
        if version and version not in versions.values():
            versions[name] = version
    names = {version: name for name, version in versions.items()}
    for version in (good, bad):
        if version not in names:
            raise SearchImpossible(
                f"torch {version} is in no toolchain, and in no index that the settings name",
                alert=alert.id,
            )
    if good == bad:
        raise SearchImpossible(
            f"two builds of torch {bad} differ, and only one is installed", alert=alert.id
        )
    low, high = sorted((good, bad), key=_version)
    inside = [item for item in names if _version(low) < _version(item) < _version(high)]
    ordered = sorted(inside, key=_version, reverse=good != low)
    return [names[version] for version in (good, *ordered, bad)]


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")
