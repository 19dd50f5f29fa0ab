"""Measure a release on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compile_hud.db.records.results import RunState
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.release.report import DocumentPair
from compile_hud.runner.analysis.release.runs import (
    MachinePair,
    ReleaseRules,
    ReleaseRuns,
    measured_cases,
)
from compile_hud.runner.analysis.repro import compare_command
from compile_hud.runner.cli.options import (
    CaseOptions,
    check_model_files,
    make_run_requests,
)
from compile_hud.runner.cli.progress import new_progress
from compile_hud.runner.cli.release.options import ReleaseOptions
from compile_hud.runner.cli.run.ray import check_device
from compile_hud.runner.cli.toolchain import find_python, make_install_dependencies
from compile_hud.runner.cluster.resume import check_is_silent
from compile_hud.runner.cluster.setup import execute_together_on_ray
from compile_hud.runner.config.load import Config
from compile_hud.runner.documents.pairs.releases import load_pairs, newest_release
from compile_hud.runner.errors import ResumeError
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.planning.plan import find_names, make_plan
from compile_hud.runner.planning.suites import Selection, custom_suite
from compile_hud.runner.release.cluster_cases import ReleasePolicy
from compile_hud.runner.release.sequential import SequentialMeasurement
from compile_hud.runner.run_requests import RunRequest, execute_together
from compile_hud.runner.toolchains.torch_releases import (
    TorchSource,
    TorchToolchains,
    is_version,
)
from compile_hud.runner.workspace import Workspace

SUITE = "nightly"


def with_toolchains(names: Sequence[str], *, workspace: Workspace, notify: Notify) -> Workspace:
    """Return the workspace with a toolchain for each of `names`, built if it is a version.

    Raises UnknownNameError for any other unknown name.
    """
    config = workspace.config
    known = dict(config.toolchains)
    versions = [name for name in names if name not in known and is_version(name)]
    find_names([name for name in names if name not in versions], known=known, kind="toolchain")
    if versions:
        builder = TorchToolchains(
            TorchSource(python=find_python(None), index_url="", is_nightly=False),
            state_dir=config.state_dir,
            dependencies=make_install_dependencies(workspace, notify=notify),
        )
        known |= {name: builder.find_python(name) for name in versions}
    return replace(workspace, config=replace(config, toolchains=known))


def _requests(
    names: tuple[str, str], *, cases: CaseOptions, rules: ReleaseRules, workspace: Workspace
) -> list[RunRequest]:
    """Return the requests of a new release."""
    if cases.option_names() in ([], ["--device"]):
        cases = replace(cases, suite=SUITE)
    requests = [
        replace(request, trigger=rules.trigger)
        for request in make_run_requests(
            cases, toolchains=names, workspace=workspace, has_references=False
        )
    ]
    check_model_files(requests, config=workspace.config)
    return requests


def _resumed(
    names: tuple[str, str], *, is_ray: bool, workspace: Workspace
) -> tuple[ReleaseRuns, list[RunRequest]]:
    """Return the release that was interrupted, and the requests that continue it.

    Raises ResumeError where there is none, or where others measure it.
    """
    runs = newest_release(workspace.store(), names)
    here = workspace.config.machine
    if runs is None:
        raise ResumeError(
            f"no release from {names[0]} to {names[1]} was interrupted on {here}: without --resume"
            " it starts"
        )
    if not is_ray and runs.machines != (here,):
        raise ResumeError(
            f"the release from {names[0]} to {names[1]} is of {', '.join(runs.machines)}, this is"
            f" {here}: resume it there, or with `--executor ray` when it is of a cluster"
        )
    if runs.state is RunState.FINISHED:
        settle = " and ".join(f"`{settle_command(pair)}`" for pair in runs.pairs)
        raise ResumeError(
            f"the release from {names[0]} to {names[1]} has measured each case. For more launches"
            f" of open cases: {settle}"
        )
    suite = workspace.config.suites.get(runs.candidate.suite, custom_suite(Selection()))
    if is_ray:
        check_is_silent(workspace.store(), runs.candidate.id, now=workspace.dependencies.now())
    # The plan of the run has the device.
    device = runs.candidate.plan[0].device
    return runs, [
        RunRequest(
            suite=suite,
            toolchain=name,
            device=device,
            trigger=runs.rules.trigger,
            resume_id=run.id,
            has_references=False,
        )
        for name, run in zip(names, (runs.baseline, runs.candidate), strict=True)
    ]


def _num_cases(request: RunRequest, *, config: Config) -> int:
    # The device does not matter here: a plan has the same number of cases on each.
    plan = make_plan(
        request.suite.selection, catalog=config.catalog, variants=config.variants, device="cpu"
    )
    return len(plan)


def measure(
    names: tuple[str, str], *, cases: CaseOptions, options: ReleaseOptions, workspace: Workspace
) -> list[DocumentPair]:
    """Measure a release, or the cases that an earlier call left; return the runs by machine."""
    progress = new_progress(workspace)
    rules = ReleaseRules(baseline=names[0], candidate=names[1])
    runs = None
    # Wrong names are reported before a torch is built.
    if options.resume:
        runs, requests = _resumed(names, is_ray=options.is_ray, workspace=workspace)
        rules = runs.rules
        num_cases = len(measured_cases(pair.candidate for pair in runs.pairs))
    else:
        rules = replace(
            rules,
            fail_above=options.fail_above or rules.fail_above,
            max_launches=options.max_launches or rules.max_launches,
        )
        requests = _requests(names, cases=cases, rules=rules, workspace=workspace)
        num_cases = _num_cases(requests[0], config=workspace.config)
        if options.is_ray:
            check_device(requests)
    workspace = with_toolchains(names, workspace=workspace, notify=progress)
    if options.is_ray:
        policy = ReleasePolicy(
            rules, num_cases=num_cases, budget=options.budget, now=workspace.dependencies.now
        )
        with progress:
            return _measure_on_ray(
                requests, runs=runs, policy=policy, workspace=workspace, notify=progress
            )
    measurement = SequentialMeasurement(
        rules=rules,
        num_cases=num_cases,
        budget=options.budget,
        now=workspace.dependencies.now,
        notify=progress,
    )
    with progress:
        before, after = execute_together(
            requests,
            workspace=workspace,
            notify=progress,
            measure_cases=measurement.measure,
        )
        launches = counted(measurement.num_launches, "launch")
        progress(LogMessage(text=f"{launches} for {counted(num_cases, 'case')}"))
    return [DocumentPair(baseline=before, candidate=after)]


def _measure_on_ray(
    requests: Sequence[RunRequest],
    *,
    runs: ReleaseRuns | None,
    policy: ReleasePolicy,
    workspace: Workspace,
    notify: Notify,
) -> list[DocumentPair]:
    """Measure the cases on a cluster, or those that the interrupted `runs` left."""
    earlier = [] if runs is None else load_pairs(workspace.store(), runs)
    machines = execute_together_on_ray(
        requests,
        earlier=[(pair.baseline, pair.candidate) for pair in earlier],
        policy=policy,
        workspace=workspace,
        notify=notify,
    )
    return [
        DocumentPair(baseline=baseline, candidate=candidate) for baseline, candidate in machines
    ]


def settle_command(pair: MachinePair) -> str:
    """Return the command that takes more launches of the open cases of a machine."""
    return compare_command(pair.baseline.id, pair.candidate.id, (("settle", "30"),))
