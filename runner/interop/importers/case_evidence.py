"""The evidence of files about one case in one run, and the case result that follows from it.

Evidence of several files adds up: one has the numbers of a case and another the correctness of its
outputs. Adding the same evidence again changes nothing, in any order.

A text that replaces the number of one metric, or a 0 of a metric that cannot be 0, is a warning. It
is the outcome of a case that has no other number.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from compile_hud.db.records.imported import DIRECTIONS, GUESSED, IMPORTED_DETAILS, agreed
from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import Case, CaseResult, Measurement, Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.quantities import is_quantity
from compile_hud.db.shared.text import printable
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.interop.importers.vocabulary import (
    ImportedMetric,
    failure_of,
    outcome_of,
)

# The string metric with the correctness of the outputs.
ACCURACY = "accuracy"
METHOD = "imported"
# A harness writes 0 for these when a case failed; a successful case cannot have 0.
NEVER_ZERO = ("speedup", "latency_s", "throughput_samples_per_s", "throughput_tokens_per_s")
# Harnesses have their own names for such metrics; a name that goes on may be a difference.
_NEVER_ZERO_NAME = re.compile(
    r"(?<![a-z])(latency|latencies|speedup|throughput)"
    r"([ _(]+(ns|us|ms|s|sec|seconds|x|gbps|(gb|tokens?|samples?|requests?)(/|_per_)s(ec)?)\)?)?\Z",
    re.IGNORECASE,
)
DERIVED = "imported: speedup times latency"
# The worst outcome comes first: it wins when two files disagree about a case.
_WORST = (
    Outcome.OUT_OF_MEMORY,
    Outcome.TIMEOUT,
    Outcome.FAILED,
    Outcome.INACCURATE,
    Outcome.NODE_LOST,
    Outcome.SKIPPED,
)
_MAX_REASON_LENGTH = 2000
WITHOUT_NUMBER = "metric-without-number"

Launches = tuple[tuple[float, ...], ...]


@dataclass(slots=True)
class CaseEvidence:
    """The launches of each metric in its unit, the metric's direction, and the texts.

    `directions` are those of metrics unknown here; a guessed one is marked.
    """

    units: dict[str, str] = field(default_factory=dict)
    launches: dict[str, list[tuple[float, ...]]] = field(default_factory=dict)
    directions: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def add_launches(self, metric: ImportedMetric, launches: Sequence[tuple[float, ...]]) -> None:
        """Add the launches of one record, in the metric's unit, unless they are present."""
        self._extend(metric.name, metric.unit, launches)
        if metric.name not in METRICS:
            guess = f" {GUESSED}" if metric.is_guessed else ""
            self._add_direction(metric.name, f"{metric.direction}{guess}")

    def add_text(self, name: str, text: str) -> None:
        """Add a text of a file unless it is present."""
        known = self.texts.setdefault(name, [])
        # The store cleans a text too. An uncleaned one would look new at each import.
        cleaned = clean_reason(text)
        if cleaned not in known:
            known.append(cleaned)

    def add(self, other: CaseEvidence) -> None:
        """Add all evidence of `other`."""
        for name, launches in other.launches.items():
            self._extend(name, other.units[name], launches)
        for name, direction in other.directions.items():
            self._add_direction(name, direction)
        for name, texts in other.texts.items():
            for text in texts:
                self.add_text(name, text)

    def _add_direction(self, name: str, text: str) -> None:
        """Prefer a stated direction to a guess; contradicting statements cancel out."""
        known = self.directions.setdefault(name, text)
        if GUESSED in known:
            self.directions[name] = text if GUESSED not in text else known
        elif GUESSED not in text:
            self.directions[name] = str(agreed(Direction(known), Direction(text)))

    def _extend(self, name: str, unit: str, launches: Sequence[tuple[float, ...]]) -> None:
        self.units.setdefault(name, unit)
        known = self.launches.setdefault(name, [])
        # Launches of one record may be alike and all count; the same record again does not.
        left = Counter(known)
        for launch in launches:
            if left[launch]:
                left[launch] -= 1
            else:
                known.append(launch)

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as a JSON object."""
        return {
            "values": {
                name: {"unit": self.units[name], "launches": [list(item) for item in launches]}
                for name, launches in sorted(self.launches.items())
            },
            "texts": {name: sorted(texts) for name, texts in sorted(self.texts.items())},
            DIRECTIONS: dict(sorted(self.directions.items())),
        }


def evidence_of(result: CaseResult) -> CaseEvidence:
    """Return the evidence that an imported `result` was made of."""
    details: Mapping[str, Any] = result.details.get(IMPORTED_DETAILS, {})
    evidence = CaseEvidence()
    for name, values in details.get("values", {}).items():
        evidence.units[name] = values["unit"]
        evidence.launches[name] = [tuple(map(float, launch)) for launch in values["launches"]]
    for item in result.measurements:
        if item.method != DERIVED:
            evidence.units[item.metric] = item.unit
            evidence.launches[item.metric] = split(item.samples, item.launches)
    evidence.directions = dict(details.get(DIRECTIONS, {}))
    evidence.texts = {name: list(texts) for name, texts in details.get("texts", {}).items()}
    return evidence


def result_of(evidence: CaseEvidence, *, case: Case, run_id: str, at: datetime) -> CaseResult:
    """Return the case result that follows from `evidence`; its id is a hash of the evidence.

    A case whose outcome is not ok has no measurements; the numbers stay in its details.
    """
    failures = _failures(evidence)
    outcome, reason = _outcome(evidence, failures)
    content = evidence.to_json()
    identity = json.dumps([run_id, case.key, content], sort_keys=True)
    if outcome is Outcome.OK:
        values = content["values"]
        content["values"] = {name: values[name] for name in failures if name in values}
    return CaseResult(
        id=f"import-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}",
        run_id=run_id,
        case=case,
        outcome=outcome,
        started_at=at,
        finished_at=at,
        reason=reason,
        effective_mode=case.mode,
        warnings=_warnings(failures) if outcome is Outcome.OK else (),
        measurements=(
            tuple(_measurements(evidence, without=failures)) if outcome is Outcome.OK else ()
        ),
        details={IMPORTED_DETAILS: {name: part for name, part in content.items() if part}},
    )


def _failures(evidence: CaseEvidence) -> dict[str, tuple[Outcome, str]]:
    """Return outcome and reason of each metric whose number is missing."""
    failures: dict[str, tuple[Outcome, str]] = {}
    for name, texts in sorted(evidence.texts.items()):
        for text in sorted(texts) if name != ACCURACY else ():
            outcome = failure_of(text)
            if outcome is not None:
                failures.setdefault(name, (outcome, f"{name}: {text}"))
    for name, launches in sorted(evidence.launches.items()):
        if name not in NEVER_ZERO and _NEVER_ZERO_NAME.search(name) and not all(map(all, launches)):
            failures.setdefault(name, (Outcome.FAILED, _zero_reason(name, 0.0)))
    return failures


def _zero_reason(name: str, value: float) -> str:
    return f"{name} is {value:g}, which stands for a case that failed"


def _warnings(failures: Mapping[str, tuple[Outcome, str]]) -> tuple[RunWarning, ...]:
    return tuple(
        RunWarning(code=WITHOUT_NUMBER, text=clean_reason(f"no number ({outcome}): {reason}"))
        for outcome, reason in failures.values()
    )


def _outcome(
    evidence: CaseEvidence, failures: Mapping[str, tuple[Outcome, str]]
) -> tuple[Outcome, str]:
    reasons: dict[Outcome, str] = {}
    has_number = any(
        any(map(any, launches))
        for name, launches in evidence.launches.items()
        if name not in failures
    )
    for outcome, reason in failures.values() if not has_number else ():
        reasons.setdefault(outcome, reason)
    for word in sorted(evidence.texts.get(ACCURACY, ())):
        name, _, reason = word.partition(": ")
        reasons.setdefault(outcome_of(name), reason or f"accuracy check: {word}")
    for name in NEVER_ZERO:
        for launch in evidence.launches.get(name, ()):
            if min(launch) <= 0:
                reason = _zero_reason(name, min(launch))
                # A skipped case has a 0 in every column.
                if Outcome.SKIPPED not in reasons:
                    reasons.setdefault(Outcome.FAILED, reason)
    worst = next((outcome for outcome in _WORST if outcome in reasons), Outcome.OK)
    return worst, clean_reason(reasons[worst]) if worst is not Outcome.OK else ""


def clean_reason(text: str) -> str:
    """Return `text` without terminal control characters, cut to the length of a message."""
    return printable(text)[:_MAX_REASON_LENGTH]


def _measurements(evidence: CaseEvidence, *, without: Container[str]) -> Iterable[Measurement]:
    usable = {name: item for name, item in evidence.launches.items() if name not in without}
    for name, launches in usable.items():
        yield _measurement(name, evidence.units[name], tuple(launches), METHOD)
    if "eager_latency_s" not in evidence.launches:
        yield from _eager_latency(usable)


def _eager_latency(usable: Mapping[str, Sequence[tuple[float, ...]]]) -> Iterable[Measurement]:
    """Yield eager's latency, which a speedup and the latency of its variant imply.

    It separates the side of the compiler from that of eager.
    """
    speedups, latencies_s = (usable.get(name, []) for name in ("speedup", "latency_s"))
    if len(speedups) != len(latencies_s) or not speedups:
        return
    pairs = [
        tuple(speedup * latency_s for speedup, latency_s in zip(*sides, strict=True))
        for sides in zip(speedups, latencies_s, strict=True)
        if len(sides[0]) == len(sides[1])
    ]
    # A product of two extremes may be no quantity.
    if len(pairs) == len(speedups) and all(map(is_quantity, itertools.chain(*pairs))):
        yield _measurement("eager_latency_s", "s", tuple(pairs), DERIVED)


def _measurement(metric: str, unit: str, launches: Launches, method: str) -> Measurement:
    samples = tuple(value for launch in launches for value in launch)
    sizes = tuple(len(launch) for launch in launches)
    if len(samples) == 1:
        median, interval = samples[0], (samples[0], samples[0])
    else:
        measurement_estimate = estimate(samples, launches=sizes)
        median, interval = (
            measurement_estimate.value,
            (measurement_estimate.low, measurement_estimate.high),
        )
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit if metric in METRICS else unit,
        samples=samples,
        launches=sizes,
        median=median,
        interval=interval,
        method=method,
    )


def split(samples: Sequence[float], launches: Sequence[int]) -> list[tuple[float, ...]]:
    """Return the samples of each launch."""
    ends = itertools.accumulate(launches)
    return [tuple(samples[end - size : end]) for end, size in zip(ends, launches, strict=True)]
