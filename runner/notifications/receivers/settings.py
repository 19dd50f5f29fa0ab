"""The settings of a receiver of notifications: its kind and the keys of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from compile_hud.runner.notifications.http_client import (
    HTTP,
    MAIL,
    TOTAL_S,
)
from compile_hud.runner.notifications.weekly_time import WeeklyTime

ENV, FILE = "env:", "file:"
SECRET_SOURCES = f"`{ENV}NAME` or `{FILE}PATH`"


class ReceiverKind(StrEnum):
    """The kinds of receivers."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    DISCORD = "discord"
    TEAMS = "teams"
    EMAIL = "email"
    GITHUB = "github"
    APPRISE = "apprise"


class Publication(StrEnum):
    """The forms of a notification on GitHub."""

    ISSUE = "issue"
    STATUS = "status"
    CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """The required and the optional keys of a kind of receiver, without those of every receiver."""

    needed: tuple[str, ...]
    allowed: tuple[str, ...] = ()
    schemes: tuple[str, ...] = HTTP


KIND_KEYS: Mapping[ReceiverKind, _Keys] = {
    ReceiverKind.WEBHOOK: _Keys(needed=("url",), allowed=("secret",)),
    ReceiverKind.SLACK: _Keys(needed=("url",), allowed=("channel", "token")),
    ReceiverKind.DISCORD: _Keys(needed=("url",)),
    ReceiverKind.TEAMS: _Keys(needed=("url",)),
    ReceiverKind.EMAIL: _Keys(
        needed=("url", "sender", "to"), allowed=("user", "password"), schemes=MAIL
    ),
    # Apprise's addresses have their own form and contain secrets, so they come from another source.
    ReceiverKind.APPRISE: _Keys(needed=("url",), schemes=()),
    ReceiverKind.GITHUB: _Keys(needed=("repository", "token"), allowed=("url", "publish")),
}


ALL_KEYS = sorted({key for keys in KIND_KEYS.values() for key in (*keys.needed, *keys.allowed)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """One `[receivers.NAME]`; relative paths of files are relative to `base`."""

    name: str
    base: Path
    kind: ReceiverKind
    url: str | None = None
    secret: str | None = None
    sender: str | None = None
    to: tuple[str, ...] | None = None
    user: str | None = None
    password: str | None = None
    repository: str | None = None
    token: str | None = None
    channel: str | None = None
    publish: tuple[Publication, ...] | None = None
    allow_private: bool = False
    timeout_s: float = TOTAL_S
    timezone: str = "UTC"
    weekly: WeeklyTime | None = None


def schemes_of(kind: ReceiverKind) -> tuple[str, ...]:
    """Return the allowed URL schemes of a receiver of that kind."""
    return KIND_KEYS[kind].schemes
