"""Find kernels that became slower while the latency of their case did not show it.

Method: each chain of kernels (chains.py) is a series. Autotuning may choose another configuration
each night: the factor between alternating configurations is divided out (variants.py). The common
factor of a night, the median over the chains, is that of the machine and is divided out too. The
detector of all series finds the steps of a chain. Its floor is a share of the latency: 1 % of it.
The p-value of a step uses the noise of its chain, moderated by that of the other chains
(variance_prior.py).

The decision is hierarchical (Benjamini and Bogomolov, Journal of the Royal Statistical Society B
76, 2014). First the case, by Simes' p-value over all its chains: it must stay within the budget of
a night (NIGHT_BUDGET), and a run decides over all its cases (false_discovery.py). Then the kernels,
by Benjamini and Hochberg's rule within the case.
Assumptions: those of detector.py; fewer than half of the chains change in one night.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.false_discovery import step_p_value
from compile_hud.runner.analysis.detector import Step, describe_steps
from compile_hud.runner.analysis.kernel_series.chains import KernelChain
from compile_hud.runner.analysis.kernel_series.variants import at_main_variant
from compile_hud.runner.analysis.stats.estimates import Spread, robust_sd
from compile_hud.runner.analysis.stats.variance_prior import (
    MIN_VARIANCES,
    fit_variance_prior,
    moderated,
)

# The newest results that are searched: six weeks of a baseline, and the nights of a step.
NUM_RESULTS = DEFAULT_CONFIG.level_points + DEFAULT_CONFIG.sustained_points
# The chance of a false alert in one case per night: one in ten years of nights.
NIGHT_BUDGET = 0.1 / 365
# The false discovery rate of the kernels that an alert names: one in twenty.
KERNEL_RATE = 0.05
# Share of the latency of a kernel that shows machine drift: a launch of a microsecond varies by
# itself.
MIN_WITNESS_SHARE = 0.005
# More than these offsets would not fit into a line.
MAX_OFFSETS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainChange:
    """The change of one chain, in seconds an iteration, at the speed of the newest nights."""

    chain: KernelChain
    before_s: float
    after_s: float

    @property
    def change_s(self) -> float:
        """Return the extra time of an iteration."""
        return self.after_s - self.before_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedChange:
    """Slower kernels of one onset that the latency does not show.

    `slower` are the kernels, the largest change first; `offsets` are those that became faster by
    the most. `first` is the night of the onset, `last_good` the last one before with the kernel.
    `end` is the first night at the old level again, None while the change lasts. `interval` is that
    of the relative change of the first kernel, `p_value` that of the case.
    """

    slower: tuple[ChainChange, ...]
    offsets: tuple[ChainChange, ...]
    first: int
    last_good: int
    end: int | None
    interval: tuple[float, float]
    latency_change: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChainStep:
    """A step of a chain; the positions are nights."""

    change: ChainChange
    first: int
    last_good: int
    end: int | None
    interval: tuple[float, float]
    p_value: float


def find_masked_changes(
    chains: Sequence[KernelChain], *, latencies_s: np.ndarray, floor: float, latency_floor: float
) -> list[MaskedChange]:
    """Return the masked changes of a case, oldest first.

    `latencies_s` has the latency of each night. `floor` is the least relevant change of a kernel as
    a share of the latency, `latency_floor` that of the latency itself. A case with fewer than
    MIN_VARIANCES long chains has none: nothing separates the kernel from the machine.
    """
    num_needed = DEFAULT_CONFIG.min_noise_points + DEFAULT_CONFIG.sustained_points
    if not chains or latencies_s.size < num_needed:
        return []
    latency_s = float(np.median(latencies_s))
    table = at_common_speed(chains, latency_s=latency_s)
    if table is None:
        return []
    prior = _noise_prior(table)
    steps = [
        step
        for chain, seconds in zip(chains, table, strict=True)
        for step in _steps(chain, seconds, min_change_s=floor * latency_s, prior=prior)
    ]
    num_judged = sum(_is_judged(seconds) for seconds in table)
    changes = []
    for together in _by_onset(steps):
        change = _masked(together, chains, table, num_judged=num_judged, latencies_s=latencies_s)
        least = DEFAULT_CONFIG.trigger_share * latency_floor
        if change is not None and abs(change.latency_change) < least:
            changes.append(change)
    return changes


def at_common_speed(chains: Sequence[KernelChain], *, latency_s: float) -> np.ndarray | None:
    """Return the seconds of the chains (a row each) without the common factor of each night.

    None if too few chains are long enough to be its witnesses.
    """
    table = np.array([at_main_variant(chain.seconds, variants=chain.variants) for chain in chains])
    is_judged = np.array([_is_judged(seconds) for seconds in table])
    witnesses = table[is_judged & (_medians(table) >= MIN_WITNESS_SHARE * latency_s)]
    if len(witnesses) < MIN_VARIANCES:
        return None
    logs = np.log(witnesses)
    factors = _medians((logs - _medians(logs)[:, np.newaxis]).T)
    moved: np.ndarray = table / np.exp(np.nan_to_num(factors))
    return moved


def _medians(table: np.ndarray) -> np.ndarray:
    """Return the median of each row without its NaN; NaN for a row of nothing else."""
    # Sorting all rows at once takes a tenth of the time of numpy's own function for NaN.
    ordered, numbers = np.sort(table, axis=1), (~np.isnan(table)).sum(axis=1)
    rows = np.arange(len(table))
    low, high = ordered[rows, np.maximum(numbers - 1, 0) // 2], ordered[rows, numbers // 2]
    medians: np.ndarray = (low + high) / 2
    return medians


def _is_judged(seconds: np.ndarray) -> bool:
    num_points = int((~np.isnan(seconds)).sum())
    return num_points >= DEFAULT_CONFIG.min_noise_points + DEFAULT_CONFIG.sustained_points


def _noise_prior(table: np.ndarray) -> Spread | None:
    """Return the distribution of the noise of the chains, before the newest nights."""
    variances, degrees = [], []
    for seconds in table:
        known = seconds[~np.isnan(seconds)][: -DEFAULT_CONFIG.sustained_points]
        if known.size >= DEFAULT_CONFIG.min_noise_points:
            variances.append(robust_sd(np.log(known)) ** 2)
            degrees.append(DEFAULT_CONFIG.degrees_per_point * (known.size - 1))
    return fit_variance_prior(variances, degrees)


def _steps(
    chain: KernelChain, seconds: np.ndarray, *, min_change_s: float, prior: Spread | None
) -> list[_ChainStep]:
    """Return the steps of a chain to a slower level."""
    nights = np.flatnonzero(~np.isnan(seconds))
    values = seconds[nights]
    least_s = DEFAULT_CONFIG.trigger_share * min_change_s
    if not _is_judged(seconds) or values.max() - values.min() < least_s:
        return []
    described = describe_steps(values, floor=least_s / float(np.median(values)))
    steps = []
    for number, step in enumerate(described):
        if step.is_return or step.after - step.before < least_s:
            continue
        following = described[number + 1] if number + 1 < len(described) else None
        is_over = following is not None and following.after - step.before < least_s
        steps.append(
            _ChainStep(
                change=ChainChange(chain=chain, before_s=step.before, after_s=step.after),
                first=int(nights[step.index]),
                last_good=int(nights[step.index - 1]),
                end=int(nights[step.end]) if is_over else None,
                interval=(step.low, step.high),
                p_value=_p_value(values, step, prior=prior),
            )
        )
    return steps


def _p_value(values: np.ndarray, step: Step, *, prior: Spread | None) -> float:
    old, new = values[step.start : step.index], values[step.index : step.end]
    min_sd = 0.0
    if prior is not None:
        degrees = DEFAULT_CONFIG.degrees_per_point * (old.size - 1)
        relative_sd = moderated(robust_sd(np.log(old)) ** 2, degrees=degrees, prior=prior).sd
        min_sd = relative_sd * step.before
    return step_p_value(old, new, min_sd=min_sd)


def _by_onset(steps: Sequence[_ChainStep]) -> list[list[_ChainStep]]:
    """Return the steps of each onset; those a night apart have one."""
    groups: list[list[_ChainStep]] = []
    for step in sorted(steps, key=lambda step: (step.first, -step.change.change_s)):
        if groups and step.first - groups[-1][0].first <= 1:
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _masked(
    steps: Sequence[_ChainStep],
    chains: Sequence[KernelChain],
    table: np.ndarray,
    *,
    num_judged: int,
    latencies_s: np.ndarray,
) -> MaskedChange | None:
    """Return the change of `steps`, which have one onset; None if no kernel is beyond chance."""
    ordered = sorted(step.p_value for step in steps)
    simes = min(num_judged * p_value / rank for rank, p_value in enumerate(ordered, start=1))
    limit = max(
        (
            p_value
            for rank, p_value in enumerate(ordered, start=1)
            if p_value <= KERNEL_RATE * rank / num_judged
        ),
        default=-1.0,
    )
    named = sorted(
        (step for step in steps if step.p_value <= limit), key=lambda step: -step.change.change_s
    )
    if not named:
        return None
    main = named[0]
    old, new = slice(0, main.first), slice(main.first, main.end)
    return MaskedChange(
        slower=tuple(step.change for step in named),
        offsets=_offsets(chains, table, old=old, new=new),
        first=main.first,
        last_good=main.last_good,
        end=main.end,
        interval=main.interval,
        latency_change=_level(latencies_s[new]) / _level(latencies_s[old]) - 1,
        p_value=min(1.0, simes),
    )


def _offsets(
    chains: Sequence[KernelChain], table: np.ndarray, *, old: slice, new: slice
) -> tuple[ChainChange, ...]:
    changes = [
        ChainChange(chain=chain, before_s=_level(seconds[old]), after_s=_level(seconds[new]))
        for chain, seconds in zip(chains, table, strict=True)
    ]
    faster = [item for item in changes if math.isfinite(item.change_s) and item.change_s < 0]
    return tuple(sorted(faster, key=lambda item: item.change_s)[:MAX_OFFSETS])


def _level(values: np.ndarray) -> float:
    """Return the median of the newest points, NaN without any."""
    known = values[~np.isnan(values)][-DEFAULT_CONFIG.baseline_points :]
    return float(np.median(known)) if known.size else math.nan
