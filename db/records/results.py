"""The records that travel between worker, spool, store and dashboard, and their JSON form.

A record checks itself when it is made; `from_json` raises RecordError naming the field. Only the
standard library is needed, on Python 3.10 or newer: the worker runs in other people's environments.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.codec import (
    Bounds,
    Counts,
    JsonRecord,
    Name,
    Quantities,
    Quantity,
    decode,
    encode,
)
from compile_hud.db.records.json_fields import (
    SCHEMA_VERSION,
    check_schema_version,
    get_list,
    get_value,
)
from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.db.shared.text import counted

# The family of the reference cases, which are no models: they show the state of the machine.
REFERENCE_FAMILY = "reference"
# The reason of a case begins with this if its run had no time left for it.
DEFERRED = "time budget"
# The reason of a case with SAME_CODE is this and the measured variant.
SAME_CODE_AS = "same code as "
# The fact of a run whose cases compiled ahead, several at a time.
COMPILE_AHEAD = "compile_ahead"
# The detail of a case that compiled ahead: the seconds in which none of its launches worked, and
# those in which one had the device alone.
TURNS, WAITED_S, ALONE_S = "turns", "waited_s", "alone_s"
# The suite of a selection made by hand, which no later run has to repeat.
CUSTOM_SUITE = "custom"


# A variant with the name of a mode is that mode and nothing else.
MODES = (
    *("eager", "default", "reduce-overhead", "max-autotune"),
    "max-autotune-no-cudagraphs",
)


def contradicts_mode(variant: str, *, mode: str) -> bool:
    """Return whether `variant` has the name of another mode than `mode`."""
    return variant in MODES and mode in MODES and variant != mode


class Phase(StrEnum):
    """The work of one iteration; only an imported history has another than the first two."""

    INFERENCE = "inference"
    TRAINING = "training"
    OTHER = "other"


class Dtype(StrEnum):
    """Number format of a case; an autocast case keeps its weights in fp32.

    `tf32` is fp32 whose matrix products and convolutions run in TF32. Only an imported history has
    one of the last two.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    BF16_AUTOCAST = "bf16-autocast"
    FP16 = "fp16"
    FP16_AUTOCAST = "fp16-autocast"
    AMP = "amp"
    OTHER = "other"


MEASURED_PHASES = (Phase.INFERENCE, Phase.TRAINING)
MEASURED_DTYPES = tuple(dtype for dtype in Dtype if dtype not in (Dtype.AMP, Dtype.OTHER))


class Outcome(StrEnum):
    """The outcome of a case; only OK has measurements.

    SAME_CODE means that another variant of the run compiled to the same code and was measured.
    UNAVAILABLE means that the device has no such mode, NODE_LOST that each node disconnected.
    """

    OK = "ok"
    SAME_CODE = "same_code"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INACCURATE = "inaccurate"
    SKIPPED = "skipped"
    UNAVAILABLE = "unavailable"
    NODE_LOST = "lost"

    @property
    def is_success(self) -> bool:
        """Return whether the model ran, here or as another variant with the same code."""
        return self in (Outcome.OK, Outcome.SAME_CODE)

    @property
    def is_expected(self) -> bool:
        """Return whether the device gave what it can: a success, or it has no such mode."""
        return self.is_success or self is Outcome.UNAVAILABLE

    @property
    def is_attempted(self) -> bool:
        """Return whether the case was executed on a device that has its mode."""
        return self not in (Outcome.SKIPPED, Outcome.UNAVAILABLE, Outcome.NODE_LOST)


def same_code_as(outcome: Outcome, reason: str) -> str:
    """Return the variant that was measured instead of a case that ended so, empty for none."""
    return reason.removeprefix(SAME_CODE_AS) if outcome is Outcome.SAME_CODE else ""


def turn_seconds(details: Mapping[str, Any], name: str) -> float | None:
    """Return the seconds `name` of the turns of a result, None if it did not compile ahead."""
    turns = details.get(TURNS)
    seconds = turns.get(name) if isinstance(turns, Mapping) else None
    # An import may have any value there.
    return float(seconds) if isinstance(seconds, int | float) and seconds >= 0 else None


