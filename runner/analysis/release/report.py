"""The report of a release: every case under both toolchains, and what regressions share. Pure.

Each case was measured by one machine, and is compared with the other side of that machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import CaseResult, Run, RunDocument, RunState
from compile_hud.runner.analysis.comparison.environment_diff import environment_diff
from compile_hud.runner.analysis.comparison.paired import PairStandard
from compile_hud.runner.analysis.findings.documents import run_findings
from compile_hud.runner.analysis.kernels.cause_text import cause_text
from compile_hud.runner.analysis.kernels.diff import KernelDiff, diff_kernels, side_of
from compile_hud.runner.analysis.kernels.rollup import PartChange, kinds_and_operators
from compile_hud.runner.analysis.release.clusters import (
    JudgedCase,
    RegressionCluster,
    cluster_text,
    find_clusters,
)
from compile_hud.runner.analysis.release.factors import FINDING, case_factors
from compile_hud.runner.analysis.release.mean_changes import MeanChange, mean_changes
from compile_hud.runner.analysis.release.runs import MachinePair, measured_cases, state_of
from compile_hud.runner.analysis.release.sign_off import (
    JudgedPair,
    SignOff,
    judge_together,
    num_impossible,
    paired_results,
    release_standard,
    sign_off,
    size_of,
)
from compile_hud.runner.analysis.stats.rounds import Pair

# A kind or operator whose kernels have this share of the extra time describes a regression.
GROWN_SHARE = 0.2
_COMMITS = "https://github.com/pytorch/pytorch/compare"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPair:
    """The runs of both toolchains on one machine, with their results."""

    baseline: RunDocument
    candidate: RunDocument

    @property
    def runs(self) -> MachinePair:
        """Return the runs alone."""
        return MachinePair(baseline=self.baseline.run, candidate=self.candidate.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCluster:
    """Regressions with something in common, and the sentence that names it.

    `items` are its cases. `representative` is the one to look at, `cause` its kernels that grew, ""
    if unknown.
    """

    text: str
    cluster: RegressionCluster
    items: tuple[JudgedPair, ...]
    representative: JudgedPair
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """Runs with launches in turn, judged together; `pairs` has those of each machine.

    `means` are the changes over all cases of a variant and phase. `environment` has the facts that
    differ, by name: those of the baseline and the candidate, on the first machine where they do.
    """

    pairs: tuple[MachinePair, ...]
    standard: PairStandard
    judged: tuple[JudgedPair, ...]
    clusters: tuple[NamedCluster, ...]
    sign_off: SignOff
    means: tuple[MeanChange, ...]
    environment: Mapping[str, Sequence[Any]]

    @property
    def baseline(self) -> Run:
        """Return the baseline of the first machine."""
        return self.pairs[0].baseline

    @property
    def candidate(self) -> Run:
        """Return the candidate of the first machine."""
        return self.pairs[0].candidate

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the names of the machines."""
        return tuple(pair.machine for pair in self.pairs)

    @property
    def is_interrupted(self) -> bool:
        """Return whether the release was stopped before its end."""
        return state_of(pair.candidate for pair in self.pairs) is RunState.INTERRUPTED

    @property
    def improvements(self) -> list[JudgedPair]:
        """Return the cases whose time improved, the largest change first."""
        faster = (item for item in self.judged if item.is_improvement)
        return sorted(faster, key=lambda item: -size_of(item.time))

    @property
    def undecided(self) -> list[JudgedPair]:
        """Return the cases without an answer."""
        return [item for item in self.judged if not item.is_decided and not item.is_failing]

    @property
    def failing(self) -> list[JudgedPair]:
        """Return the cases that fail on both sides."""
        return [item for item in self.judged if item.is_failing]

    @property
    def commits_url(self) -> str:
        """Return the page of the commits between both builds of torch, "" if one is unknown."""
        before, after = (
            run.environment.get("torch_git") for run in (self.baseline, self.candidate)
        )
        are_known = isinstance(before, str) and isinstance(after, str) and before and after
        return f"{_COMMITS}/{before}...{after}" if are_known and before != after else ""


