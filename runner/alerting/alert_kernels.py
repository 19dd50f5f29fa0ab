"""The kernels behind alerts: changes between the last good and the first bad run.

The store has the kernels as long as their results, and no copy of this diff. The answer is
therefore the same at any time, and a better diff improves old alerts too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.queries.kernels import load_profiled
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.kernels import ProfiledResult
from compile_hud.db.store import Store
from compile_hud.runner.analysis.kernels.diff import (
    diff_kernels,
    is_about_slower,
    kernel_bounds,
    kernel_side,
    share_text,
    top_kernels,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseKernels:
    """The top kernels of an alert, as JSON, how much they explain, and how certain that is."""

    rows: tuple[dict[str, Any], ...] = ()
    share: str = ""
    noise: str = ""


def cause_kernels(alerts: Sequence[Alert], *, store: Store) -> dict[str, CauseKernels]:
    """Return the kernels of each alert by its id; none where a run has no kernels."""
    sides = {alert.id: kernel_bounds(alert) for alert in alerts}
    names = {name for pair in sides.values() for name in pair}
    results = load_profiled(store, names)
    kernels: dict[str, CauseKernels] = {}
    for alert in alerts:
        pair = [results[name] for name in sides[alert.id] if name in results]
        kernels[alert.id] = _top(alert, *pair) if len(pair) == 2 else CauseKernels()
    return kernels


def _top(alert: Alert, before: ProfiledResult, after: ProfiledResult) -> CauseKernels:
    try:
        diff = diff_kernels(kernel_side(before), kernel_side(after))
    except RecordError as error:
        # One damaged result hides the kernels of its own alert, and no other alert.
        logger.warning("no kernels for alert %s: %s", alert.id, error)
        return CauseKernels()
    rows = top_kernels(diff, is_slower=is_about_slower(alert))
    explained_s = 1e-6 * math.fsum(row["contribution_us"] for row in rows)
    share = share_text(explained_s, change_s=diff.change_s, basis=diff.basis) if rows else ""
    return CauseKernels(rows=tuple(rows), share=share, noise=diff.noise_text)
