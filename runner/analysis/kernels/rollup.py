"""The kernels of both sides of a diff, summed by kind, by operator and by module.

A kernel without a recorded operator, as in a replayed graph, counts under the names of its matches,
in proportion to their times.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.kernels import Kernel, modules_of
from compile_hud.db.shared.text import one_line, shortened, significant
from compile_hud.runner.analysis.kernels.change_classes import KernelChange
from compile_hud.runner.analysis.kernels.grouping import reportable_operators
from compile_hud.runner.analysis.kernels.operator_families import family_of
from compile_hud.runner.analysis.kernels.replays import is_unattributed

# Layers of one kind are one line: `encoder.layer.3.output` is `encoder.layer.*.output`.
_INDEX = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")
# A fused kernel may compute twenty operators.
_NUM_OPERATORS = 4
# The engine itself is the operator of a custom function in the backward pass.
_ENGINE = "autograd::engine::evaluate_function: "
UNKNOWN = ""
_MAX_NAME = 60
# Times are shown to a tenth of a microsecond.
_SMALLEST_S = 5e-8

# Seconds by name.
_Times = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChange:
    """Seconds an iteration of one part of the time on both sides."""

    name: str
    baseline_s: float
    candidate_s: float

    @property
    def change_s(self) -> float:
        """Return the candidate's extra time, in seconds an iteration."""
        return self.candidate_s - self.baseline_s

    @property
    def is_changed(self) -> bool:
        """Return whether the times differ by more than rounding."""
        return abs(self.change_s) >= _SMALLEST_S

    @property
    def label(self) -> str:
        """Return the name, short enough for a line."""
        return shortened(one_line(self.name), limit=_MAX_NAME) if self.name else "unknown"

    @property
    def text(self) -> str:
        """Return both times in the unit of the longer one: `gemm 13.0 -> 32.9 ms`."""
        longest_s = max(self.baseline_s, self.candidate_s)
        scale, unit = (1e3, "ms") if longest_s >= 1e-3 else (1e6, "us")
        before, after = (
            significant(scale * time_s) for time_s in (self.baseline_s, self.candidate_s)
        )
        return f"{self.label} {before} -> {after} {unit}"

    def to_json(self) -> dict[str, Any]:
        """Return the part as a JSON object; times are microseconds an iteration."""
        return {
            "name": self.name,
            "baseline_us": 1e6 * self.baseline_s,
            "candidate_us": 1e6 * self.candidate_s,
            "change_us": 1e6 * self.change_s,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """The sums of all rows by a property, the largest change first.

    The sums of one property add up to the kernels of each side. The name is empty where the
    property is unknown. `modules` is empty if no module is known.
    """

    kinds: tuple[PartChange, ...] = ()
    operators: tuple[PartChange, ...] = ()
    modules: tuple[PartChange, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a JSON object."""
        return {
            name: [part.to_json() for part in parts]
            for name, parts in (
                ("kinds", self.kinds),
                ("operators", self.operators),
                ("modules", self.modules),
            )
        }


def roll_up(rows: Sequence[KernelChange]) -> Rollup:
    """Return the sums of the kernels of `rows`."""
    modules = _sums(rows, times_of=_modules)
    has_modules = any(part.name != UNKNOWN for part in modules)
    return Rollup(
        kinds=_sums(rows, times_of=_kinds),
        operators=_sums(rows, times_of=_operators),
        modules=modules if has_modules else (),
    )


def kinds_and_operators(kernels: Iterable[Kernel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the known kinds and operators of `kernels`, each in order."""
    known = list(kernels)
    kinds, operators = (
        tuple(sorted({name for kernel in known for name in times_of(kernel) if name != UNKNOWN}))
        for times_of in (_kinds, _operators)
    )
    return kinds, operators


def _sums(
    rows: Iterable[KernelChange], *, times_of: Callable[[Kernel], _Times]
) -> tuple[PartChange, ...]:
    sides: tuple[dict[str, list[float]], ...] = (defaultdict(list), defaultdict(list))
    for row in rows:
        for sums, side, others in zip(
            sides, (row.baseline, row.candidate), (row.candidate, row.baseline), strict=True
        ):
            # The other side first: its calls are those that this side replays.
            shares = _shares(others, times_of=times_of) or _shares(side, times_of=times_of)
            for name, time_s in _side_times(side, shares=shares, times_of=times_of):
                sums[name].append(time_s)
    parts = [
        PartChange(
            name=name, baseline_s=math.fsum(sides[0][name]), candidate_s=math.fsum(sides[1][name])
        )
        for name in sides[0].keys() | sides[1].keys()
    ]
    return tuple(sorted(parts, key=lambda part: (-abs(part.change_s), -part.baseline_s, part.name)))


def _side_times(
    side: Sequence[Kernel], *, shares: _Times, times_of: Callable[[Kernel], _Times]
) -> Iterable[tuple[str, float]]:
    """Yield names and times of kernels; those without an operator have the names of `shares`."""
    for kernel in side:
        if is_unattributed(kernel) and shares:
            yield from ((name, share * kernel.total_s) for name, share in shares.items())
        else:
            yield from times_of(kernel).items()


def _shares(kernels: Iterable[Kernel], *, times_of: Callable[[Kernel], _Times]) -> _Times:
    """Return the share of each name in the time of the `kernels` with an operator."""
    sums: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        if not is_unattributed(kernel):
            for name, time_s in times_of(kernel).items():
                sums[name] += time_s
    whole_s = math.fsum(sums.values())
    return {name: time_s / whole_s for name, time_s in sums.items()} if whole_s else {}


def _kinds(kernel: Kernel) -> _Times:
    return {kernel.kind: kernel.total_s}


def _operators(kernel: Kernel) -> _Times:
    names = sorted(map(family_of, reportable_operators(map(_called, kernel.operators))))
    more = f" + {len(names) - _NUM_OPERATORS} more" if len(names) > _NUM_OPERATORS else ""
    return {" + ".join(names[:_NUM_OPERATORS]) + more: kernel.total_s}


def _called(operator: str) -> str:
    """Return the node of the graph of gradients that autograd's engine calls, or the operator."""
    return operator.removeprefix(_ENGINE)


def _modules(kernel: Kernel) -> _Times:
    """Return the time in each module; a row of some calls only has its part of each."""
    listed = modules_of(kernel)
    whole_s = math.fsum(module.total_s for module in listed)
    if not whole_s:
        return {_without_index(kernel.module): kernel.total_s}
    times: dict[str, float] = defaultdict(float)
    for module in listed:
        times[_without_index(module.path)] += kernel.total_s * module.total_s / whole_s
    return times


def _without_index(path: str) -> str:
    return _INDEX.sub("*", path)
