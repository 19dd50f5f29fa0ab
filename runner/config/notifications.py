"""The settings of receivers and routes in hud.toml, with their validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from compile_hud.db.records.findings import FINDING_CODES
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Dtype, Phase, Verdict
from compile_hud.runner.config.setting import SecretRefused, Setting
from compile_hud.runner.config.validators import flag, seconds, text, texts, timezone_name
from compile_hud.runner.notifications.http_client import (
    CONNECT_S,
    HTTP,
    MAIL,
    TOTAL_S,
    TargetRefused,
    check_url,
)
from compile_hud.runner.notifications.receivers.settings import (
    ALL_KEYS,
    ENV,
    FILE,
    KIND_KEYS,
    SECRET_SOURCES,
    Publication,
    ReceiverKind,
    ReceiverSettings,
)
from compile_hud.runner.notifications.routes import NOTIFIED_KINDS, Route
from compile_hud.runner.notifications.weekly_time import weekly_time
from compile_hud.runner.planning.selection import SHAPES_BY_DEVICE

# Every mail server accepts this: ASCII, no quotes, no character that ends a header.
_MAILBOX = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}")
# https://docs.github.com/rest/repos/repos has the characters of owners and names.
_REPOSITORY = re.compile(r"[A-Za-z0-9-]{1,39}/(?!\.\.?$)[A-Za-z0-9._-]{1,100}")


class WrongReceiver(ValueError):
    """A section has a missing or a surplus key; `key` names it, None means the whole section."""

    def __init__(self, text: str, *, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key


def check_receiver(settings: ReceiverSettings) -> None:
    """Raise WrongReceiver unless `settings` have exactly the keys of their kind."""
    keys = KIND_KEYS[settings.kind]
    for key in ALL_KEYS:
        is_set = getattr(settings, key) is not None
        if key in keys.needed and not is_set:
            raise WrongReceiver(f"{key} is missing; a receiver of kind {settings.kind} needs it")
        if is_set and key not in (*keys.needed, *keys.allowed):
            problem = f"a receiver of kind {settings.kind} has no {key}; omit it"
            raise WrongReceiver(problem, key=key)
    if settings.kind is ReceiverKind.SLACK and bool(settings.channel) != bool(settings.token):
        missing, present = ("token", "channel") if settings.channel else ("channel", "token")
        raise WrongReceiver(f"{missing} is missing; a bot of Slack needs it with its {present}")
    if settings.kind is ReceiverKind.APPRISE and not settings.allow_private:
        raise WrongReceiver(
            "Apprise looks addresses up itself, so private ones cannot be refused; say that you"
            " know with `allow_private = true`"
        )
    if settings.url is not None and not _is_secret_source(settings.url):
        if not keys.schemes:
            raise WrongReceiver(f"takes {SECRET_SOURCES}, since it holds secrets", key="url")
        try:
            check_url(settings.url, schemes=keys.schemes)
        except TargetRefused as error:
            raise WrongReceiver(str(error), key="url") from error


def secret_source(value: Any) -> str:
    """Return the source of a secret, a variable or a file; raise SecretRefused otherwise."""
    if not isinstance(value, str) or not _is_secret_source(value):
        raise SecretRefused(f"{SECRET_SOURCES}, never the secret itself")
    return value


def address(value: Any) -> str:
    """Return an address or the source of one; raise SecretRefused otherwise.

    The path of a chat's webhook is a secret.
    """
    if isinstance(value, str) and _is_secret_source(value):
        return value
    try:
        check_url(value if isinstance(value, str) else "", schemes=(*HTTP, *MAIL))
    except TargetRefused as error:
        raise SecretRefused(
            f"an address, or where it is kept: {SECRET_SOURCES} ({error})"
        ) from error
    return str(value)


def mailbox(value: Any) -> str:
    """Return `name@host`; raise ValueError otherwise."""
    if not isinstance(value, str) or _MAILBOX.fullmatch(value) is None:
        raise ValueError("an address such as hud@example.org, without a name beside it")
    return value


def mailboxes(value: Any) -> tuple[str, ...]:
    """Return one address of mail or a list of different ones; raise ValueError otherwise."""
    return tuple(dict.fromkeys(mailbox(item) for item in texts(value)))


def repository(value: Any) -> str:
    """Return `owner/name`; raise ValueError otherwise."""
    if not isinstance(value, str) or _REPOSITORY.fullmatch(value) is None:
        raise ValueError("a repository such as owner/name")
    return value


def _publications(value: Any) -> tuple[Publication, ...]:
    return tuple(map(Publication, _some(value, allowed=tuple(map(str, Publication)))))


def _is_secret_source(value: str) -> bool:
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


def _change_kinds(value: Any) -> tuple[str, ...]:
    return _some(value, allowed=NOTIFIED_KINDS)


# A glob of these keys that matches no name would never match an alert.
ROUTE_NAMES: Mapping[str, tuple[str, ...]] = {
    "devices": tuple(SHAPES_BY_DEVICE),
    "phases": tuple(map(str, Phase)),
    "dtypes": tuple(map(str, Dtype)),
    "findings": FINDING_CODES,
}
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
        " `slack`, `discord`, `teams`, `email`, `github` or `apprise`.",
    ),
    Setting(
        section="receivers.NAME",
        key="url",
        accept=address,
        description=f"Where notifications are posted, or where that is kept: {SECRET_SOURCES}."
        " Of mail the server: `smtp://host` (STARTTLS), `smtps://host` (TLS) or"
        " `smtp+plain://host`. Of"
        " `github` the API of an own server, `https://host/api/v3`; by default that of github.com.",
    ),
    Setting(
        section="receivers.NAME",
        key="secret",
        accept=secret_source,
        description=f"Where the secret that signs a `webhook` is kept: {SECRET_SOURCES}. Without"
        " it, unsigned.",
    ),
    Setting(
        section="receivers.NAME",
        key="sender",
        accept=mailbox,
        description="Address that an `email` comes from.",
    ),
    Setting(
        section="receivers.NAME",
        key="to",
        accept=mailboxes,
        description="Address that an `email` goes to, or a list of them.",
    ),
    Setting(
        section="receivers.NAME",
        key="user",
        accept=text,
        description=f"User at the server of an `email`, or where that is kept: {SECRET_SOURCES}.",
    ),
    Setting(
        section="receivers.NAME",
        key="password",
        accept=secret_source,
        description=f"Where the user's password is kept: {SECRET_SOURCES}. It is sent"
        " in TLS alone.",
    ),
    Setting(
        section="receivers.NAME",
        key="repository",
        accept=repository,
        description="Repository of `github`, `owner/name`.",
    ),
    Setting(
        section="receivers.NAME",
        key="token",
        accept=secret_source,
        description=f"Where the token of `github`, or of a bot of `slack`, is kept:"
        f" {SECRET_SOURCES}.",
    ),
    Setting(
        section="receivers.NAME",
        key="channel",
        accept=text,
        description="Channel of a bot of `slack`, by its id or its name; `url` is then"
        " `https://slack.com/api`.",
    ),
    Setting(
        section="receivers.NAME",
        key="publish",
        accept=_publications,
        description="What `github` shows: `issue` (one for each event), `status` and `check` (of"
        " the commit of your model that a change began with). Default: `issue`, `status`.",
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
        section="receivers.NAME",
        key="timezone",
        accept=timezone_name,
        default="UTC",
        description="Time zone of `weekly`.",
    ),
    Setting(
        section="receivers.NAME",
        key="weekly",
        accept=weekly_time,
        description='When a digest of the week is sent, such as `"mon 09:00"`. Default: never.',
    ),
    Setting(
        section="routes.NAME",
        key="receivers",
        accept=texts,
        is_required=True,
        description="Names of receivers. Without any route each receiver gets all regressions.",
    ),
    _globs("models", "Globs of models to notify about."),
    _globs("modes", "Globs of modes or variants."),
    _globs("metrics", "Globs of metrics."),
    _globs("machines", "Globs of machines."),
    _globs("devices", "Globs of devices, `cpu` or `cuda`."),
    _globs("toolchains", "Globs of toolchains."),
    _globs("phases", "Globs of phases, `inference` or `training`."),
    _globs("dtypes", "Globs of dtypes."),
    _globs(
        "findings",
        "Globs of [findings](findings.md): one that is new since the last good run must match.",
    ),
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
        accept=_change_kinds,
        default=_ROUTE.news,
        description="`opened`, `worsened`, `reopened`, `fixed`.",
    ),
    Setting(
        section="routes.NAME",
        key="imported",
        accept=flag,
        default=False,
        description="Whether alerts of histories that `hud import` stored are told too.",
    ),
)


def make_route(name: str, values: Mapping[str, Any]) -> Route:
    """Return the route that a section describes."""
    named = {item.name for item in fields(Route)}
    settings = {key: value for key, value in values.items() if key in named}
    return Route(name=name, severities=values["severity"], **settings)
