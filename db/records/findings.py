"""A finding: a named cause of extra time in a case result, and its JSON form.

Findings are derived from a result whenever it is shown, and no store has them. So results of old
runs have them too, and a better rule improves all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.records.codec import JsonRecord
from compile_hud.db.shared.text import significant

NOT_MEASURED = "not measured"
# The finding that is the sum of the others and a rest; no sum of costs may include it.
TOTAL = "slower-than-eager"
# Settings name codes, and the rules behind them load slowly.
FINDING_CODES = (
    "attention-decomposed",
    "autotune-flip",
    "cache-bypass",
    "cache-miss",
    "compile-memory",
    "cudagraph-coverage",
    "cudagraph-skipped",
    "data-wait",
    "dtype-conversions",
    "exposed-communication",
    "extern-fallback",
    "fp32-on-plain-cores",
    "fragmentation",
    "graph-break",
    "guard-overhead",
    "hidden-sync",
    "host-bound",
    "layout-copies",
    "low-occupancy",
    "memory-grows",
    "not-compiled",
    "recompiles",
    "register-spills",
    "same-code",
    "slower-kernel",
    "slower-than-eager",
    "tiny-kernels",
    "unfused-optimizer",
    "unsupported-codegen",
)
# The kind of evidence that names another finding.
OTHER_FINDING = "finding"
# The kind of evidence with seconds that a process pays once, apart from the iterations.
ONE_TIME = "one-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location(JsonRecord):
    """The module, the user's line and the operators of a finding; unknown parts are empty."""

    module: str = ""
    line: str = ""
    operators: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the known parts as one line, "" without any."""
        parts = (self.module, self.line, ", ".join(self.operators))
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One piece of evidence: a kernel, a metric, a detail, a warning or another finding.

    `name` identifies it in the result. `value` is in `unit`, None if it has no number.
    """

    kind: str
    name: str
    value: float | None = None
    unit: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the exhibit as a JSON object."""
        return {
            "kind": self.kind,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            **self.facts,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(JsonRecord):
    """A cause of extra time in a case result.

    `cost_s` is measured: the seconds of an iteration that the finding accounts for, at most what
    the remedy can save. It is None if that was not measured. The costs of the findings of a case
    add up to at most its latency, without TOTAL.
    """

    code: str
    text: str
    cost_s: float | None = None
    where: Location = Location()
    remedy: str
    evidence: tuple[Exhibit, ...] = ()

    @property
    def is_total(self) -> bool:
        """Return whether this is the sum of the other findings and a rest."""
        return self.code == TOTAL

    @property
    def one_time_s(self) -> float | None:
        """Return the seconds that a process pays once, None if they are unknown."""
        times = [item.value for item in self.evidence if item.kind == ONE_TIME]
        return next((time_s for time_s in times if time_s is not None), None)

    @property
    def missing_cost_text(self) -> str:
        """Return the reason of a missing cost of an iteration.

        Another finding has the time, a process pays it once, or it is unknown.
        """
        codes = [exhibit.name for exhibit in self.evidence if exhibit.kind == OTHER_FINDING]
        if codes:
            return f"in {', '.join(codes)}"
        return NOT_MEASURED if self.one_time_s is None else f"{significant(self.one_time_s)} s once"
