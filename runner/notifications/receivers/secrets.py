"""Secrets of receivers and of the sign-in: values of hud.toml, variables or files that it names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from compile_hud.runner.notifications.receivers.settings import (
    ENV,
    FILE,
)


class NotReady(ValueError):
    """A secret is not in the source that hud.toml names; the message never contains it."""


def resolve_secret(what: str, value: str, *, base: Path, env: Mapping[str, str]) -> str:
    """Return `value`, or its target: `env:NAME` a variable, `file:PATH` a file below `base`.

    Raises NotReady, whose message names the setting `what`.
    """
    if value.startswith(ENV):
        name = value.removeprefix(ENV).strip()
        if not env.get(name, "").strip():
            raise NotReady(f"{what}: the environment variable {name} is not set")
        return env[name].strip()
    if value.startswith(FILE):
        path = base / value.removeprefix(FILE).strip()
        try:
            content = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NotReady(f"{what}: cannot read {path}") from error
        if not content:
            raise NotReady(f"{what}: {path} is empty")
        return content
    return value
