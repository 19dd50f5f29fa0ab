"""Clusters of the regressions of a release: the regressions that have factors in common.

Method: greedy cover. Of the conjunctions that gather regressions (conjunctions.py) the one with the
smallest p-value becomes a cluster, the simplest of equal ones. Its regressions are then left out,
and the others are tested again, so that one cause is not reported twice. A regression that no
conjunction gathers is a cluster of its own. If most of all cases regress and are in no cluster, no
factor makes a difference, and they form one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from compile_hud.db.records.results import Case
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.release.conjunctions import (
    MIN_PURITY,
    Conjunction,
    Mask,
    discover,
    factor_table,
    p_values,
)
from compile_hud.runner.analysis.release.factors import (
    DEVICE,
    DTYPE,
    FAMILY,
    FINDING,
    KERNEL_KIND,
    MODE,
    MODEL,
    NAMES,
    OPERATOR,
    PHASE,
    SHAPE,
    SYMPTOMS,
    Factor,
)

# A contrast is between cases that differ in one of these alone; the first one says most.
_CONTRASTS: Final = (MODE, PHASE, DTYPE, DEVICE, SHAPE)
# A cluster may hold for all values of them.
_GENERAL: Final = (MODEL, PHASE, DTYPE, MODE, SHAPE, DEVICE)
_WORDS: Final = {
    FAMILY: "family {}",
    KERNEL_KIND: "{} kernels",
    OPERATOR: "operator {}",
    FINDING: "finding {}",
    MODE: "mode {}",
    SHAPE: "shape {}",
}
_ROUNDING_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCase:
    """A case with a decided answer; `ratio` is the one of the change, None for an outcome."""

    case: Case
    factors: tuple[Factor, ...]
    is_regression: bool
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionCluster:
    """Regressions with something in common.

    The `num_fitting` judged cases fit `conditions`, whose factors of one name are alternatives; a
    cluster without conditions is about all cases. `q_value` is 1 without evidence. Cases like those
    of the cluster, but with a factor of `spared`, are without a regression. `symptoms` are those
    of every case that are no condition.
    """

    conditions: tuple[Factor, ...]
    cases: tuple[JudgedCase, ...]
    num_fitting: int
    q_value: float
    spared: tuple[Factor, ...]
    symptoms: tuple[Factor, ...]
    representative: JudgedCase


def find_clusters(
    cases: Sequence[JudgedCase], *, measured: Collection[str] = ()
) -> tuple[RegressionCluster, ...]:
    """Return the clusters of the regressions, the largest first; each regression is in one.

    `measured` names the symptoms that were looked for in every case, so that absence counts.
    """
    cases = sorted(cases, key=lambda item: item.case.key)
    table = factor_table(
        [item.factors for item in cases],
        is_regression=[item.is_regression for item in cases],
        measured=measured,
    )
    twins = _twins(cases)
    clusters = []
    for conjunction, rows in _cover(discover(table), regressions=table.is_regression):
        members = tuple(cases[row] for row in np.flatnonzero(rows))
        conditions = members[0].factors if conjunction is None else conjunction.conditions
        if conjunction is None:
            conditions = tuple(item for item in conditions if item.name in (MODEL, MODE))
        clusters.append(
            RegressionCluster(
                conditions=conditions,
                cases=members,
                num_fitting=sum(_fits(item, conditions=conditions) for item in cases),
                q_value=1.0 if conjunction is None else conjunction.q_value,
                spared=_spared(members, twins),
                symptoms=_shared_symptoms(members, conditions=conditions),
                representative=_representative(members),
            )
        )
    return tuple(
        sorted(
            clusters,
            key=lambda item: (
                -len(item.cases),
                -_size(item.representative),
                item.representative.case.key,
            ),
        )
    )


def _fits(item: JudgedCase, *, conditions: Sequence[Factor]) -> bool:
    """Return whether a case has a factor of each name of `conditions`."""
    names = {factor.name for factor in conditions}
    return names == {factor.name for factor in item.factors if factor in conditions}


def cluster_text(
    cluster: RegressionCluster, *, num_regressions: int, cases: Sequence[JudgedCase]
) -> str:
    """Return a cluster as one line; `cases` are all judged ones."""
    shown = list(_common_texts(cluster, cases))
    shown += [_values_text(name, own) for name, own in _shown_conditions(cluster, cases).items()]
    fitting = [item for item in cases if _fits(item, conditions=cluster.conditions)]
    if not cluster.conditions:
        shown = ["all cases" if len(fitting) == len(cluster.cases) else "most cases"]
    shown += _general_texts(cluster, fitting)
    total = counted(num_regressions, "regression")
    parts = [f"{len(cluster.cases)} of {total}: {', '.join(shown)}"]
    if cluster.symptoms and len(cluster.cases) > 1:
        names = (_values_text(factor.name, [factor.value]) for factor in cluster.symptoms)
        parts.append(f"shared: {', '.join(names)}")
    if cluster.spared:
        parts.append(f"{_joined([factor.value for factor in cluster.spared], 'and')} unchanged")
    return "; ".join(parts)


def _cover(
    discovered: Sequence[Conjunction], *, regressions: Mask
) -> Iterator[tuple[Conjunction | None, Mask]]:
    """Yield clusters as their conjunction and the regressions that no earlier one has."""
    everything = np.ones_like(regressions)
    p = p_values(discovered, regressions=regressions, cases=everything)
    limit = max(p, default=0.0)
    left, cases = regressions.copy(), everything.copy()
    while (best := _best(discovered, left=left, cases=cases, limit=limit)) is not None:
        rows = best.fits & left
        yield best, rows
        left &= ~rows
        cases &= ~rows
    if regressions.sum() > 1 and left.sum() > MIN_PURITY * left.size:
        yield Conjunction(conditions=(), fits=everything, known=everything), left
        return
    for row in np.flatnonzero(left):
        yield None, np.arange(left.size) == row


def _best(
    discovered: Sequence[Conjunction], *, left: Mask, cases: Mask, limit: float
) -> Conjunction | None:
    """Return the conjunction with the most evidence among the regressions that are `left`."""
    candidates = [
        item
        for item in discovered
        if (item.fits & left).sum() > max(1.0, MIN_PURITY * (item.fits & cases).sum())
    ]
    p = p_values(candidates, regressions=left, cases=cases)
    ranked = [
        (round(math.log(value), _ROUNDING_DIGITS), item.complexity, index)
        for index, (item, value) in enumerate(zip(candidates, p, strict=True))
        if value <= limit
    ]
    return candidates[min(ranked)[-1]] if ranked else None


def _twins(cases: Sequence[JudgedCase]) -> Mapping[tuple[Factor, ...], list[JudgedCase]]:
    """Return the cases by all their factors of the plan but one of `_CONTRASTS`."""
    twins = defaultdict(list)
    for item in cases:
        for name in _CONTRASTS:
            twins[_without(item, name)].append(item)
    return twins


def _without(item: JudgedCase, name: str) -> tuple[Factor, ...]:
    plan = (factor for factor in item.factors if factor.name not in (name, *SYMPTOMS))
    return Factor(name, ""), *plan


def _spared(
    members: Sequence[JudgedCase], twins: Mapping[tuple[Factor, ...], Sequence[JudgedCase]]
) -> tuple[Factor, ...]:
    """Return the values of the first contrast with cases like half of `members`, none regressed."""
    own = {factor for item in members for factor in item.factors}
    for name in _CONTRASTS:
        regressed: dict[Factor, list[bool]] = defaultdict(list)
        for item in members:
            for twin in twins[_without(item, name)]:
                for factor in set(twin.factors) - own:
                    if factor.name == name:
                        regressed[factor].append(twin.is_regression)
        spared = [
            factor
            for factor, answers in regressed.items()
            if not any(answers) and 2 * len(answers) >= len(members)
        ]
        if spared:
            return tuple(sorted(spared, key=lambda item: (item.value != "eager", item)))
    return ()


def _shared_symptoms(
    members: Sequence[JudgedCase], *, conditions: Sequence[Factor]
) -> tuple[Factor, ...]:
    shared = set.intersection(*(set(item.factors) for item in members)) - set(conditions)
    return tuple(
        factor for factor in members[0].factors if factor.name in SYMPTOMS and factor in shared
    )


def _representative(members: Sequence[JudgedCase]) -> JudgedCase:
    return min(members, key=lambda item: (-_size(item), item.case.key))


def _size(item: JudgedCase) -> float:
    """Return the size of a change as a logarithm; a change without a ratio is the smallest."""
    return abs(math.log(item.ratio)) if item.ratio is not None and item.ratio > 0 else 0.0


def _shown_conditions(
    cluster: RegressionCluster, cases: Sequence[JudgedCase]
) -> Mapping[str, list[str]]:
    """Return the conditions by name, without alternatives that are all values but the spared."""
    shown: dict[str, list[str]] = {name: [] for name in NAMES}
    for factor in cluster.conditions:
        shown[factor.name].append(factor.value)
    for name in {factor.name for factor in cluster.spared if len(shown[factor.name]) > 1}:
        spared = {factor.value for factor in cluster.spared if factor.name == name}
        if spared.union(shown[name]) == _values_of(cases, name):
            shown[name] = []
    return {name: own for name, own in shown.items() if own}


def _common_texts(cluster: RegressionCluster, cases: Sequence[JudgedCase]) -> Iterator[str]:
    """Yield the values that all cases of a cluster share, if a symptom describes it."""
    if not any(factor.name in SYMPTOMS for factor in cluster.conditions):
        return
    conditions = {factor.name for factor in cluster.conditions}
    for name in _GENERAL:
        own = _values_of(cluster.cases, name)
        if name not in conditions and len(own) == 1 < len(_values_of(cases, name)):
            yield _values_text(name, list(own))


def _general_texts(cluster: RegressionCluster, fitting: Sequence[JudgedCase]) -> Iterator[str]:
    """Yield "all dtypes" for names of which each value that was measured has a regression."""
    named = {factor.name for factor in (*cluster.conditions, *cluster.spared)}
    if len(cluster.cases) == 1:
        return
    for name in _GENERAL:
        measured = _values_of(fitting, name)
        if name in named or len(measured) < 2 or measured != _values_of(cluster.cases, name):
            continue
        yield f"{'both' if len(measured) == 2 else 'all'} {name}s"


def _values_of(cases: Sequence[JudgedCase], name: str) -> set[str]:
    return {factor.value for item in cases for factor in item.factors if factor.name == name}


def _values_text(name: str, values: Sequence[str]) -> str:
    return _WORDS.get(name, "{}").format(_joined(values, "or"))


def _joined(values: Sequence[str], word: str) -> str:
    *first, last = values
    return f"{', '.join(first)} {word} {last}" if first else last
