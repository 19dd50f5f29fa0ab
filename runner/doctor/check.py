"""The checks of `hud doctor`: state, cost, and the commands that change it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class CheckState(StrEnum):
    """The severity of a check's result."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `hud doctor`; unless the state is ok, `hint` names the next step.

    `cost` is the effect on measurements, with the source of every figure. `commands` change the
    state; the user types them.
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
