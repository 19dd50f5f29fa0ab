"""Choose a mode to ship: speedup, compile time and memory, by the number of calls.

Method: every number of a mode is a geometric mean over the common cohort: the models that have a
speedup and a compile time in every mode. Its interval is that of `study_tables`. A mode beats
another in one of the three where its interval lies wholly on the better side. Compile time and
memory of one launch have no interval: a difference below the relevance floor of their metric does
not count. A mode is on the Pareto front unless another mode beats it in one and is beaten by it in
none. One that only its memory keeps there is not on the line of speed and compile time. Modes with
no such difference in two of the three are decided by the third, and in all three
by simplicity. A mode with the code of a simpler one for most models never replaces it. Not
compiling is a point too (1x, 0 s, 1x). A mode is worth compiling for if its gain reaches the floor
and its interval lies above none. For a model, the time of N calls relative to eager is

    compile / (N x eager) + 1 / speedup.

Here eager = latency x speedup. For a mode it is the geometric mean of that. The best mode for N is
the one with the least time, by the points. It is not compiling, or a mode that is worth it and that
no other such mode beats. The break-even is the N at which that time is 1. Its interval combines the
ends of compile time, latency and speedup, so it is wider than 95 %.
Assumptions: every model weighs the same, is called N times in a process that compiles once, with
the measured shape. Models outside of the cohort are not considered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.runner.analysis.stats.break_even import calls_to_pay_back
from compile_hud.runner.analysis.stats.cohort import common_cohort
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.tables import geometric_mean_estimate

EAGER = "eager"
# The calls of a long-lived process: at a millisecond each, they take a day and more.
LONG_LIVED_CALLS = 1e8
# A smaller gain is no reason to compile: the same floor decides whether a change is relevant.
MIN_GAIN = METRICS["speedup"].relevance_floor
# Numbers of calls are shown with two digits.
_CALLS_PER_DECADE = 200
# A step of the grid is 1.2 %: so many halvings give seven digits.
_NUM_HALVINGS_OF_STEP = 16
# Decades of calls in which a break-even is searched, and the halvings that give ten digits.
_BREAK_EVEN_DECADES = (-6.0, 24.0)
_NUM_HALVINGS = 50
# Compile time and memory are mostly of one launch, whose interval has no width.
_COMPILE_FLOOR = METRICS["compile_cold_s"].relevance_floor
_MEMORY_FLOOR = METRICS["peak_bytes"].relevance_floor
_ONE = Estimate(1.0, 1.0, 1.0)
_MEMORY = "memory"


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


class FrontStatus(StrEnum):
    """Membership in the Pareto front; BY_MEMORY: another mode beats it, but not in memory."""

    ON = "on"
    BY_MEMORY = "by memory"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCost:
    """The costs of a mode for the common cohort; None if the cohort has no such number.

    `break_even` is the number of calls that repay the compile time, None without a significant
    speedup. `front` is its membership in the Pareto front, `beaten_by` the modes that exclude it
    from there; empty on the front.
    """

    variant: str
    speedup: Estimate
    compile_s: Estimate
    memory: Estimate | None
    break_even: Estimate | None = None
    front: FrontStatus = FrontStatus.ON
    beaten_by: tuple[str, ...] = ()

    @property
    def is_on_front(self) -> bool:
        """Return whether no other mode excludes it from the Pareto front."""
        return self.front is not FrontStatus.OFF

    @property
    def is_on_line(self) -> bool:
        """Return whether it is on the front of speed and compile time, memory aside."""
        return self.front is FrontStatus.ON

    @property
    def is_worth(self) -> bool:
        """Return whether the gain reaches the floor and is significant."""
        return self.speedup.value >= 1 + MIN_GAIN and self.speedup.low > 1


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
    `candidates` has the costs of the modes that can be the best, for each subject of the cohort.
    `twins` are the modes with the code of a simpler one for most models, and that one; `ties` those
    without a relevant advantage over a simpler one.
    """

    cohort: tuple[str, ...]
    num_subjects: int
    modes: tuple[ModeCost, ...]
    spans: tuple[ModeSpan, ...]
    candidates: Mapping[str, Sequence[Cost]] = field(default_factory=dict)
    twins: Mapping[str, str] = field(default_factory=dict)
    ties: Mapping[str, str] = field(default_factory=dict)

    def best_for(self, calls: float | None = None) -> ModeCost | None:
        """Return the mode with the least time of `calls`, None if it is eager.

        Without a number it is that of a long-lived process.
        """
        times = {name: self.relative_time(name, calls=calls) for name in self.candidates}
        name = min(times, key=times.__getitem__, default=EAGER)
        if times.get(name, 1.0) >= 1:
            return None
        return next(mode for mode in self.modes if mode.variant == name)

    def relative_time(self, variant: str, *, calls: float | None = None) -> float:
        """Return the time of `calls` in a candidate, compiling included, over eager's time."""
        numbers = np.asarray([LONG_LIVED_CALLS if calls is None else calls])
        return float(_relative_times(self.candidates[variant], numbers)[0])


