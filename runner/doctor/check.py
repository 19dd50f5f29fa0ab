"""What `hud doctor` finds, what it costs, and which commands would change it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class CheckState(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `hud doctor`; `hint` says what to do unless the state is ok.

    `cost` is what it does to numbers, with the source of every figure, `commands` are what somebody
    would type to change it.
    """

    name: str
    state: CheckState
    text: str
    hint: str = ""
    cost: str = ""
    commands: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return {
            "name": self.name,
            "state": self.state,
            "text": self.text,
            "hint": self.hint,
            "cost": self.cost,
            "commands": list(self.commands),
        }
