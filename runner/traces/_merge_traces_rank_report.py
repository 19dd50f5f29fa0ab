"""What the traces of several ranks say, side by side, and its JSON form."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# 1: first version.
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Span:
    """When a rank computed, communicated or copied, after the earliest rank's first iteration."""

    group: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """What one rank did; seconds are of one iteration where nothing else is said.

    `start_s` is when its first iteration began after that of the earliest rank, `skew_s` what its
    clock is ahead of the first rank's, taken off already. `compute_s` + `copy_s` + `exposed_s` +
    `idle_s` are the iteration: `exposed_s` is the part of `communication_s` that neither computing
    nor copying hides, `overlap` the part of it that they do (None without communication).
    `waited_s` is for later ranks in collectives; `delay_s` how long others waited for this one,
    which came last to `num_last` collectives of all iterations. `spans` are of the first one.
    """

    rank: int
    trace: str
    device: str
    start_s: float
    skew_s: float
    num_iterations: int
    iteration_s: float
    busy: float
    compute_s: float
    communication_s: float
    exposed_s: float
    copy_s: float
    idle_s: float
    overlap: float | None
    waited_s: float
    delay_s: float
    num_last: int
    is_straggler: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """All ranks, by number. `num_collectives` were found on several ranks and compared.

    `num_unmatched` were not: only one rank has them, or ranks have different numbers of them.
    """

    rows: tuple[RankRow, ...]
    world_size: int
    num_collectives: int
    num_unmatched: int

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