def choose_mode(
    costs: Mapping[str, Mapping[str, Cost]], *, twins: Mapping[str, str] | None = None
) -> Choice:
    """Return the comparison of the modes; `costs` are by mode and subject, only of ok results.

    The simplest mode comes first. A mode without any result is left out, so that it does not empty
    the cohort. `twins` are the modes with the code of a simpler one for most models, and that one.
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
    known = {name: other for name, other in (twins or {}).items() if {name, other} <= {*chosen}}
    modes = _on_front([_mode_cost(name, column) for name, column in chosen.items()], twins=known)
    names, ties = _candidates(modes, twins=known)
    return Choice(
        cohort=cohort,
        num_subjects=num_subjects,
        modes=tuple(sorted(modes, key=lambda mode: (-mode.speedup.value, mode.variant))),
        spans=_spans({name: chosen[name] for name in names}),
        candidates={name: tuple(chosen[name]) for name in names},
        twins=known,
        ties=ties,
    )


def best_of_model(costs: Mapping[str, Cost], *, calls: float | None = None) -> ModeCost | None:
    """Return the best mode for `calls` of one model, None if it is eager.

    `costs` are by mode, the simplest first.
    """
    modes = _on_front([_mode_cost(variant, [cost]) for variant, cost in costs.items()], twins={})
    names, _ = _candidates(modes, twins={})
    num_calls = LONG_LIVED_CALLS if calls is None else calls
    times = {
        mode.variant: mode.compile_s.value / (num_calls * costs[mode.variant].latency.value) + 1
        for mode in modes
        if mode.variant in names
    }
    times = {name: time / costs[name].speedup.value for name, time in times.items()}
    name = min(times, key=times.__getitem__, default=EAGER)
    if times.get(name, 1.0) >= 1:
        return None
    return next(mode for mode in modes if mode.variant == name)


def _candidates(
    modes: Sequence[ModeCost], *, twins: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the modes that can be the best, and the ties: the simpler mode of each.

    They are worth compiling for, and no other such mode beats them or is as good and simpler.
    `modes` begin with the simplest.
    """
    worth = {mode.variant: mode for mode in modes if mode.is_worth}
    worth = {name: mode for name, mode in worth.items() if twins.get(name) not in worth}
    # Three modes may beat each other in a circle, one in speed, one in compile time, one in memory.
    front = [mode for mode in worth.values() if not worth.keys() & mode.beaten_by]
    names: list[str] = []
    ties: dict[str, str] = {}
    for mode in front or worth.values():
        simpler = next((name for name in names if _is_tie(mode, worth[name])), None)
        if simpler is None:
            names.append(mode.variant)
        else:
            ties[mode.variant] = simpler
    return names, ties


def _mode_cost(variant: str, costs: Sequence[Cost]) -> ModeCost:
    memories = [cost.memory for cost in costs if cost.memory is not None]
    return ModeCost(
        variant=variant,
        speedup=geometric_mean_estimate([cost.speedup for cost in costs]),
        compile_s=geometric_mean_estimate([cost.compile_s for cost in costs]),
        memory=geometric_mean_estimate(memories) if len(memories) == len(costs) else None,
        break_even=_break_even(costs),
    )


def _on_front(modes: Sequence[ModeCost], *, twins: Mapping[str, str]) -> list[ModeCost]:
    eager = ModeCost(variant=EAGER, speedup=_ONE, compile_s=Estimate(0.0, 0.0, 0.0), memory=_ONE)
    members = []
    for mode in modes:
        rivals = [
            other
            for other in (eager, *modes)
            if other is not mode and twins.get(other.variant) != mode.variant
        ]
        beaten_by = tuple(other.variant for other in rivals if _beats(other, mode))
        front = FrontStatus.OFF if beaten_by else FrontStatus.ON
        if front is FrontStatus.ON and any(_beats(other, mode, but=_MEMORY) for other in rivals):
            front = FrontStatus.BY_MEMORY
        members.append(replace(mode, front=front, beaten_by=beaten_by))
    return members


def _beats(one: ModeCost, other: ModeCost, *, but: str = "") -> bool:
    """Return whether `one` is better than `other` in something and worse in nothing.

    The axis `but` does not count.
    """
    better, worse = _advantages(one, other), _advantages(other, one)
    return any(name != but for name in better) and all(name == but for name in worse)


def _is_tie(one: ModeCost, other: ModeCost) -> bool:
    return not _advantages(one, other) and not _advantages(other, one)


