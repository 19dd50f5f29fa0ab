"""Conjunctions of factors that gather regressions.

Method: Fisher's exact test, one-sided: the hypergeometric chance of so many regressions among the
cases that fit a conjunction. The step-up rule of multiple_testing.py, in the form for discrete
tests, controls the false discovery rate over all conjunctions (J. F. Heyse, in Recent Advances in
Biostatistics, 2011): a test counts with the chance of a p-value as small as the one at hand, which
for few fitting cases is far below it. Conjunctions that fit the same cases are one test.
Assumptions: cases are exchangeable. A case without any value of a symptom is unknown and left out
of tests of that symptom; a regression is not left out, but counts as one that does not fit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from compile_hud.runner.analysis.release.factors import MODE, NAMES, SYMPTOMS, Factor

# A reader has three conditions in mind; with more of them some fit any set of cases.
MAX_NAMES = 3
# At most half of the cases that fit a description may be without a regression.
MIN_PURITY = 0.5
# The false discovery rate. A wrong description costs a look at one more case, and a missing one a
# look at each case: benchmarks/release_clusters.py has the purity that follows.
RATE = 0.1
_EAGER = Factor(MODE, "eager")
# Modes with something in common: autotuning, and CUDA graphs.
_MODE_GROUPS = (
    (Factor(MODE, "max-autotune"), Factor(MODE, "max-autotune-no-cudagraphs")),
    (Factor(MODE, "max-autotune"), Factor(MODE, "reduce-overhead")),
)
# Two equal tables have one p-value; its last digits depend on the order of the sums.
_ROUNDING = 1 + 1e-9

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FactorTable:
    """Cases by their factors. `known` has the cases whose values of a name are known."""

    values: dict[Factor, Mask]
    known: dict[str, Mask]
    is_regression: Mask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Conjunction:
    """Conditions and the cases that fit them; factors of one name are alternatives.

    `known` has the cases of which is known whether they fit.
    """

    conditions: tuple[Factor, ...]
    fits: Mask
    known: Mask
    q_value: float = 1.0

    @property
    def complexity(self) -> tuple[int, bool, int, tuple[int, ...]]:
        """Return a key that is smaller for simpler conditions; symptoms are less simple."""
        names = tuple(dict.fromkeys(NAMES.index(factor.name) for factor in self.conditions))
        return len(names), self.has_symptom, len(self.conditions), names

    @property
    def has_symptom(self) -> bool:
        """Return whether a condition is about the change rather than the case."""
        return any(factor.name in SYMPTOMS for factor in self.conditions)


def factor_table(
    factors: Sequence[Sequence[Factor]],
    *,
    is_regression: Sequence[bool],
    measured: Collection[str] = (),
) -> FactorTable:
    """Return the table of cases with `factors`; all values of `measured` names are known."""
    regressions = np.asarray(is_regression, dtype=bool)
    values: dict[Factor, Mask] = defaultdict(lambda: np.zeros_like(regressions))
    for row, own in enumerate(factors):
        for factor in own:
            values[factor][row] = True
    known = {name: np.ones_like(regressions) for name in NAMES}
    for name in set(SYMPTOMS) - set(measured):
        fits = [mask for factor, mask in values.items() if factor.name == name]
        known[name] = np.logical_or.reduce([regressions, *fits])
    return FactorTable(
        values={factor: values[factor] for factor in sorted(values)},
        known=known,
        is_regression=regressions,
    )


def discover(table: FactorTable) -> list[Conjunction]:
    """Return the conjunctions that gather regressions at the false discovery rate."""
    num_regressions = int(table.is_regression.sum())
    tried = [
        item for item in _conjunctions(table) if MIN_PURITY * item.fits.sum() <= num_regressions
    ]
    if not tried:
        return []
    return [
        replace(item, q_value=float(q_value))
        for item, q_value in zip(tried, _q_values(tried, table), strict=True)
        if q_value <= RATE
    ]


def p_values(conjunctions: Sequence[Conjunction], *, regressions: Mask, cases: Mask) -> Numbers:
    """Return the chance of so many of `regressions` in each conjunction, among `cases` alone."""
    chances: dict[tuple[int, int], Numbers] = {}
    p = np.ones(len(conjunctions))
    for row, item in enumerate(conjunctions):
        size = int((item.known & cases).sum()), int((item.fits & cases).sum())
        if size not in chances:
            chances[size] = chances_of_as_many(*size, num_regressions=int(regressions.sum()))
        p[row] = chances[size][(item.fits & regressions).sum()]
    return p


def chances_of_as_many(num_cases: int, num_fitting: int, *, num_regressions: int) -> Numbers:
    """Return the chance that 0, 1, 2, ... regressions or more are among the fitting cases."""
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, num_cases + 1)))])

    def log_choices(number: int, chosen: Integers) -> Numbers:
        return np.asarray(
            log_factorials[number] - log_factorials[chosen] - log_factorials[number - chosen]
        )

    num_others = num_cases - num_regressions
    least = max(0, num_fitting - num_others)
    inside = np.arange(least, min(num_fitting, num_regressions) + 1)
    logs = log_choices(num_regressions, inside) + log_choices(num_others, num_fitting - inside)
    each = np.exp(logs - log_choices(num_cases, np.array([num_fitting])))
    as_many = np.minimum(1.0, np.cumsum(each[::-1])[::-1])
    return np.concatenate([np.ones(least), as_many])


def _q_values(tried: Sequence[Conjunction], table: FactorTable) -> Numbers:
    regressions = table.is_regression
    p = p_values(tried, regressions=regressions, cases=np.ones_like(regressions))
    grid = np.unique(p)
    # The number of tests that have such a p-value by chance.
    by_chance = np.zeros_like(grid)
    sizes = Counter((int(item.known.sum()), int(item.fits.sum())) for item in tried)
    for size, number in sizes.items():
        chances = chances_of_as_many(*size, num_regressions=int(regressions.sum()))
        attainable = np.concatenate([[0.0], chances[::-1]])
        below = np.searchsorted(attainable, grid * _ROUNDING, side="right") - 1
        by_chance += number * attainable[below]
    discovered = np.searchsorted(np.sort(p), grid * _ROUNDING, side="right")
    rates = np.minimum(1.0, by_chance / discovered)
    q = np.minimum.accumulate(rates[::-1])[::-1]
    return np.asarray(q[np.searchsorted(grid, p)])


def _conjunctions(table: FactorTable) -> Iterator[Conjunction]:
    """Yield the conjunctions, simpler ones first, and of those with equal cases the simplest."""
    terms = sorted(_terms(table), key=lambda item: item.complexity)
    everything = np.ones_like(table.is_regression)
    level = [Conjunction(conditions=(), fits=everything, known=everything)]
    seen = {everything.tobytes()}
    for _ in range(MAX_NAMES):
        extended = sorted(_extensions(level, terms), key=lambda item: item.complexity)
        level = []
        for item in extended:
            key = item.fits.tobytes()
            if key not in seen:
                seen.add(key)
                level.append(item)
        yield from level


def _extensions(
    level: Sequence[Conjunction], terms: Sequence[Conjunction]
) -> Iterator[Conjunction]:
    """Yield each conjunction of `level` with one more term, if two cases or more fit it."""
    if not terms:
        return
    stack = np.array([term.fits for term in terms])
    for parent in level:
        rows = [row for row, term in enumerate(terms) if _may_follow(parent, term)]
        fits = stack[rows] & parent.fits
        sizes = fits.sum(axis=1) if rows else np.zeros(0)
        for index in np.flatnonzero((sizes > 1) & (sizes < parent.fits.sum())):
            term = terms[rows[index]]
            yield Conjunction(
                conditions=(*parent.conditions, *term.conditions),
                fits=fits[index],
                known=parent.known & term.known,
            )


def _may_follow(parent: Conjunction, term: Conjunction) -> bool:
    """Return whether the term comes later in the order of names; one symptom is enough."""
    if not parent.conditions:
        return True
    is_later = NAMES.index(parent.conditions[-1].name) < NAMES.index(term.conditions[0].name)
    return is_later and not (parent.has_symptom and term.has_symptom)


def _terms(table: FactorTable) -> Iterator[Conjunction]:
    """Yield a term for each factor, and one for each group of modes."""
    compiled = [factor for factor in table.values if factor.name == MODE and factor != _EAGER]
    groups = {tuple(factor for factor in group if factor in table.values) for group in _MODE_GROUPS}
    if _EAGER in table.values:
        groups.add(tuple(compiled))
    choices = [(factor,) for factor in table.values]
    for choice in (*choices, *sorted(group for group in groups if len(group) > 1)):
        yield Conjunction(
            conditions=choice,
            fits=np.logical_or.reduce([table.values[factor] for factor in choice]),
            known=table.known[choice[0].name],
        )