def release_report(pairs: Sequence[DocumentPair]) -> ReleaseReport:
    """Return the report of a release from the runs of each of its machines."""
    runs = tuple(item.runs for item in pairs)
    candidates = [item.candidate for item in runs]
    standard = release_standard(candidates)
    judged = judge_together(_results(pairs), standard=standard)
    new = {key: codes for item in pairs for key, codes in _new_findings(item).items()}
    diffs = {item.key: _kernel_diff(item.pair) for item in judged if item.worst is not None}
    cases = [
        _judged_case(item, diff=diffs.get(item.key), findings=new.get(item.key, ()))
        for item in judged
        if item.is_decided
    ]
    by_key = {item.key: item for item in judged}
    # The findings of every case are known, so a case without one counts.
    clusters = find_clusters(cases, measured=(FINDING,))
    num_regressions = sum(item.is_regression for item in cases)
    return ReleaseReport(
        pairs=runs,
        standard=standard,
        judged=tuple(judged),
        clusters=tuple(
            NamedCluster(
                text=cluster_text(cluster, num_regressions=num_regressions, cases=cases),
                cluster=cluster,
                items=tuple(by_key[item.case.key] for item in cluster.cases),
                representative=by_key[cluster.representative.case.key],
                cause=_cause(diffs.get(cluster.representative.case.key)),
            )
            for cluster in clusters
        ),
        sign_off=sign_off(
            judged,
            num_planned=len(measured_cases(candidates))
            - sum(num_impossible(item.baseline.results, item.candidate.results) for item in pairs),
            num_clusters=len(clusters),
            standard=standard,
        ),
        means=mean_changes(judged),
        environment={
            name: values
            for item in reversed(runs)
            for name, values in environment_diff(item.baseline, after=item.candidate).items()
        },
    )


def _results(pairs: Sequence[DocumentPair]) -> list[Pair]:
    """Return each case once, with both sides from one machine."""
    results = (
        pair
        for item in pairs
        for pair in paired_results(item.baseline.results, item.candidate.results)
    )
    return list({pair.baseline.case.key: pair for pair in results}.values())


def _judged_case(
    item: JudgedPair, *, diff: KernelDiff | None, findings: Sequence[str]
) -> JudgedCase:
    """Return a case with its factors.

    A case without a regression has all kinds and operators of its kernels, as the base rate of
    those that grew elsewhere.
    """
    case = item.pair.candidate.case
    row = item.worst or item.time
    kinds, operators = kinds_and_operators(item.pair.candidate.kernels)
    if item.worst is not None:
        kinds = () if diff is None else _grown(diff.rollup.kinds)
        operators = () if diff is None else _grown(diff.rollup.operators)
    return JudgedCase(
        case=case,
        factors=case_factors(
            case,
            grown_kinds=kinds,
            grown_operators=operators,
            new_findings=findings,
        ),
        is_regression=item.worst is not None,
        ratio=None if row is None else row.comparison.ratio,
    )


def _grown(parts: Sequence[PartChange]) -> tuple[str, ...]:
    extra_s = sum(max(0.0, part.change_s) for part in parts)
    return tuple(
        part.name
        for part in parts
        if part.name and extra_s > 0 and part.change_s >= GROWN_SHARE * extra_s
    )


def _kernel_diff(pair: Pair) -> KernelDiff | None:
    if not pair.baseline.kernels or not pair.candidate.kernels:
        return None
    try:
        return diff_kernels(side_of(pair.baseline), side_of(pair.candidate))
    except RecordError:
        return None


def _cause(diff: KernelDiff | None) -> str:
    return "" if diff is None else cause_text(diff, is_slower=True)


def _new_findings(pair: DocumentPair) -> Mapping[str, tuple[str, ...]]:
    """Return the codes of the findings that only the candidate has, by result of the case."""
    before, after = (_codes(document) for document in (pair.baseline, pair.candidate))
    return {
        key: tuple(code for code in codes if code not in before.get(key, ()))
        for key, codes in after.items()
    }


def _codes(document: RunDocument) -> dict[str, tuple[str, ...]]:
    findings = run_findings(document)
    results: Mapping[str, CaseResult] = {result.case.key: result for result in document.results}
    return {
        key: tuple(finding.code for finding in findings.get(result.id, ()))
        for key, result in results.items()
    }
