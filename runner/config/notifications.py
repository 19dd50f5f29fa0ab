"""The settings of receivers and routes in hud.toml, with their validation."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from compile_hud.db.records.findings import FINDING_CODES
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Dtype, Phase, Verdict
from compile_hud.runner.config.section import (
    ConfigSection,
    SecretRefused,
    SectionError,
    check_name,
    did_you_mean,
)
from compile_hud.runner.config.value_types import (
    Flag,
    Seconds,
    Text,
    Texts,
    TimezoneName,
    as_tuple,
    one_of,
    some_of,
    takes,
)
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
from compile_hud.runner.notifications.routes import ANY, NOTIFIED_KINDS, Route
from compile_hud.runner.notifications.weekly_time import WeeklyTime, weekly_time
from compile_hud.runner.planning.selection import SHAPES_BY_DEVICE

# Every mail server accepts this: ASCII, no quotes, no character that ends a header.
_MAILBOX = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}$"
# https://docs.github.com/rest/repos/repos has the characters of owners and names.
_REPOSITORY = re.compile(r"\A[A-Za-z0-9-]{1,39}/(?!\.\.?$)[A-Za-z0-9._-]{1,100}\Z")


def check_receiver(settings: ReceiverSettings) -> None:
    """Raise SectionError unless `settings` have exactly the keys of their kind."""
    keys = KIND_KEYS[settings.kind]
    for key in ALL_KEYS:
        is_set = getattr(settings, key) is not None
        if key in keys.needed and not is_set:
            raise SectionError(f"{key} is missing; a receiver of kind {settings.kind} needs it")
        if is_set and key not in (*keys.needed, *keys.allowed):
            problem = f"a receiver of kind {settings.kind} has no {key}; omit it"
            raise SectionError(problem, key=key)
    if settings.kind is ReceiverKind.SLACK and bool(settings.channel) != bool(settings.token):
        missing, present = ("token", "channel") if settings.channel else ("channel", "token")
        raise SectionError(f"{missing} is missing; a bot of Slack needs it with its {present}")
    if settings.kind is ReceiverKind.APPRISE and not settings.allow_private:
        raise SectionError(
            "Apprise looks addresses up itself, so private ones cannot be refused; say that you"
            " know with `allow_private = true`"
        )
    if settings.url is not None and not _is_secret_source(settings.url):
        if not keys.schemes:
            raise SectionError(f"takes {SECRET_SOURCES}, since it holds secrets", key="url")
        try:
            check_url(settings.url, schemes=keys.schemes)
        except TargetRefused as error:
            raise SectionError(str(error), key="url") from error


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


def _is_secret_source(value: str) -> bool:
    return value.startswith((ENV, FILE)) and bool(value.partition(":")[2].strip())


# A glob of these keys that matches no name would never match an alert.
_ROUTE_NAMES: Mapping[str, tuple[str, ...]] = {
    "devices": tuple(SHAPES_BY_DEVICE),
    "phases": tuple(map(str, Phase)),
    "dtypes": tuple(map(str, Dtype)),
    "findings": FINDING_CODES,
}
_ROUTE = Route(name="", receivers=())

SecretSource = Annotated[str, PlainValidator(secret_source)]
Address = Annotated[str, PlainValidator(address)]
Mailbox = Annotated[
    str,
    Field(pattern=_MAILBOX),
    takes("an address such as hud@example.org, without a name beside it"),
]
Mailboxes = Annotated[
    tuple[Mailbox, ...],
    Field(min_length=1),
    BeforeValidator(as_tuple),
    AfterValidator(lambda mailboxes: tuple(dict.fromkeys(mailboxes))),
    takes("an address such as hud@example.org, without a name beside it"),
]
Repository = Annotated[str, Field(pattern=_REPOSITORY), takes("a repository such as owner/name")]


class ReceiverSection(ConfigSection):
    kind: Annotated[ReceiverKind, one_of(ReceiverKind)] = Field(
        ReceiverKind.WEBHOOK,
        description="What it speaks: `webhook` (JSON by the Standard Webhooks specification),"
        " `slack`, `discord`, `teams`, `email`, `github` or `apprise`.",
    )
    url: Address | None = Field(
        None,
        description=f"Where notifications are posted, or where that is kept: {SECRET_SOURCES}."
        " Of mail the server: `smtp://host` (STARTTLS), `smtps://host` (TLS) or"
        " `smtp+plain://host`. Of"
        " `github` the API of an own server, `https://host/api/v3`; by default that of github.com.",
    )
    secret: SecretSource | None = Field(
        None,
        description=f"Where the secret that signs a `webhook` is kept: {SECRET_SOURCES}. Without"
        " it, unsigned.",
    )
    sender: Mailbox | None = Field(None, description="Address that an `email` comes from.")
    to: Mailboxes | None = Field(
        None, description="Address that an `email` goes to, or a list of them."
    )
    user: Text | None = Field(
        None,
        description=f"User at the server of an `email`, or where that is kept: {SECRET_SOURCES}.",
    )
    password: SecretSource | None = Field(
        None,
        description=f"Where the user's password is kept: {SECRET_SOURCES}. It is sent"
        " in TLS alone.",
    )
    repository: Repository | None = Field(None, description="Repository of `github`, `owner/name`.")
    token: SecretSource | None = Field(
        None,
        description="Where the token of `github`, or of a bot of `slack`, is kept:"
        f" {SECRET_SOURCES}.",
    )
    channel: Text | None = Field(
        None,
        description="Channel of a bot of `slack`, by its id or its name; `url` is then"
        " `https://slack.com/api`.",
    )
    publish: Annotated[tuple[Publication, ...], some_of(Publication)] | None = Field(
        None,
        description="What `github` shows: `issue` (one for each event), `status` and `check` (of"
        " the commit of your model that a change began with). Default: `issue`, `status`.",
    )
    allow_private: Flag = Field(
        False,
        description="Whether the address may be one of a private network or of this machine.",
    )
    timeout_s: Seconds = Field(
        TOTAL_S,
        description="Wall seconds that one attempt may take, the answer included; at most"
        f" {CONNECT_S:g} of them for the connection.",
    )
    timezone: TimezoneName = Field("UTC", description="Time zone of `weekly`.")
    weekly: Annotated[WeeklyTime, PlainValidator(weekly_time)] | None = Field(
        None,
        description='When a digest of the week is sent, such as `"mon 09:00"`. Default: never.',
    )


class RouteSection(ConfigSection):
    receivers: Texts = Field(
        description="Names of receivers. Without any route each receiver gets all regressions."
    )
    models: Texts = Field(ANY, description="Globs of models to notify about.")
    modes: Texts = Field(ANY, description="Globs of modes or variants.")
    metrics: Texts = Field(ANY, description="Globs of metrics.")
    machines: Texts = Field(ANY, description="Globs of machines.")
    devices: Texts = Field(ANY, description="Globs of devices, `cpu` or `cuda`.")
    toolchains: Texts = Field(ANY, description="Globs of toolchains.")
    phases: Texts = Field(ANY, description="Globs of phases, `inference` or `training`.")
    dtypes: Texts = Field(ANY, description="Globs of dtypes.")
    findings: Texts = Field(
        ANY,
        description="Globs of [findings](findings.md): one that is new since the last good run"
        " must match.",
    )
    owners: Texts = Field(ANY, description="Globs of owners; an alert without one fits `*` alone.")
    severity: Annotated[tuple[str, ...], some_of(map(str, Severity))] = Field(
        _ROUTE.severities,
        description="`severe`, `major`, `minor`"
        " ([what they are](../how-to/notifications.md#severity)).",
    )
    verdicts: Annotated[tuple[str, ...], some_of(map(str, Verdict))] = Field(
        _ROUTE.verdicts,
        description="`regression`, `improvement`, `inconclusive` (noisier than before).",
    )
    news: Annotated[tuple[str, ...], some_of(NOTIFIED_KINDS)] = Field(
        _ROUTE.news, description="`opened`, `worsened`, `reopened`, `fixed`, `bisected`."
    )
    imported: Flag = Field(
        False, description="Whether alerts of histories that `hud import` stored are told too."
    )


def make_route(name: str, section: RouteSection, *, receivers: Collection[str]) -> Route:
    """Return the route that a section describes; raise SectionError for a name of nothing.

    `receivers` are the names of all receivers.
    """
    for receiver in section.receivers:
        check_name("receiver", receiver, receivers, key="receivers")
    for key, names in _ROUTE_NAMES.items():
        for glob in getattr(section, key):
            if not any(fnmatchcase(item, glob) for item in names):
                # Of two names the similar one may be the wrong one: `gpu` is like `cpu`.
                near = did_you_mean(glob if len(names) > 2 else "", names)
                raise SectionError(f"no {key.removesuffix('s')} {glob!r}{near}", key=key)
    values = dict(section)
    return Route(name=name, severities=values.pop("severity"), **values)
