"""The work of the open cases of a run that compiles several at a time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from compile_hud.db.records.results import ALONE_S, Case, CaseResult, turn_seconds
from compile_hud.db.records.summaries import CaseSeconds


class OpenWork:
    """The seconds that a run needs for its open cases, when it compiles several at a time.

    An open case counts whole until its result, so the estimate is never too low because of
    progress. `known` has the seconds of the last results by the keys of cases.
    """

    def __init__(self, num_processes: int, *, known: Mapping[str, CaseSeconds]) -> None:
        self._num_processes = num_processes
        self._expected = {key: item.shared(num_processes) for key, item in known.items()}
        self._seen: dict[bool, list[float]] = {True: [], False: []}
        self._open: dict[str, Case] = {}

    def begin(self, case: Case) -> None:
        """Count `case` as open."""
        self._open[case.key] = case

    def end(self, result: CaseResult) -> None:
        """Remember how long the case of `result` took; it is no longer open."""
        self._open.pop(result.case.key, None)
        seconds = seconds_of(result).shared(self._num_processes)
        self._seen[result.case.is_eager].append(seconds)

    def needed_s(self, case: Case) -> float:
        """Return the seconds until `case` has its result if it begins now."""
        return sum(map(self._expected_s, (case, *self._open.values())))

    def _expected_s(self, case: Case) -> float:
        """Return the seconds of its last result, else the median of its kind in this run."""
        if case.key in self._expected:
            return self._expected[case.key]
        seen = self._seen[case.is_eager] or self._seen[not case.is_eager]
        return statistics.median(seen or self._expected.values() or [0.0])


def seconds_of(result: CaseResult) -> CaseSeconds:
    """Return the seconds that `result` took."""
    return CaseSeconds(took_s=result.took_s, alone_s=turn_seconds(result.details, ALONE_S))
