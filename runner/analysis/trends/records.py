"""The trends of the compile modes: records without a rule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import Case
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.db.records.summaries import HistoryRun
from compile_hud.runner.analysis.stats.estimates import Estimate

PASS_RATE = "pass_rate"
# The metrics of the trends, in the order of the page.
TREND_METRICS = (
    "speedup",
    PASS_RATE,
    "compile_cold_s",
    "compile_warm_s",
    "peak_bytes",
    "energy_j",
)
# The metrics of the alerts that a trend marks, where they are not its own only.
_ALERT_METRICS = {
    "speedup": ("speedup", "latency_s", "latency_cpu_s"),
    PASS_RATE: ("outcome",),
    "compile_cold_s": ("compile_cold_s", "compile_cold_cpu_s"),
}
# A trend is of all models, or of each value of one of these dimensions.
DIMENSIONS = ("model", "family", "phase", "dtype", "device")


class MarkKind(StrEnum):
    """The kind of an event that a trend marks."""

    ALERT = "alert"
    ANNOTATION = "annotation"
    ENVIRONMENT = "environment"
    REVISION = "revision"
    MODEL_CODE = "model_code"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendMark:
    """An event at `at`; `run_id` is empty for one that is of no run.

    `case`, `metric` and `verdict` are those of an alert, None or empty for others; `id` names an
    alert or an annotation.
    """

    kind: MarkKind
    at: datetime
    text: str
    run_id: str = ""
    case: Case | None = None
    metric: str = ""
    verdict: str = ""
    id: str = ""

    def belongs_to(self, trend: ModeTrend) -> bool:
        """Return whether the mark is an alert about the mode, metric and group of `trend`."""
        case = self.case
        metrics = _ALERT_METRICS.get(trend.metric, (trend.metric,))
        return (
            case is not None
            and case.variant == trend.mode
            and self.metric in metrics
            and trend.phase in ("", case.phase)
            and trend.device in ("", case.device)
            and (not trend.by or str(getattr(case, trend.by)) == trend.group)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModePoint:
    """The state of a mode after a run.

    `own` is the geometric mean of that day's cohort; `value` is linked to the cohort of the newest
    point. Both are the share of ok cases for the pass rate. `num_counted` of `num_subjects` models
    are in the cohort, or of the attempted cases are ok; the run itself measured `num_measured` of
    the cohort. `joined` and `left` are the cases that changed the cohort since the previous point.
    Only points of one `segment` are comparable: a common model links them, in one environment.
    """

    run: HistoryRun
    value: float
    low: float
    high: float
    own: float
    num_counted: int
    num_subjects: int
    num_measured: int
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    segment: int = 0

    @property
    def estimate(self) -> Estimate:
        """Return the value with its interval."""
        return Estimate(self.value, self.low, self.high)

    @property
    def cohort_changed(self) -> bool:
        """Return whether a case joined or left the cohort."""
        return bool(self.joined or self.left)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTrend:
    """The points of one metric of a mode in one phase on one device, oldest first; at least one.

    `group` is a value of the dimension `by`, both empty for all models. `label` names the group,
    and the phase and the device if the selection has several; "" for a single trend of a mode.
    """

    metric: str
    mode: str
    points: tuple[ModePoint, ...]
    by: str = ""
    group: str = ""
    phase: str = ""
    device: str = ""
    label: str = ""

    @property
    def unit(self) -> str:
        """Return the unit of the values."""
        return "share" if self.metric == PASS_RATE else METRICS[self.metric].unit

    @property
    def direction(self) -> Direction:
        """Return the better direction."""
        if self.metric == PASS_RATE:
            return Direction.HIGHER_IS_BETTER
        return METRICS[self.metric].direction

    @property
    def linked(self) -> tuple[ModePoint, ...]:
        """Return the points that are linked to the newest one, oldest first."""
        return tuple(item for item in self.points if item.segment == self.points[-1].segment)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeValue:
    """The newest value of a metric of a mode; the numbers are those of `ModePoint`."""

    metric: str
    mode: str
    phase: str
    device: str
    value: float
    num_counted: int
    num_subjects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeTrends:
    """The trends of a machine in a toolchain, and the marks that concern them."""

    machine: str
    toolchain: str
    runs: tuple[HistoryRun, ...]
    trends: tuple[ModeTrend, ...]
    marks: tuple[TrendMark, ...] = ()

    @property
    def is_synthetic(self) -> bool:
        """Return whether `hud demo` made any of the runs."""
        return any(run.is_synthetic for run in self.runs)
