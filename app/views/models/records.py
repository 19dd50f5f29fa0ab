"""The data of the page of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeHealth:
    """The health of a model's cases in one variant; `why` is the state of the first that is not ok.

    `case` and `run_id` lead to that one, or to the first if all are ok.
    """

    variant: str
    num_ok: int
    num_cases: int
    why: str
    case: Case
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealth:
    """The health of a model on one machine in one toolchain.

    `summary` is the catalog's text on the model, "" if no result has stored it. `coverage` has the
    measured values of each dimension. `num_open` counts open regressions without muted ones and
    machine drift, `num_muted` the muted ones, `num_by_machine` those by machine drift. `noise` is a
    share, `compile_s` the cold compile time of mode default; None without one.
    """

    model: str
    family: str
    summary: str
    modes: tuple[ModeHealth, ...]
    coverage: Mapping[str, tuple[str, ...]]
    last_ok: datetime | None
    noise: float | None
    compile_s: float | None
    num_open: int
    num_muted: int
    num_by_machine: int

    @property
    def num_bad(self) -> int:
        """Return the number of its cases that are not ok."""
        return sum(mode.num_cases - mode.num_ok for mode in self.modes)
