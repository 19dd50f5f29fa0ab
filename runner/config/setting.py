"""One setting of hud.toml as its tables have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class SecretRefused(ValueError):
    """What a setting was given may be a secret: nobody is shown it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of hud.toml. `accept` returns the value or raises ValueError saying what it takes.

    `unit` is what a whole number counts, one of them, for people who read it; `variable` is the one
    of the environment that wins over the file.
    """

    section: str
    key: str
    accept: Callable[[Any], Any]
    description: str
    default: Any = None
    is_required: bool = False
    unit: str = ""
    variable: str = ""
