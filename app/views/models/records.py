"""The data of the page of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeHealth:
    """The health of a model's cases in one variant: their number by state, bad ones first.

    A state is `missing`, `overdue` or an outcome. A bad case is missing, overdue or failed.
    `case` and `run_id` lead to the first bad case, else to the first one.
    """

    variant: str
    num_by_state: Mapping[str, int]
    num_bad: int
    case: Case
    run_id: str

    @property
    def num_cases(self) -> int:
        """Return the number of cases."""
        return sum(self.num_by_state.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealth:
    """The health of a model on one machine in one toolchain.

    `summary` is the catalog's text on the model, "" if no result has stored it. `coverage` has the
    measured values of each dimension. `num_open` counts open regressions without muted ones and
    machine drift, `num_muted` the muted ones, `num_by_machine` those by machine drift, and
    `num_acknowledged` all acknowledged regressions. `noise` is a share or None.
    `compile_s_by_phase` has the cold compile time of mode default. `trend` are the last latencies
    of its first case in mode default, oldest first.
    """

    model: str
    family: str
    summary: str
    modes: tuple[ModeHealth, ...]
    coverage: Mapping[str, tuple[str, ...]]
    last_ok: datetime | None
    noise: float | None
    compile_s_by_phase: Mapping[str, float]
    num_open: int
    num_muted: int
    num_by_machine: int
    num_acknowledged: int
    trend: tuple[float, ...] = ()

    @property
    def num_bad(self) -> int:
        """Return the number of its bad cases."""
        return sum(mode.num_bad for mode in self.modes)
