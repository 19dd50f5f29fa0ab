"""What the page of modes is given."""

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
    """What a mode does for the common cohort: geometric means, times of compiling in seconds.

    `memory` is the peak over that of eager, None where not every model has it. `beaten_by` are the
    modes that keep it off the Pareto front. `num_common` of `num_subjects` models are the cohort,
    `num_ok` are ok in this mode.
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
    """The mode that is best from `from_calls` calls of a process on, and its time over eager's."""

    variant: str
    from_calls: float
    relative_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCell:
    """A mode of one model: without a speedup the outcome says why, or `missing`.

    `break_even` is after how many calls it has paid for its compilation, None where it never does
    for certain. `ran_as` is the mode that ran instead, "" where it is this one.
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
    """How the modes compare for the models that the filters let through.

    `modes` are the fastest first, `spans` which one is best for how many calls; both are empty
    without a model that is ok in every mode. `best` is the mode for a process that lives long, ""
    where not compiling is. `speedup` is what the speedups are called, with their clock. `ran_as`
    are the modes that are not compared, each with the one that ran under its name wherever it is
    ok.
    """

    modes: tuple[ModeRow, ...]
    spans: tuple[CallsRow, ...]
    best: str
    rows: tuple[ModelRow, ...]
    speedup: str
    ran_as: Mapping[str, str]

    def speedups(self, row: ModelRow) -> list[NumberWithInterval]:
        """Return those of a model in the modes that are compared."""
        return [
            cell.speedup
            for mode, cell in row.cells.items()
            if cell.speedup is not None and mode not in self.ran_as
        ]
