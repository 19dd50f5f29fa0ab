"""The data of the overview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.app.components.trend.sparkline import Sparkline
from compile_hud.db.records.alerts import FAILING, MASKED, MISSING_WORDS, OUTCOME, Alert
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.records.triage import MISSING_KINDS

SLOWER, WORSE, KERNEL = "slower", "worse", "kernel slower"
# The kinds of problems, in the order of the status line.
KINDS = (FAILING, SLOWER, WORSE, *MISSING_WORDS.values(), KERNEL)
_TIME_UNITS = ("s", "x")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionItem:
    """The open regressions of one case in one toolchain, the worst first."""

    alerts: tuple[Alert, ...]
    is_new: bool

    @property
    def worst(self) -> Alert:
        """Return the alert that comes first."""
        return self.alerts[0]

    @property
    def kind(self) -> str:
        """Return the kind of the problem, one of KINDS."""
        kinds = [alert.kind for alert in self.alerts]
        if OUTCOME in kinds:
            return FAILING
        missing = next((kind for kind in MISSING_KINDS if kind in kinds), None)
        if missing is not None:
            return MISSING_WORDS[missing]
        if self.worst.kind == MASKED:
            return KERNEL
        metric = METRICS.get(self.worst.metric)
        unit = self.worst.unit if metric is None else metric.unit
        return SLOWER if unit in _TIME_UNITS or unit.endswith("/s") else WORSE


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """The next run of a schedule on the machine."""

    schedule: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """A thing to set up: its settings in hud.toml, and the command that uses them."""

    title: str
    setting: str
    command: str
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewStatus:
    """The state of a machine in a toolchain.

    `items` are the cases with open regressions that pass the filters, `num_hidden` counts those
    that do not, `num_elsewhere` those of other machines. `learning` is the text of a baseline that
    is still being learnt, "" for none. `run` is the newest run, None if it is not among the newest
    of the store.
    """

    machine: str
    toolchain: str
    names_toolchain: bool
    device: str
    items: Sequence[ActionItem]
    num_hidden: int
    num_elsewhere: int
    learning: str
    run: RunSummary | None
    has_previous_run: bool
    next_run: NextRun | None
    has_scheduler: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFact:
    """A number of a mode with its name; `title` is its tooltip."""

    name: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeCard:
    """The newest numbers of one mode in one phase on one device.

    `label` names phase and device if there are several. `url` leads to the trends of the mode.
    `bad` counts the cases of each bad outcome, each with the address of these cases. `is_own` is
    False if other modes ran for all of its cases. `reason` says why the device cannot run the mode,
    "" if it can; the other texts are empty then.
    """

    mode: str
    label: str
    url: str
    cohort: str = ""
    speedup: str = ""
    interval: str = ""
    is_own: bool = True
    change: CardFact | None = None
    line: Sparkline | None = None
    num_ok: int = 0
    num_attempted: int = 0
    pass_text: str = ""
    bad: tuple[tuple[str, str], ...] = ()
    facts: tuple[CardFact, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """An event with open regressions; acknowledged ones are not open.

    `alerts` are the regressions, the worst first. `levels` are the values before and after of the
    alert that the title is about, "" without. `values` are the last medians of the series that
    shows the worst one.
    """

    title: str
    case: str
    url: str
    severity: str
    alerts: tuple[Alert, ...]
    owners: tuple[str, ...]
    cause: str
    is_new: bool
    levels: str = ""
    values: tuple[float, ...] = ()

    @property
    def worst(self) -> Alert:
        """Return the alert that comes first."""
        return self.alerts[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The first events that need attention, of `num_events`."""

    items: tuple[AttentionItem, ...]
    num_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """An alert that was fixed, or an improvement that was detected, at a time."""

    at: datetime
    alert: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class NewsGroup:
    """The changes of one kind: texts with their addresses ("" for none), and how many there are."""

    title: str
    items: tuple[tuple[str, str], ...]
    num_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The changes since a visit, or since the run before without one.

    `since` is the time of the visit, None without one; `baseline` and `newest` are the compared
    runs, None where there is no earlier one.
    """

    since: datetime | None
    baseline: Run | None
    newest: Run | None
    groups: tuple[NewsGroup, ...]
