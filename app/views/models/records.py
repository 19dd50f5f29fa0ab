"""What the page of models is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeHealth:
    """How the cases of a model in one variant do; `why` is what the first that is not ok is.

    `case` and `run_id` lead to that one, or to the first where all are ok.
    """

    variant: str
    num_ok: int
    num_cases: int
    why: str
    case: Case
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealth:
    """How a model does on one machine in one toolchain.

    `summary` is what the catalog said that it stresses, "" where no result has kept it. `coverage`
    is what of each dimension is measured. `num_open` are its open regressions without what the
    machine did, `num_by_machine` that. `noise` is a share, `compile_s` the cold compile time of
    mode default; None where there is none.
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
    num_by_machine: int

    @property
    def num_bad(self) -> int:
        """Return how many of its cases are not ok."""
        return sum(mode.num_cases - mode.num_ok for mode in self.modes)
