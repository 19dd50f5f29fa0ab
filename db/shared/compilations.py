"""The compilations of the first launch of a result by phase, from its details. Pure.

A result of an older version, or an imported one, has no such details.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

PHASES = ("dynamo", "aot", "inductor", "backend")
# The names of the phases in tables.
PHASE_TITLES = {"aot": "AOT", "backend": "triton or C++"}

# torch's own count in the metrics of a compilation; the metric `guards` counts the checks.
GUARDS_TITLE = "Dynamo guards"
GUARDS_HELP = "guards that Dynamo made; each is one or several of the checks that `guards` counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationPhases:
    """One compilation, as its row in a table; `phases_s` are wall seconds.

    `num_guards` are those that Dynamo made, of which each is one or several checks of a call.
    """

    compile_id: str
    is_backward: bool
    phases_s: Mapping[str, float]
    location: str
    num_ops: int | None
    num_guards: int | None
    reason: str

    @property
    def title(self) -> str:
        """Return the id with the direction."""
        name = self.compile_id or "no id"
        return f"{name} backward" if self.is_backward else name

    @property
    def total_s(self) -> float:
        """Return the seconds of all phases."""
        return math.fsum(self.phases_s.values())


def compilations_of(details: Mapping[str, Any]) -> list[CompilationPhases]:
    """Return the compilations of the first launch in their order."""
    launches = details.get("compilations")
    first = launches[0] if isinstance(launches, list) and launches else None
    if not isinstance(first, list):
        return []
    return [_compilation(item) for item in first if isinstance(item, Mapping)]


def phases_in(compilations: Sequence[CompilationPhases]) -> list[str]:
    """Return the phases that any compilation has, the best known first."""
    present = dict.fromkeys(phase for item in compilations for phase in item.phases_s)
    return [
        *(name for name in PHASES if name in present),
        *(name for name in present if name not in PHASES),
    ]


def _compilation(item: Mapping[str, Any]) -> CompilationPhases:
    file, line = str(item.get("file") or ""), item.get("line")
    where = f"{PurePath(file).name}:{line}" if file and line else ""
    parts = (str(item.get("function") or ""), where)
    failure, reason = str(item.get("failure") or ""), str(item.get("reason") or "")
    return CompilationPhases(
        compile_id=str(item["compile_id"]),
        is_backward=bool(item["is_backward"]),
        phases_s={str(name): float(time_s) for name, time_s in item["phases_s"].items()},
        location=" at ".join(part for part in parts if part),
        num_ops=item.get("num_ops"),
        num_guards=item.get("num_guards"),
        reason="; ".join(text for text in (failure, reason) if text),
    )
