"""The settings of hud.toml about notifications: receivers and routes, and what they accept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from db.notifications import Severity
from db.records import Verdict
from runner.accepted import flag, seconds, texts
from runner.alerts.http import CONNECT_S, TOTAL_S, TargetRefused, check_url
from runner.alerts.routes import TOLD, Route
from runner.setting import Setting

ENV, FILE = "env:", "file:"
_PLACES = f"`{ENV}NAME` or `{FILE}PATH`"


class ReceiverKind(StrEnum):
    """What a receiver speaks."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    DISCORD = "discord"
    TEAMS = "teams"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverSettings:
    """One `[receivers.NAME]`; `base` is what relative paths of files are relative to."""

    name: str
    base: Path
    kind: ReceiverKind
    url: str
    secret: str | None = None
    allow_private: bool = False
    timeout_s: float = TOTAL_S


def place(value: Any) -> str:
    """Return where a secret is: in the environment or in a file; raise ValueError otherwise."""
    problem = f"{_PLACES}, never the secret itself"
    if not isinstance(value, str) or not _is_place(value):
        raise ValueError(problem)
    return value


def address(value: Any) -> str:
    """Return an http(s) address, or where it is kept; raise ValueError otherwise."""
    if isinstance(value, str) and _is_place(value):
        return value
    try:
        check_url(value if isinstance(value, str) else "")
    except TargetRefused as error:
        raise ValueError(f"an address, or where it is kept: {_PLACES} ({error})") from error
    return str(value)


def _is_place(value: str) -> bool:
    return value.startswith((ENV, FILE)) and bool(value.partition(":")[2].strip())


def _kind(value: Any) -> ReceiverKind:
    if value not in list(ReceiverKind):
        raise ValueError(f"one of {', '.join(ReceiverKind)}")
    return ReceiverKind(value)


def _some(value: Any, *, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if not set(texts(value)) <= set(allowed):
        raise ValueError(f"one or more of {', '.join(allowed)}")
    return texts(value)


def _severities(value: Any) -> tuple[str, ...]:
    return _some(value, allowed=tuple(map(str, Severity)))


def _verdicts(value: Any) -> tuple[str, ...]:
    return _some(value, allowed=tuple(map(str, Verdict)))


def _news(value: Any) -> tuple[str, ...]:
    return _some(value, allowed=TOLD)


_ROUTE = Route(name="", receivers=())


def _globs(key: str, description: str) -> Setting:
    return Setting(
        section="routes.NAME", key=key, accept=texts, default=("*",), description=description
    )


NOTIFICATION_SETTINGS = (
    Setting(
        section="receivers.NAME",
        key="kind",
        accept=_kind,
        default=ReceiverKind.WEBHOOK,
        description="What it speaks: `webhook` (JSON by the Standard Webhooks specification),"
        " `slack`, `discord` or `teams`.",
    ),
    Setting(
        section="receivers.NAME",
        key="url",
        accept=address,
        is_required=True,
        description=f"Where notifications are posted, or where that is kept: {_PLACES}.",
    ),
    Setting(
        section="receivers.NAME",
        key="secret",
        accept=place,
        description=f"Where the secret that signs a `webhook` is kept: {_PLACES}. Without it,"
        " unsigned.",
    ),
    Setting(
        section="receivers.NAME",
        key="allow_private",
        accept=flag,
        default=False,
        description="Whether the address may be one of a private network or of this machine.",
    ),
    Setting(
        section="receivers.NAME",
        key="timeout_s",
        accept=seconds,
        default=TOTAL_S,
        description="Wall seconds that one attempt may take, the answer included; at most"
        f" {CONNECT_S:g} of them for the connection.",
    ),
    Setting(
        section="routes.NAME",
        key="receivers",
        accept=texts,
        is_required=True,
        description="Names of receivers. Without any route each receiver gets all regressions.",
    ),
    _globs("models", "Globs of models whose news are told."),
    _globs("modes", "Globs of modes or variants."),
    _globs("metrics", "Globs of metrics."),
    _globs("owners", "Globs of owners; an alert without one fits `*` alone."),
    Setting(
        section="routes.NAME",
        key="severity",
        accept=_severities,
        default=_ROUTE.severities,
        description="`severe`, `major`, `minor` ([what they are](notifications.md#severity)).",
    ),
    Setting(
        section="routes.NAME",
        key="verdicts",
        accept=_verdicts,
        default=_ROUTE.verdicts,
        description="`regression`, `improvement`, `inconclusive` (noisier than before).",
    ),
    Setting(
        section="routes.NAME",
        key="news",
        accept=_news,
        default=_ROUTE.news,
        description="`opened`, `worsened`, `reopened`, `fixed`.",
    ),
)


def make_route(name: str, values: Mapping[str, Any]) -> Route:
    """Return the route that a section describes."""
    named = {item.name for item in fields(Route)}
    given = {key: value for key, value in values.items() if key in named}
    return Route(name=name, severities=values["severity"], **given)
