"""Choose a mode to ship: speedup, compile time and memory, by the number of calls.

Method: every number of a mode is a geometric mean over the common cohort: the models that are ok
with a speedup and a compile time in every mode. Its interval is that of `study_tables`. A mode
beats another in one of the three where its interval lies wholly on the better side. It is on the
Pareto front unless another mode beats it in one and is beaten by it in none. Modes with no
significant difference in two of the three are decided by the third. Not compiling is a point too
(1x, 0 s, 1x). For a model, the time of N calls relative to eager is

    compile / (N x eager) + 1 / speedup.

Here eager = latency x speedup. For a mode it is the geometric mean of that. The best mode for N is
the one with the least time on the front, by the points.
Assumptions: every model weighs the same, is called N times in a process that compiles once, with
the measured shape. Models outside of the cohort are not considered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.stats.cohort import common_cohort
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.tables import geometric_mean_estimate

EAGER = "eager"
# No process makes more calls: at a millisecond each, they take a day and more.
MAX_CALLS = 1e8
# Numbers of calls are shown with two digits.
_CALLS_PER_DECADE = 200
_ONE = Estimate(1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The costs of a mode for one model; `memory` is its peak over that of eager.

    `latency` is that of a call in seconds on the clock of the speedup. `compile_s` is the cold or
    the warm compile time.
    """

    speedup: Estimate
    latency: Estimate
    compile_s: Estimate
    memory: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCost:
    """The costs of a mode for the common cohort; None if the cohort has no such number.

    `beaten_by` are the modes that exclude it from the Pareto front; empty on the front.
    """

    variant: str
    speedup: Estimate
    compile_s: Estimate
    memory: Estimate | None
    beaten_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeSpan:
    """The best mode from `from_calls` calls per process on.

    `relative_time` is the time of that many calls over eager's time; for the last span, the limit.
    """

    variant: str
    from_calls: float
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The modes over the common cohort, best first, and which is best for how many calls.

    `cohort` are the `num_common` subjects of `num_subjects`. Without a cohort all else is empty.
    """

    cohort: tuple[str, ...]
    num_subjects: int
    modes: tuple[ModeCost, ...]
    spans: tuple[ModeSpan, ...]

    @property
    def best(self) -> ModeCost | None:
        """Return the best mode for a long-lived process, None if it is eager."""
        last = self.spans[-1].variant if self.spans else EAGER
        return next((mode for mode in self.modes if mode.variant == last), None)


def choose_mode(costs: Mapping[str, Mapping[str, Cost]]) -> Choice:
    """Return the comparison of the modes; `costs` are by mode and subject, only of ok results.

    A mode without any result is left out, so that it does not empty the cohort.
    """
    present = {variant: column for variant, column in costs.items() if column}
    speedups = {
        variant: {name: cost.speedup.value for name, cost in column.items()}
        for variant, column in present.items()
    }
    cohort = common_cohort(speedups)
    num_subjects = len({name for column in costs.values() for name in column})
    if not cohort:
        return Choice(cohort=(), num_subjects=num_subjects, modes=(), spans=())
    chosen = {name: [column[item] for item in cohort] for name, column in present.items()}
    modes = _on_front([_mode_cost(name, column) for name, column in chosen.items()])
    front = [mode.variant for mode in modes if not mode.beaten_by]
    return Choice(
        cohort=cohort,
        num_subjects=num_subjects,
        modes=tuple(sorted(modes, key=lambda mode: (-mode.speedup.value, mode.variant))),
        spans=_spans({name: chosen[name] for name in front}),
    )


def _mode_cost(variant: str, costs: Sequence[Cost]) -> ModeCost:
    memories = [cost.memory for cost in costs if cost.memory is not None]
    return ModeCost(
        variant=variant,
        speedup=geometric_mean_estimate([cost.speedup for cost in costs]),
        compile_s=geometric_mean_estimate([cost.compile_s for cost in costs]),
        memory=geometric_mean_estimate(memories) if len(memories) == len(costs) else None,
    )


def _on_front(modes: Sequence[ModeCost]) -> list[ModeCost]:
    eager = ModeCost(variant=EAGER, speedup=_ONE, compile_s=Estimate(0.0, 0.0, 0.0), memory=_ONE)
    return [
        ModeCost(
            variant=mode.variant,
            speedup=mode.speedup,
            compile_s=mode.compile_s,
            memory=mode.memory,
            beaten_by=tuple(
                other.variant
                for other in (eager, *modes)
                if other is not mode and _beats(other, mode)
            ),
        )
        for mode in modes
    ]


def _beats(one: ModeCost, other: ModeCost) -> bool:
    """Return whether `one` is better than `other` in something and worse in nothing."""
    is_better, is_worse = [], []
    for first, right in _axes(one, other):
        is_better.append(first.high < right.low)
        is_worse.append(right.high < first.low)
    return any(is_better) and not any(is_worse)


def _axes(one: ModeCost, other: ModeCost) -> list[tuple[Estimate, Estimate]]:
    """Return both sides of each axis, lower is better; memory where both have it."""
    pairs = [(_inverse(one.speedup), _inverse(other.speedup)), (one.compile_s, other.compile_s)]
    if one.memory is not None and other.memory is not None:
        pairs.append((one.memory, other.memory))
    return pairs


def _inverse(estimate: Estimate) -> Estimate:
    return Estimate(1 / estimate.value, 1 / estimate.high, 1 / estimate.low)


def _spans(costs: Mapping[str, Sequence[Cost]]) -> tuple[ModeSpan, ...]:
    num_steps = round(np.log10(MAX_CALLS) * _CALLS_PER_DECADE)
    calls = np.logspace(0, np.log10(MAX_CALLS), num_steps + 1)
    names = [EAGER, *costs]
    times = np.vstack(
        [np.ones_like(calls), *(_relative_times(column, calls) for column in costs.values())]
    )
    best = times.argmin(axis=0)
    starts = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist()]
    spans = []
    for index, start in enumerate(starts):
        is_last = index == len(starts) - 1
        at = -1 if is_last else start
        spans.append(
            ModeSpan(
                variant=names[int(best[start])],
                from_calls=float(calls[start]),
                relative_time=float(times[best[start], at]),
            )
        )
    return tuple(spans)


def _relative_times(costs: Sequence[Cost], calls: np.ndarray) -> np.ndarray:
    """Return the time of `calls` calls over eager's time, the geometric mean of the cohort."""
    compile_s, eager_s, speedup = (
        np.asarray(column)
        for column in (
            [cost.compile_s.value for cost in costs],
            [cost.latency.value * cost.speedup.value for cost in costs],
            [cost.speedup.value for cost in costs],
        )
    )
    of_models = compile_s / eager_s / calls[:, None] + 1 / speedup
    return np.asarray(np.exp(np.mean(np.log(of_models), axis=1)))
