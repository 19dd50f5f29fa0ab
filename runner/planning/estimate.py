"""The time that the cases of a plan take, estimated before anything is measured.

A case takes the seconds of its last result on this machine and toolchain, an unknown one the median
of its kind there. Without any history it takes the measured defaults below.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import Case
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES

# Starting the worker host and ending the run: `benchmarks/results/overhead.json`.
RUN_S = 11.0
REFERENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSeconds:
    """The seconds of the first launch of a case, which compiles cold, and of each later one."""

    first: CaseSeconds
    later: CaseSeconds

    def case(self, num_launches: int) -> CaseSeconds:
        """Return the seconds of a case of `num_launches`."""
        num_later = num_launches - 1
        alone_s = None
        if self.first.alone_s is not None and self.later.alone_s is not None:
            alone_s = self.first.alone_s + num_later * self.later.alone_s
        return CaseSeconds(
            took_s=self.first.took_s + num_later * self.later.took_s, alone_s=alone_s
        )


# Means of launches, by the device and whether the case is eager. Those of a CPU are of the suite
# `quick` (`benchmarks/results/overhead.json`), those of a GPU of `benchmarks/gpu/ledger`.
DEFAULTS: Mapping[tuple[str, bool], LaunchSeconds] = {
    ("cpu", True): LaunchSeconds(first=CaseSeconds(took_s=0.9), later=CaseSeconds(took_s=0.3)),
    ("cpu", False): LaunchSeconds(first=CaseSeconds(took_s=6.1), later=CaseSeconds(took_s=1.8)),
    ("cuda", True): LaunchSeconds(
        first=CaseSeconds(took_s=9.7, alone_s=2.0), later=CaseSeconds(took_s=4.1, alone_s=0.7)
    ),
    ("cuda", False): LaunchSeconds(
        first=CaseSeconds(took_s=45.9, alone_s=2.5), later=CaseSeconds(took_s=8.5, alone_s=0.9)
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEstimate:
    """The seconds by which a case makes its run longer, and whether they are of the history."""

    case: Case
    seconds: float
    is_known: bool


def estimate_cases(
    cases: Sequence[Case],
    *,
    known: Mapping[str, CaseSeconds],
    num_launches: int,
    num_processes: int,
) -> list[CaseEstimate]:
    """Return an estimate for each of `cases`.

    `known` are the seconds of the last results by the keys of cases. A run compiles `num_processes`
    cases at a time; 0 compiles each alone.
    """
    at_a_time = max(1, num_processes)
    seconds = {key: item.shared(at_a_time) for key, item in known.items()}
    medians = _medians(seconds)

    def of_case(case: Case) -> CaseEstimate:
        kind = (case.device, case.is_eager)
        if case.is_reference:
            value = seconds.get(case.key, REFERENCE_S)
        elif kind in medians:
            value = seconds.get(case.key, medians[kind])
        else:
            value = DEFAULTS[kind].case(num_launches).shared(at_a_time)
        return CaseEstimate(
            case=case, seconds=value, is_known=case.key in seconds or kind in medians
        )

    return [of_case(case) for case in cases]


def _medians(seconds: Mapping[str, float]) -> Mapping[tuple[str, bool], float]:
    """Return the median seconds of models by device and whether eager, from those by case key."""
    kinds: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for text, value in seconds.items():
        key = Case.parse_key(text)
        if key.model not in REFERENCES:
            kinds[key.device, key.variant == "eager"].append(value)
    return {kind: statistics.median(values) for kind, values in kinds.items()}
