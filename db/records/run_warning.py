"""A warning that travels with a run or a result, and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass

from compile_hud.db.records.codec import JsonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarning(JsonRecord):
    """A fact that a reader of the numbers must know, with a remedy."""

    code: str
    text: str
    hint: str = ""
