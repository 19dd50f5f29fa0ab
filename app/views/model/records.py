"""The data of the page of one model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFact:
    """The present code of a model, and the run that first had it.

    `revision` and `content_hash` are empty if no run has them. `has_changed` tells whether an older
    run had other code.
    """

    revision: str
    content_hash: str
    since: datetime
    run_id: str
    has_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelsOfModel:
    """A run with kernels of a case of the model."""

    run_id: str
    case: Case
    at: datetime
