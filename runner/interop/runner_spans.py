"""The times of the machines in imported rows that have the name or the type of a runner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

_DAY_S = 86_400
# Runs of one night can lie on two days, and those of two nights are nearly a day apart.
_NIGHT_S = _DAY_S / 2
# Machines with one night each on fewer days may be several devices of one night.
_MIN_NIGHTS = 3
# Few runners of a pool return by chance.
_MIN_SINGLE_SHARE = 0.8


@dataclass(slots=True)
class RunnerSpans:
    """The first and the last start of a run of each machine, in seconds since 1970."""

    by_machine: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, machine: str, *, first_s: float, last_s: float) -> None:
        """Add runs of a machine."""
        known_first_s, known_last_s = self.by_machine.get(machine, (first_s, last_s))
        self.by_machine[machine] = (min(first_s, known_first_s), max(last_s, known_last_s))

    @property
    def changing(self) -> tuple[str, ...]:
        """Return the machines of one night each, where every night has another runner.

        Empty where runners have lasting names.
        """
        single = {
            name: first_s
            for name, (first_s, last_s) in self.by_machine.items()
            if last_s - first_s < _NIGHT_S
        }
        num_nights = len({first_s // _DAY_S for first_s in single.values()})
        is_changing = num_nights >= _MIN_NIGHTS and len(single) >= _MIN_SINGLE_SHARE * len(
            self.by_machine
        )
        return tuple(sorted(single)) if is_changing else ()


def merged_spans(spans: Iterable[RunnerSpans]) -> RunnerSpans:
    """Return the machines of several files with the times of all."""
    merged = RunnerSpans()
    for item in spans:
        for machine, (first_s, last_s) in item.by_machine.items():
            merged.add(machine, first_s=first_s, last_s=last_s)
    return merged
