"""What `hud doctor` finds, what it costs, and what would change it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_LISTS = ("paths", "before", "command", "undo_command")


class CheckState(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A change of the machine and the way back: a value for files, or a command.

    `before` is what each of the files held.
    """

    paths: tuple[str, ...] = ()
    value: str = ""
    before: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    undo_command: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what somebody would type to make the change."""
        if self.command:
            return (f"sudo {shlex.join(self.command)}",)
        return (f"echo {shlex.quote(self.value)} | sudo tee {shlex.join(self.paths)}",)

    @property
    def undo_lines(self) -> tuple[str, ...]:
        """Return what somebody would type to take it back."""
        if self.command:
            return (f"sudo {shlex.join(self.undo_command)}",)
        files: dict[str, list[str]] = {}
        for path, value in zip(self.paths, self.before, strict=True):
            files.setdefault(value, []).append(path)
        return tuple(
            f"echo {shlex.quote(value)} | sudo tee {shlex.join(paths)}"
            for value, paths in files.items()
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fix as a JSON object."""
        return {"value": self.value, **{name: list(getattr(self, name)) for name in _LISTS}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Fix:
        """Return the fix that `to_json` made `document` of."""
        lists = {name: tuple(document[name]) for name in _LISTS}
        return cls(value=document["value"], **lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of `hud doctor`; `hint` says what to do unless the state is ok.

    `cost` is what it does to numbers, with the source of every figure.
    """

    name: str
    state: CheckState
    text: str
    hint: str = ""
    cost: str = ""
    fix: Fix | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return {
            "name": self.name,
            "state": self.state,
            "text": self.text,
            "hint": self.hint,
            "cost": self.cost,
            "commands": [] if self.fix is None else list(self.fix.lines),
            "undo": [] if self.fix is None else list(self.fix.undo_lines),
        }
