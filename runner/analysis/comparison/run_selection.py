"""Compare two runs or variants as a whole: revisions, variants, means over the cohort.

Method: two variants are compared like two runs. Each result of the one is compared with that of the
other on the same model, phase, shape, dtype and device. The mean of a metric is the geometric mean
of candidate / baseline (`aggregate`) over the cases that are ok and have it on both sides. It has
no interval: a run affects all of its cases alike, so an interval that assumes independence would be
too narrow. The least and the largest ratio are given instead.
Assumptions: every case weighs the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.shared.model_code import own_revisions
from compile_hud.db.shared.text import short_revision
from compile_hud.runner.analysis.comparison.runs import OUTCOME, CaseComparison
from compile_hud.runner.analysis.stats.cohort import geometric_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanRatio:
    """The geometric mean of a metric's candidate / baseline over the cases of a variant.

    `num_common` of `num_cases` have it on both sides; `least` and `most` are their extremes.
    """

    variant: str
    metric: str
    ratio: float
    least: float
    most: float
    num_common: int
    num_cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRevision:
    """A build of torch or, with `models`, a commit of these, and its runs, newest first.

    Own models of one repository may share a commit.
    """

    name: str
    runs: tuple[Run, ...]
    models: tuple[str, ...] = ()


def run_at_revision(name: str, runs: Iterable[Run]) -> Run | None:
    """Return the first of `runs` at the revision, torch version or commit `name`."""
    return next((run for run in runs if name in _revision_names(run)), None)


def revisions_of(runs: Sequence[Run]) -> tuple[RunRevision, ...]:
    """Return the builds of torch in `runs`, and the commits of own models; the newest run first.

    `runs` are newest first. A model whose code never changed has no revision of its own.
    """
    commits: dict[str, set[str]] = {}
    for run in runs:
        for model, name in own_revisions(run).items():
            commits.setdefault(model, set()).add(name)
    runs_of: dict[str, list[Run]] = {}
    models_of: dict[str, set[str]] = {}
    for run in runs:
        changed = {
            model: name for model, name in own_revisions(run).items() if len(commits[model]) > 1
        }
        for name in dict.fromkeys((run.revision, *changed.values())):
            runs_of.setdefault(name, []).append(run)
        for model, name in changed.items():
            models_of.setdefault(name, set()).add(model)
    revisions = [
        RunRevision(name=name, runs=tuple(own), models=tuple(sorted(models_of.get(name, ()))))
        for name, own in runs_of.items()
    ]
    return tuple(sorted(revisions, key=lambda item: item.runs[0].started_at, reverse=True))


def baseline_run(name: str, *, candidate: Run, runs: Iterable[Run]) -> Run | None:
    """Return the run at the revision `name` to compare `candidate` with, None without one.

    It is on the same machine, of the same suite and toolchain if there is such a run, and then the
    newest.
    """
    return max(
        (run for run in runs if name in _revision_names(run) and run.machine == candidate.machine),
        key=lambda run: (
            run.suite == candidate.suite,
            run.toolchain == candidate.toolchain,
            run.started_at,
        ),
        default=None,
    )


def revision_before(candidate: Run, *, name: str, runs: Sequence[Run]) -> str:
    """Return the revision of the newest run before that of `name`, "" without one.

    With a commit of own models as `name`, it is the commit before of the first of them that the
    run has.
    """
    own = [model for model, text in own_revisions(candidate).items() if text == name]
    before = [run for run in runs if run.started_at < candidate.started_at]
    before.sort(
        key=lambda run: (run.toolchain == candidate.toolchain, run.started_at), reverse=True
    )
    for run in before:
        revisions = own_revisions(run)
        before_it = (revisions[model] for model in own if model in revisions)
        revision = next(before_it, "") if own else run.revision
        if revision and name not in _revision_names(run):
            return revision
    return ""


def previous_run(run: Run, runs: Iterable[Run]) -> Run | None:
    """Return the newest comparable run of `runs` before `run`, None without one.

    It has the same suite and machine, and the same toolchain if there is such a run.
    """
    older = [
        other
        for other in runs
        if (other.machine, other.suite) == (run.machine, run.suite)
        and other.started_at < run.started_at
    ]
    return max(
        older,
        key=lambda other: (other.toolchain == run.toolchain, other.started_at),
        default=None,
    )


def of_variant(results: Iterable[CaseResult], variant: str, *, case_of: str) -> list[CaseResult]:
    """Return the results of `variant`, and of the reference cases, relabelled as `case_of`.

    The results of two variants then have the same cases, and compare.
    """
    return [
        result
        if result.case.is_reference
        else dataclasses.replace(result, case=dataclasses.replace(result.case, variant=case_of))
        for result in results
        if result.case.is_reference or result.case.variant == variant
    ]


def mean_ratios(rows: Sequence[CaseComparison], *, metrics: Sequence[str]) -> tuple[MeanRatio, ...]:
    """Return the mean of each of `metrics` for each variant of `rows`, without those of no case."""
    means = []
    for variant in dict.fromkeys(row.case.variant for row in rows):
        own = [row for row in rows if row.case.variant == variant]
        num_cases = sum(row.metric == OUTCOME for row in own)
        for metric in metrics:
            ratios = [
                row.comparison.ratio
                for row in own
                if row.metric == metric and row.comparison.ratio is not None
            ]
            if ratios:
                means.append(
                    MeanRatio(
                        variant=variant,
                        metric=metric,
                        ratio=geometric_mean(ratios),
                        least=min(ratios),
                        most=max(ratios),
                        num_common=len(ratios),
                        num_cases=num_cases,
                    )
                )
    return tuple(means)


def _revision_names(run: Run) -> tuple[str, ...]:
    version, _, commit = run.revision.partition("@")
    names = (run.revision, short_revision(run.revision), version, commit)
    return (*names, *own_revisions(run).values())