def seconds_of_result(
    started_at: datetime, finished_at: datetime, *, details: Mapping[str, Any]
) -> float:
    """Return the seconds that a result took, without the waits of its launches for their turn."""
    took_s = (finished_at - started_at).total_seconds()
    return max(0.0, took_s - (turn_seconds(details, WAITED_S) or 0.0))


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


class Verdict(StrEnum):
    """The result of a comparison."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    UNCHANGED = "unchanged"
    # All samples of both sides are the same numbers.
    IDENTICAL = "identical"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseKey:
    """The parts of a case's key, as text: a key names a case that may not exist any more."""

    model: str
    phase: str
    shape: str
    dtype: str
    variant: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(JsonRecord):
    """One thing that is measured: model x phase x shape x dtype x variant x device kind."""

    model: Name
    family: Name
    phase: Phase
    shape: Name
    dtype: Dtype
    mode: Name
    variant: Name
    backend: Name
    device: Name

    @property
    def key(self) -> str:
        """Return the case's identity, `model/phase/shape/dtype/variant/device`."""
        # A page of a thousand cases reads some ten thousand keys.
        return f"{self.model}/{self.phase}/{self.shape}/{self.dtype}/{self.variant}/{self.device}"

    @staticmethod
    def parse_key(key: str) -> CaseKey:
        """Return the parts of `key`; raise RecordError unless there are six."""
        # Split from the right: only the name of a model may have a slash.
        names = [item.name for item in dataclasses.fields(CaseKey)]
        parts = key.rsplit("/", len(names) - 1)
        if len(parts) != len(names):
            raise RecordError(
                f"no case {key!r}: a case has {counted(len(names), 'part')}",
                case=key,
                num_parts=len(names),
            )
        return CaseKey(**dict(zip(names, parts, strict=True)))

    @property
    def is_eager(self) -> bool:
        """Return whether this is plain eager; a CUDA graph of its kernels has the same mode."""
        return self.variant == "eager"

    @property
    def is_reference(self) -> bool:
        """Return whether this is a reference case, which no table of models may count."""
        return self.family == REFERENCE_FAMILY

    @classmethod
    def from_json(cls, document: Any) -> Case:
        """Return the case that `document` describes; raise RecordError for an invalid one."""
        case = decode(cls, document)
        if contradicts_mode(case.variant, mode=case.mode):
            raise RecordError(
                f"case {case.key} has mode {case.mode!r}: variant {case.variant!r} is that mode"
                " alone",
                case=case.key,
                variant=case.variant,
                mode=case.mode,
            )
        return case


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(JsonRecord):
    """One metric of one case result.

    `samples` are in the metric's unit, without warm-ups, which `warmups` has. `launches` has the
    number of samples of each fresh process, in order, and adds up to `len(samples)`. `median` and
    `interval` are a summary that can always be recomputed from the samples.
    """

    metric: Name
    unit: Name
    samples: Quantities
    launches: Counts = ()
    warmups: Quantities = ()
    median: Quantity
    interval: Bounds
    method: str

    def __post_init__(self) -> None:
        """Check that there is a sample, that every number is finite and that launches add up."""
        if not self.samples:
            raise RecordError(
                f"measurement {self.metric!r} has no samples",
                metric=self.metric,
                problem="no-samples",
            )
        numbers = (*self.samples, *self.warmups, self.median, *self.interval)
        if not all(math.isfinite(number) for number in numbers):
            raise RecordError(
                f"measurement {self.metric!r} has a number that is not finite",
                metric=self.metric,
                problem="not-finite",
            )
        if self.launches and sum(self.launches) != len(self.samples):
            raise RecordError(
                f"measurement {self.metric!r} has {counted(len(self.samples), 'sample')},"
                f" but its launches add up to {sum(self.launches)}",
                metric=self.metric,
                num_samples=len(self.samples),
                num_launched=sum(self.launches),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult(JsonRecord):
    """The result of one case in one run.

    `effective_mode` is the mode that ran. It differs from `case.mode` when the device does not
    support the mode (CUDA graphs on a CPU); then `warnings` has a `mode-fallback`. `details` has
    JSON values that explain (graph breaks, steps, `profile`); `sources` is the code of `kernels`.
    """

    id: Name
    run_id: Name
    case: Case
    outcome: Outcome
    reason: str = ""
    effective_mode: Name = ""
    started_at: datetime
    finished_at: datetime
    warnings: tuple[RunWarning, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    sources: tuple[KernelSource, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    log_tail: str = ""

    def __post_init__(self) -> None:
        """Check that a failed case has no number, and that no metric occurs twice."""
        if self.outcome is not Outcome.OK and self.measurements:
            raise RecordError(
                f"case {self.case.key} has outcome {self.outcome} and measurements;"
                " only outcome ok may have them",
                case=self.case.key,
                outcome=self.outcome,
            )
        names = [measurement.metric for measurement in self.measurements]
        if len(names) != len(set(names)):
            raise RecordError(
                f"case {self.case.key} has a metric twice: {sorted(names)}",
                case=self.case.key,
                metrics=tuple(sorted(names)),
            )

    @property
    def took_s(self) -> float:
        """Return the seconds that it took, without waits for a turn."""
        return seconds_of_result(self.started_at, self.finished_at, details=self.details)

    @property
    def is_deferred(self) -> bool:
        """Return whether the case was planned and its run had no time left for it."""
        return self.outcome is Outcome.SKIPPED and self.reason.startswith(DEFERRED)

    @property
    def same_code_as(self) -> str:
        """Return the variant that was measured instead of this case, empty for none."""
        return same_code_as(self.outcome, self.reason)

    def measurement(self, metric: str) -> Measurement | None:
        """Return the measurement of `metric`, None when this result has none."""
        return next((item for item in self.measurements if item.metric == metric), None)

    @classmethod
    def from_json(cls, document: Any) -> CaseResult:
        """Return the result that `document` describes; raise RecordError for an invalid one."""
        case = Case.from_json(get_value(document, "case"))
        return decode(cls, document, case=case, measurements=_measurements(document, case=case))


def _measurements(document: Any, *, case: Case) -> tuple[Measurement, ...]:
    """Return the measurements of a result; an error names the case and the metric."""
    measurements = []
    for item in get_list(document, "measurements"):
        try:
            measurements.append(Measurement.from_json(item))
        except RecordError as error:
            metric = item.get("metric") if isinstance(item, Mapping) else None
            subject = f"{case.key} {metric}" if isinstance(metric, str) else case.key
            raise RecordError(
                f"{subject}: {error}", **{**error.parameters, "case": case.key}
            ) from error
    return tuple(measurements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(JsonRecord):
    """One execution of a plan on one machine in one toolchain at one revision.

    `environment` has JSON values (the fingerprint facts), `fingerprint` the SHA-256 over those that
    decide comparability. `plan` is every case in order: a planned case without a result in a
    finished run is missing. Synthetic runs come from `hud demo` and have a store of their own.
    """

    id: Name
    started_at: datetime
    finished_at: datetime | None = None
    state: RunState = RunState.RUNNING
    suite: Name
    toolchain: Name
    revision: Name
    machine: Name
    environment: Mapping[str, Any]
    fingerprint: Name
    plan: tuple[Case, ...]
    trigger: Name = "manual"
    is_synthetic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef(JsonRecord):
    """The position of a run on the time axis, as an alert stores it."""

    run_id: str
    revision: str
    at: datetime


def worked_seconds(run: Run, *, took_s: float, last_at: datetime) -> float:
    """Return the seconds in which cases of `run` were measured, without pauses of a resumed run.

    `took_s` is the sum over its results, `last_at` the end of the last one. Cases that compile
    ahead overlap, so that their sum exceeds the time of the run.
    """
    if COMPILE_AHEAD not in run.environment:
        return took_s
    return min(took_s, (last_at - run.started_at).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocument:
    """A run with its results: the output of `hud run --json`, and an input of `hud compare`."""

    run: Run
    results: tuple[CaseResult, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document as a JSON object."""
        return {"schema_version": SCHEMA_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, document: Any) -> RunDocument:
        """Return the run and results of `document`; raise RecordError for an invalid one."""
        check_schema_version(document)
        return decode(cls, document)


def series_key(case: Case, *, metric: str, fingerprint: str) -> str:
    """Return the identity of a series: one metric of one case in one environment class."""
    return f"{case.key}#{metric}@{fingerprint[:16]}"
