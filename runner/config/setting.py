"""One setting of hud.toml."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class SecretRefused(ValueError):
    """The rejected value of a setting may be a secret, so the message does not contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of hud.toml.

    `accept` returns the value or raises ValueError with the accepted values. `unit` is the singular
    noun that a whole number counts. `variable` is the environment variable that overrides the file.
    """

    section: str
    key: str
    accept: Callable[[Any], Any]
    description: str
    default: Any = None
    is_required: bool = False
    unit: str = ""
    variable: str = ""