def _advantages(one: ModeCost, other: ModeCost) -> list[str]:
    """Return in which of speed, compile time and memory `one` is better; memory if both have it."""
    axes = [
        ("speed", _inverse(one.speedup), _inverse(other.speedup), 0.0),
        ("compile time", one.compile_s, other.compile_s, _COMPILE_FLOOR),
    ]
    if one.memory is not None and other.memory is not None:
        axes.append((_MEMORY, one.memory, other.memory, _MEMORY_FLOOR))
    return [
        name
        for name, left, right, floor in axes
        if left.high < right.low and left.value * (1 + floor) <= right.value
    ]


def _inverse(estimate: Estimate) -> Estimate:
    return Estimate(1 / estimate.value, 1 / estimate.high, 1 / estimate.low)


def _spans(costs: Mapping[str, Sequence[Cost]]) -> tuple[ModeSpan, ...]:
    num_steps = round(np.log10(LONG_LIVED_CALLS) * _CALLS_PER_DECADE)
    calls = np.logspace(0, np.log10(LONG_LIVED_CALLS), num_steps + 1)
    names = [EAGER, *costs]
    times = _times_by_mode(costs, calls)
    best = times.argmin(axis=0)
    starts = [0, *(np.flatnonzero(np.diff(best)) + 1).tolist()]
    spans = []
    for index, start in enumerate(starts):
        from_calls, time = calls[start], times[best[start], start]
        if start:
            before, after = int(best[start - 1]), int(best[start])
            from_calls = _crossing(costs, (before, after), between=(calls[start - 1], calls[start]))
            time = _times_by_mode(costs, np.asarray([from_calls]))[after, 0]
        if index == len(starts) - 1:
            time = times[best[start], -1]
        spans.append(
            ModeSpan(
                variant=names[int(best[start])],
                from_calls=float(from_calls),
                relative_time=float(time),
            )
        )
    return tuple(spans)


def _times_by_mode(costs: Mapping[str, Sequence[Cost]], calls: np.ndarray) -> np.ndarray:
    """Return the times of `calls` over eager's, a row for eager and each mode."""
    columns = [_relative_times(column, calls) for column in costs.values()]
    return np.vstack([np.ones_like(calls), *columns])


def _crossing(
    costs: Mapping[str, Sequence[Cost]], rows: tuple[int, int], *, between: tuple[float, float]
) -> float:
    """Return the number of calls from which the second of two rows takes less time."""
    low, high = between
    for _ in range(_NUM_HALVINGS_OF_STEP):
        middle = (low * high) ** 0.5
        before, after = _times_by_mode(costs, np.asarray([middle]))[list(rows), 0]
        low, high = (low, middle) if after < before else (middle, high)
    return high


def _relative_times(costs: Sequence[Cost], calls: np.ndarray) -> np.ndarray:
    """Return the time of `calls` calls over eager's time, the geometric mean of the cohort."""
    compile_s, latency_s, speedup = _points(costs)
    of_models = compile_s / (latency_s * speedup) / calls[:, None] + 1 / speedup
    return np.asarray(np.exp(np.mean(np.log(of_models), axis=1)))


def _points(costs: Sequence[Cost]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the compile times, latencies and speedups of the models."""
    return (
        np.asarray([cost.compile_s.value for cost in costs]),
        np.asarray([cost.latency.value for cost in costs]),
        np.asarray([cost.speedup.value for cost in costs]),
    )


def _break_even(costs: Sequence[Cost]) -> Estimate | None:
    ends = [
        geometric_mean_estimate([getattr(cost, name) for cost in costs])
        for name in ("compile_s", "latency", "speedup")
    ]
    compiled, latency, speedup = ends
    if len(costs) == 1 or speedup.low <= 1:
        return calls_to_pay_back(compiled, latency=latency, speedup=speedup)
    # The point, the fewest and the most calls: each end of a mean moves all models alike.
    moved = (
        np.asarray([1.0, compiled.low / compiled.value, compiled.high / compiled.value]),
        np.asarray([1.0, latency.high / latency.value, latency.low / latency.value]),
        np.asarray([1.0, speedup.high / speedup.value, speedup.low / speedup.value]),
    )
    compile_s, latency_s, ratios = (
        factors[:, None] * points for factors, points in zip(moved, _points(costs), strict=True)
    )
    low, high = (np.full((3, 1), end) for end in _BREAK_EVEN_DECADES)
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        times = compile_s / (10**middle * latency_s * ratios) + 1 / ratios
        is_slower = np.log(times).mean(axis=1, keepdims=True) > 0
        low, high = np.where(is_slower, middle, low), np.where(is_slower, high, middle)
    return Estimate(*(10 ** ((low + high) / 2)).ravel().tolist())
