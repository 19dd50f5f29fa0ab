"""The data of the page of modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compile_hud.db.records.results import Case, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberWithInterval:
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """The results of a mode for the common cohort: geometric means, compile times in seconds.

    `memory` is the peak over that of eager, None unless every model has it. `beaten_by` are the
    modes that dominate it (the Pareto front excludes it). `num_common` of `num_subjects` models are
    the cohort, `num_ok` are ok in this mode.
    """

    variant: str
    speedup: NumberWithInterval
    compile_s: NumberWithInterval
    memory: NumberWithInterval | None
    beaten_by: tuple[str, ...]
    num_common: int
    num_subjects: int
    num_ok: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsRow:
    """The best mode from `from_calls` calls per process on, and its total time over eager's."""

    variant: str
    from_calls: float
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCell:
    """A mode of one model: without a speedup, the outcome or `missing` has the reason.

    `break_even` is the number of calls after which the compile time is recovered, None if the
    speedup is not significant. `ran_as` is the mode that ran instead, "" for none.
    """

    case: Case
    outcome: Outcome
    missing: str = ""
    speedup: NumberWithInterval | None = None
    break_even: NumberWithInterval | None = None
    ran_as: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model, with its phase, shape, dtype and device, in every mode."""

    case: Case
    cells: Mapping[str, ModelCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesPage:
    """The comparison of the modes for the models that pass the filters.

    `modes` are the fastest first; `spans` has the best mode by number of calls. Both are empty
    without a model that is ok in every mode. `best` is the mode for a long-lived process, "" for
    eager. `speedup` is the label of the speedups, with their clock. `ran_as` has the modes that are
    not compared, each with the mode that ran for it in every ok case.
    """

    modes: tuple[ModeRow, ...]
    spans: tuple[CallsRow, ...]
    best: str
    rows: tuple[ModelRow, ...]
    speedup: str
    ran_as: Mapping[str, str]

    def speedups(self, row: ModelRow) -> list[NumberWithInterval]:
        """Return the speedups of a model in the compared modes."""
        return [
            cell.speedup
            for mode, cell in row.cells.items()
            if cell.speedup is not None and mode not in self.ran_as
        ]
