"""The settings in force, which one process shows for another. Standard library only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# `hud` exports its settings, without secrets, to the dashboard's process in this variable.
SETTINGS_VARIABLE: Final = "HUD_SHOWN_SETTINGS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """One key of hud.toml with its value as text; `is_set` tells whether the file has it.

    A value from the environment names its `variable`.
    """

    section: str
    key: str
    value: str
    is_set: bool
    description: str = ""
    variable: str = ""


def settings_to_json(settings: Iterable[ShownSetting]) -> str:
    """Return settings as JSON."""
    return json.dumps([dataclasses.asdict(item) for item in settings])


def settings_from_json(text: str) -> tuple[ShownSetting, ...]:
    """Return the settings that `settings_to_json` wrote, none of an empty text."""
    return tuple(ShownSetting(**item) for item in json.loads(text)) if text else ()
