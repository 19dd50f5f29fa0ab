"""Events: what happened, however many alerts say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.string_enum import StrEnum


class EventKind(StrEnum):
    """What the alerts of an event have in common."""

    CASE = "case"
    MODEL = "model"
    REVISION = "revision"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One change with all the alerts about it; `size` is their number."""

    id: str
    kind: EventKind
    title: str
    size: int

    def to_json(self) -> dict[str, Any]:
        """Return the event as a JSON object."""
        return {"id": self.id, "kind": str(self.kind), "title": self.title, "size": self.size}
