"""A finding before attribution, and the kinds of findings with their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from compile_hud.db.records.findings import Exhibit, Location
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A finding before attribution.

    `kernels` are the indices of its kernels among those of the result: its cost is `part` of their
    time, as far as no earlier finding has it. `gap_s` is time without work for the GPU. With
    `measured_s` this is the cost, instead of both; no other finding may have any of it. Without
    `is_measured` its kernels decide whether it is reported, and it has no cost. `evidence`
    is all that is no kernel. With `has_own_cause` it is reported even if another finding has its
    time, since another remedy helps. An empty `remedy` means that of the kind.
    """

    text: str
    where: Location = Location()
    remedy: str = ""
    kernels: tuple[int, ...] = ()
    part: float = 1.0
    gap_s: float = 0.0
    measured_s: float | None = None
    is_measured: bool = True
    evidence: tuple[Exhibit, ...] = ()
    has_own_cause: bool = False

    @property
    def has_time(self) -> bool:
        """Return whether the finding has a measured time."""
        return bool(self.kernels) or self.gap_s > 0 or bool(self.measured_s)


Rule = Callable[[ResultEvidence], Iterable[Draft]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingKind:
    """A kind of finding: a row of the table of all.

    `source` is the record that it is derived from. A finding with a time below `min_share` of the
    latency is left out; None if it has no time.
    """

    code: str
    meaning: str
    remedy: str
    source: str
    rule: Rule
    min_share: float | None = 0.03
