"""The settings in force, which one process shows for another. Standard library only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# `hud` exports its settings, without secrets, to the dashboard's process in this variable.
SETTINGS_VARIABLE: Final = "HUD_SHOWN_SETTINGS"
# Without this variable a dashboard was started by itself and knows no hud.toml.
RECEIVERS_VARIABLE: Final = "HUD_SHOWN_RECEIVERS"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReceiver:
    """A receiver of hud.toml without its secrets.

    `address` is a host or the source of the address, `recipients` a repository, a channel or
    domains of mail. `routes` are the routes that lead to it, each with its filters as text.
    """

    name: str
    kind: str
    address: str
    recipients: str = ""
    routes: tuple[tuple[str, str], ...] = ()
    weekly: str = ""


def settings_to_json(settings: Iterable[ShownSetting]) -> str:
    """Return settings as JSON."""
    return json.dumps([dataclasses.asdict(item) for item in settings])


def settings_from_json(text: str) -> tuple[ShownSetting, ...]:
    """Return the settings that `settings_to_json` wrote, none of an empty text."""
    return tuple(ShownSetting(**item) for item in json.loads(text)) if text else ()


def receivers_to_json(receivers: Iterable[ShownReceiver]) -> str:
    """Return receivers as JSON."""
    return json.dumps([dataclasses.asdict(item) for item in receivers])


def receivers_from_json(text: str) -> tuple[ShownReceiver, ...]:
    """Return the receivers that `receivers_to_json` wrote, none of an empty text."""
    return tuple(
        ShownReceiver(**{**item, "routes": tuple(map(tuple, item["routes"]))})
        for item in (json.loads(text) if text else ())
    )
