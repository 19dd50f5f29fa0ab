"""Runs as OpenMetrics text, version 1.0.0: medians and outcomes as gauges.

https://prometheus.io/docs/specs/om/open_metrics_spec/. A metric is a family `hud_NAME_UNIT`, and a
point has the time at which its run began. The labels name the case and its scope, so that the runs
of one case are points of one line; `hud_run_info` has the revision of each run.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import CaseResult, Measurement, Run, RunDocument

# Our unit -> its OpenMetrics name, and the suffix of our metric names with the same meaning.
_UNITS: Mapping[str, tuple[str, str]] = {
    "s": ("seconds", "_s"),
    "B": ("bytes", "_bytes"),
    "J": ("joules", "_j"),
    "W": ("watts", "_w"),
    "B/s": ("bytes_per_second", "_bytes_per_s"),
    "samples/s": ("samples_per_second", "_samples_per_s"),
    "tokens/s": ("tokens_per_second", "_tokens_per_s"),
    "calls": ("calls", "_calls"),
    "FLOP": ("flop", "_flop"),
    "x": ("ratio", ""),
    "share": ("ratio", ""),
    "1": ("", ""),
}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")
OUTCOME = "hud_outcome"
RUN = "hud_run"

# One name and value each, in order.
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _OpenMetric:
    kind: str
    unit: str
    text: str
    # The line at each time, of each set of labels.
    points: dict[Labels, dict[float, str]] = field(default_factory=lambda: defaultdict(dict))


def to_openmetrics(documents: Iterable[RunDocument]) -> Iterator[bytes]:
    """Yield the exposition of `documents`, the same for the same runs."""
    families: dict[str, _OpenMetric] = {
        OUTCOME: _OpenMetric("gauge", "", "1 for the outcome with which a case ended."),
        RUN: _OpenMetric("info", "", "The runs and their revisions."),
    }
    for document in documents:
        _add_run(families[RUN], document.run)
        for result in document.results:
            _add_result(families, document.run, result)
    for name, family in families.items():
        yield _text(name, family).encode("utf-8", "replace")
    yield b"# EOF\n"


def _add_run(family: _OpenMetric, run: Run) -> None:
    labels = (("run", run.id), ("revision", run.revision), ("suite", run.suite))
    family.points[labels][run.started_at.timestamp()] = f"{RUN}_info{_braces(labels)} 1"


def _add_result(families: dict[str, _OpenMetric], run: Run, result: CaseResult) -> None:
    labels = _labels(run, result)
    at_s = run.started_at.timestamp()
    # A state set would not do: a widely used parser drops samples of one with several times.
    ended = (*labels, ("outcome", str(result.outcome)))
    families[OUTCOME].points[ended][at_s] = f"{OUTCOME}{_braces(ended)} 1"
    for item in result.measurements:
        name, unit = family_name(item)
        if name not in families:
            known = METRICS.get(item.metric)
            text = known.description if known else f"{item.metric}, imported."
            families[name] = _OpenMetric("gauge", unit, text)
        families[name].points[labels][at_s] = f"{name}{_braces(labels)} {item.median!r}"


def family_name(item: Measurement) -> tuple[str, str]:
    """Return the name of the family and its unit, which ends the name."""
    unit, ending = _UNITS.get(item.unit, (item.unit, ""))
    unit = _NOT_IN_NAMES.sub("_", unit)
    plain = _NOT_IN_NAMES.sub("_", item.metric)
    if plain != item.metric:
        # Names that differ only in such signs belong to different metrics.
        plain += "_" + hashlib.sha256(item.metric.encode()).hexdigest()[:8]
    if not unit:
        return f"hud_{plain}", ""
    return f"hud_{plain.removesuffix(ending).removesuffix(f'_{unit}')}_{unit}", unit


def _labels(run: Run, result: CaseResult) -> Labels:
    case = result.case
    return (
        ("model", case.model),
        ("phase", str(case.phase)),
        ("shape", case.shape),
        ("dtype", str(case.dtype)),
        ("variant", case.variant),
        ("device", case.device),
        ("machine", run.machine),
        ("toolchain", run.toolchain),
        ("suite", run.suite),
        ("fingerprint", run.fingerprint[:16]),
    )


def _braces(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _text(name: str, family: _OpenMetric) -> str:
    lines = [f"# TYPE {name} {family.kind}"]
    if family.unit:
        lines.append(f"# UNIT {name} {family.unit}")
    lines.append(f"# HELP {name} {_escaped(family.text)}")
    for by_time in family.points.values():
        lines += [f"{point} {at_s!r}" for at_s, point in sorted(by_time.items())]
    return "\n".join(lines) + "\n"
