"""The position of a run on the time axis, as an alert stores it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.records.json_fields import time_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    """A run as an alert refers to it."""

    run_id: str
    revision: str
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return the run as a JSON object."""
        return {"run_id": self.run_id, "revision": self.revision, "at": time_to_json(self.at)}
