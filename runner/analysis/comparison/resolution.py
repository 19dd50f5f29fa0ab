"""The resolution of inconclusive comparisons, and the launches that would settle them.

Method: the resolution is the half-width of the interval. Interleaved launches exclude the spread
between runs; the number that settles a comparison is the one with which equal sides pass both
one-sided tests (log_change.py). Comparisons with one floor share a median, since a few noisy ones
say nothing about the others.
Assumptions: those of log_change.py; the spread of interleaved launches is that of the two runs.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import counted, significant
from compile_hud.runner.analysis.comparison.log_change import LogChange, num_launches_to_settle
from compile_hud.runner.analysis.comparison.noise_model import NoiseSource
from compile_hud.runner.analysis.comparison.runs import CaseComparison, floor_of

_SOURCES = {
    NoiseSource.HISTORY: "the history of the series",
    NoiseSource.CASES: "the other cases",
    NoiseSource.TABLE: "the fixed table",
    NoiseSource.PAIRS: "the pairs of launches",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The resolution of the inconclusive comparisons with one floor; sizes are relative.

    `num_launches` of each side in turn would settle half of them.
    """

    floor: float
    num_inconclusive: int
    num_compared: int
    seen: float
    largest: float
    num_launches: int

    @property
    def text(self) -> str:
        """Return the resolution as a sentence."""
        return resolution_text([self])

    def to_json(self) -> dict[str, Any]:
        """Return the resolution as a JSON object, sizes in percent."""
        return {
            "floor_pct": 100 * self.floor,
            "num_inconclusive": self.num_inconclusive,
            "num_compared": self.num_compared,
            "could_have_seen_pct": 100 * self.seen,
            "largest_pct": 100 * self.largest,
            "launches_to_settle": self.num_launches,
        }


def resolutions(rows: Sequence[CaseComparison], *, fail_above: float) -> tuple[Resolution, ...]:
    """Return the resolution of the undecided `rows`, the smallest floor first."""
    by_floor: dict[float, list[CaseComparison]] = defaultdict(list)
    for row in rows:
        if row.comparison.change is not None:
            by_floor[floor_of(row.metric, fail_above)].append(row)
    candidates = (_resolution(group, floor=floor) for floor, group in sorted(by_floor.items()))
    return tuple(item for item in candidates if item is not None)


def resolution_text(items: Sequence[Resolution]) -> str:
    """Return the sentences about all undecided comparisons in one line, "" without any."""
    return ". ".join(resolution_sentences(items))


def resolution_sentences(items: Sequence[Resolution]) -> tuple[str, ...]:
    """Return the number and the intervals of all undecided comparisons, then their remedy.

    Comparisons of different floors are counted together; the most launches settle all floors. An
    interval is given by its half-width. Without comparisons there is no sentence.
    """
    if not items:
        return ()
    sizes = sorted(item.seen for item in items)
    width = " to ".join(dict.fromkeys(_percent(size) for size in (sizes[0], sizes[-1])))
    width = f"{width.replace(' % to ', ' to ')} to each side"
    is_half = any(_percent(item.largest) != _percent(item.seen) for item in items)
    if is_half:
        width += f" in the median, {_percent(max(item.largest for item in items))} at most"
    floors = [f"{100 * item.floor:g} %" for item in items]
    number = sum(item.num_inconclusive for item in items)
    verb, interval = "is", "its interval reaches"
    if number > 1:
        verb, interval = "are", "their intervals reach"
    launches = counted(max(item.num_launches for item in items), "more launch")
    which = "it" if number == 1 else "half of them" if is_half else "them"
    return (
        f"{counted(number, 'comparison')} {verb} inconclusive at"
        f" {' and '.join(filter(None, (', '.join(floors[:-1]), floors[-1])))}:"
        f" {interval} {width}",
        f"About {launches} of each side would settle {which}",
    )


def is_undecided(row: CaseComparison) -> bool:
    """Return whether more launches could decide `row`; of some, another row decides already."""
    comparison = row.comparison
    is_open = comparison.verdict is Verdict.INCONCLUSIVE and not comparison.decided_by
    return is_open and comparison.change is not None


def has_inconclusive(rows: Sequence[CaseComparison]) -> bool:
    """Return whether some row is inconclusive, for any reason, and no other row decides."""
    return any(
        row.comparison.verdict is Verdict.INCONCLUSIVE and not row.comparison.decided_by
        for row in rows
    )


def launches_to_settle(row: CaseComparison, *, fail_above: float) -> int | None:
    """Return the number of further launches in turn that would settle `row`; None if decided."""
    change = row.comparison.change
    if change is None or not is_undecided(row):
        return None
    return _num_more_launches(change, floor=floor_of(row.metric, fail_above))


def noise_sources(rows: Sequence[CaseComparison]) -> Mapping[NoiseSource, int]:
    """Return the number of rows by the source of their noise, the best source first."""
    counts = Counter(row.comparison.noise for row in rows if row.comparison.noise is not None)
    return {source: counts[source] for source in NoiseSource if counts[source]}


def noise_text(rows: Sequence[CaseComparison]) -> str:
    """Return the sources of the noise, of several each with its number of rows."""
    sources = noise_sources(rows)
    if len(sources) == 1:
        return "".join(_SOURCES[source] for source in sources)
    return ", ".join(f"{_SOURCES[source]} ({num})" for source, num in sources.items())


def _resolution(rows: Sequence[CaseComparison], *, floor: float) -> Resolution | None:
    changes = [row.comparison.change for row in rows if is_undecided(row)]
    known = [change for change in changes if change is not None]
    if not known:
        return None
    seen = [change.resolution() for change in known]
    launches = [_num_more_launches(change, floor=floor) for change in known]
    return Resolution(
        floor=floor,
        num_inconclusive=len(known),
        num_compared=len(rows),
        seen=statistics.median(seen),
        largest=max(seen),
        num_launches=statistics.median_high(launches),
    )


def _num_more_launches(change: LogChange, *, floor: float) -> int:
    # Launches of two runs were not interleaved, so that they do not count.
    return max(1, num_launches_to_settle(change.launch_sd, floor=floor) - change.num_pairs)


def _percent(size: float) -> str:
    return f"{significant(100 * size, digits=2)} %"
