"""The comparison of the modes, group by group: records without a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compile_hud.db.records import results
from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.runner.analysis.modes.choice import Choice, Cost, ModeCost
from compile_hud.runner.analysis.stats.estimates import Estimate

# The modes of torch.compile that are compared, in the order of its documentation.
MODES = results.MODES[1:]
# The comparison computes with these metrics.
MODES_METRICS = (
    "speedup",
    "latency_s",
    "latency_cpu_s",
    "compile_cold_s",
    "compile_warm_s",
    "peak_bytes",
    "eager_peak_bytes",
)
# Results that differ in one of these are never averaged.
GROUP_DIMENSIONS = ("phase", "shape", "dtype", "device")


class CellState(StrEnum):
    """The state of a mode for a model.

    FAILING includes missing and overdue cases, NOT_MEASURED skipped ones and those of a node that
    is down.
    NO_NUMBERS means that the model ran, but a speedup or a compile time is missing.
    """

    OK = "ok"
    FAILING = "failing"
    NOT_MEASURED = "not_measured"
    NO_NUMBERS = "no_numbers"
    UNAVAILABLE = "unavailable"


class ModeDecision(StrEnum):
    """The recommendation for a group, or the reason of its absence."""

    SHIP = "ship"
    # The best gain is below the floor, or not significant.
    NO_GAIN = "no_gain"
    # No mode recovers its compile time within the calls of a process.
    TOO_FEW_CALLS = "too_few_calls"
    # No model has numbers in every mode.
    NO_COHORT = "no_cohort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCell:
    """A mode of one model: its costs, or the reason of their absence.

    `break_even` is the number of calls after which the compile time is recovered, None if the
    speedup is not significant. `runs_as` is the mode that ran instead, or that has the same code;
    "" for none. `other_revisions` are `torch` and `model code` where they differ from those of the
    model's newest result.
    """

    case: Case
    outcome: Outcome
    state: CellState
    reason: str = ""
    cost: Cost | None = None
    break_even: Estimate | None = None
    runs_as: str = ""
    other_revisions: tuple[str, ...] = ()

    @property
    def is_same_code(self) -> bool:
        """Return whether the numbers are those of another mode with the same code."""
        return self.outcome is Outcome.SAME_CODE


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model of a group in every mode; `best` is its own best mode, "" for eager."""

    model: str
    cells: Mapping[str, ModeCell]
    best: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelException:
    """A model without a success in the recommended mode, and its next best mode, None for eager.

    `is_failure` is False if the mode was not tried for the model.
    """

    model: str
    reason: str
    is_failure: bool
    mode: ModeCost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The recommended mode of a group, None for not compiling, and the best mode anyhow.

    `best` is the recommended mode; else the one with the largest gain, or the one that recovers its
    compile time first. `runs_as` is the mode that the device ran for it in every case, "" for
    itself. `relative_time` is the time of `calls` per process, compiling included, over eager's;
    None without an expected number of calls.
    """

    decision: ModeDecision
    mode: ModeCost | None = None
    best: ModeCost | None = None
    runs_as: str = ""
    calls: int | None = None
    relative_time: float | None = None
    exceptions: tuple[ModelException, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer for a group as text: a title, and sentences with its reason and its limits."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeGroup:
    """The comparison of the modes for the models of one phase, shape, dtype and device.

    `label` names the dimensions in which the groups differ, "" for a single group. `stand_ins` are
    the modes with the numbers of another one, and that mode. `unavailable` are the modes that the
    device does not have. `sparse` are those with numbers of less than half of the models, and their
    number of models. All three are not compared. `speedup` is the label of the speedups, with their
    clock; `cache` is `cold` or `warm`.
    """

    phase: str
    shape: str
    dtype: str
    device: str
    label: str
    cache: str
    speedup: str
    rows: tuple[ModelRow, ...]
    choice: Choice
    stand_ins: Mapping[str, str]
    unavailable: tuple[str, ...]
    sparse: Mapping[str, int]
    recommendation: Recommendation

    @property
    def key(self) -> str:
        """Return the identity of the group, `inference/full/fp32/cpu`."""
        return "/".join((self.phase, self.shape, self.dtype, self.device))

    @property
    def models(self) -> tuple[str, ...]:
        """Return the names of the models."""
        return tuple(row.model for row in self.rows)

    def num_ok(self, variant: str) -> int:
        """Return the number of models with numbers in `variant`."""
        return sum(
            variant in row.cells and row.cells[variant].cost is not None for row in self.rows
        )

    def speedups(self, row: ModelRow) -> list[Estimate]:
        """Return the speedups of a model in the modes with numbers of their own."""
        return [
            cell.cost.speedup
            for variant, cell in row.cells.items()
            if cell.cost is not None and variant not in self.stand_ins
        ]

    def stand_in_text(self, variant: str) -> str:
        """Return the reason for the numbers of another mode: `same code as default`."""
        cells = [row.cells[variant] for row in self.rows if variant in row.cells]
        is_same_code = all(cell.is_same_code for cell in cells if cell.cost is not None)
        verb = "same code as" if is_same_code else "fell back to"
        return f"{verb} {self.stand_ins[variant]}"
