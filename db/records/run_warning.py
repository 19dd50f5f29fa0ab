"""A warning that travels with a run or a result, and its JSON form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.json_fields import get_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWarning:
    """A fact that a reader of the numbers must know, with a remedy."""

    code: str
    text: str
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the warning as a JSON object."""
        return {"code": self.code, "text": self.text, "hint": self.hint}

    @classmethod
    def from_json(cls, document: Any) -> RunWarning:
        """Return the warning that `document` describes; raise RecordError for an invalid one."""
        return cls(
            code=get_text(document, "code"),
            text=get_text(document, "text"),
            hint=get_text(document, "hint", default=""),
        )
