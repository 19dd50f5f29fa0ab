"""The events of a run, for the terminal, logs and the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compile_hud.db.records.results import Case, CaseResult, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMessage:
    """A message that gets a line of its own."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """The plan is fixed; `num_done` of its cases have a result from before an interruption.

    `label` names the run among interleaved runs; it is empty for a single run.
    """

    run: Run
    num_done: int
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseStarted:
    """A case is handed to the executor."""

    case: Case


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesCompiling:
    """These cases compile at the same time; only runs that compile ahead send it."""

    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSampling:
    """A case that compiled ahead has its turn on the device."""

    case: Case


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLaunched:
    """`num_pairs` pairs of launches of the running case are over; only comparisons send it."""

    case: Case
    num_pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFinished:
    """A case result is stored."""

    result: CaseResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run has ended; no further case follows."""

    run: Run


Event = (
    LogMessage
    | RunStarted
    | CaseStarted
    | CasesCompiling
    | CaseSampling
    | PairLaunched
    | CaseFinished
    | RunEnded
)
Notify = Callable[[Event], None]
