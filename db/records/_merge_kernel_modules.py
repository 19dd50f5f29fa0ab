"""The modules that the calls of one kernel are in, where they are several.

Only the standard library is needed, on Python 3.10 or newer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeGuard

from compile_hud.db.records.kernels import Kernel

# Where they are in `Kernel.launch`.
MODULES = "modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTime:
    """What of a kernel is in the module `path`: calls and seconds of an iteration."""

    path: str
    count: float
    total_s: float

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"path": self.path, "count": self.count, "total_s": self.total_s}


def modules_of(kernel: Kernel) -> tuple[ModuleTime, ...]:
    """Return the modules of `kernel`, the longest first; none where it is in one, or nobody knows.

    What is damaged is left out.
    """
    listed = kernel.launch.get(MODULES)
    return tuple(
        ModuleTime(path=item["path"], count=item["count"], total_s=item["total_s"])
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
        and isinstance(item.get("path"), str)
        and _is_amount(item.get("count"))
        and _is_amount(item.get("total_s"))
    )


def _is_amount(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf
