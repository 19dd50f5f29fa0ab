"""The person at the page and their role, checked again for every page, route and write.

The settings that `hud` exports are removed from the environment at once, so no child process sees
them. The lists of people are read again whenever hud.toml changes. A role that is taken away is
gone before the next write, in open pages too.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
import tomllib

from compile_hud.app import clock
from compile_hud.app.auth.owner import OwnerSignIn
from compile_hud.db.jobs.live_log import STATE_VARIABLE
from compile_hud.db.shared.access_rules import ACCESS_VARIABLE, AccessRules, Person, Role, person_of
from compile_hud.db.shared.local_sign_in import local_user, remove_link, write_link

logger = logging.getLogger(__name__)

# The server's own start sets it to the address that it listens on.
LISTEN_VARIABLE = "HUD_LISTENS_ON"
_ALL_ADDRESSES = ("", "0.0.0.0", "::")
TOKEN_VARIABLE = "HUD_METRICS_TOKEN"
TOKEN_FILE_VARIABLE = "HUD_METRICS_TOKEN_FILE"
API_TOKEN_VARIABLE = "HUD_API_TOKEN"
API_TOKEN_FILE_VARIABLE = "HUD_API_TOKEN_FILE"

LINK_ADVICE = "Open the sign-in link of `hud up` or `hud serve`, or run `hud sign-in`"
# Sign-ins expire, so the list of those that were ended by hand can be short.
_MAX_ENDED = 10_000
_NEEDED = {
    Role.VIEWER: "viewing it",
    Role.TRIAGER: "triaging alerts",
    Role.ADMIN: "changing how series are judged",
}


class NotAllowed(Exception):
    """The person has no role that allows this; the text says how to get one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """The settings of this process: access rules, and the secrets of the sign-in.

    `path` is the hud.toml with the lists of people, empty without one; `url` is the address of the
    dashboard. With `is_owned` its local user signs in with a link, which is shown on standard
    output where `shows_link`. The other fields are empty without a sign-in.
    """

    rules: AccessRules = field(default_factory=AccessRules)
    path: str = ""
    url: str = ""
    is_owned: bool = False
    shows_link: bool = False
    scope: str = ""
    client_secret: str = field(default="", repr=False)
    cookie_secret: str = field(default="", repr=False)


def own_names() -> tuple[str, ...]:
    """Return the names of the address that this server listens on, without asking a name server."""
    host = os.environ.get(LISTEN_VARIABLE, "127.0.0.1").lower()
    return (socket.gethostname().lower(),) if host in _ALL_ADDRESSES else (host,)


def has_machine_token() -> bool:
    """Return whether `/metrics` and `/readyz` need a token here."""
    has_token = any(os.environ.get(name) for name in (TOKEN_VARIABLE, TOKEN_FILE_VARIABLE))
    return has_token or child_settings().rules.has_sign_in


def has_api_token() -> bool:
    """Return whether the API takes a token here, and nothing without a token or a sign-in."""
    return any(os.environ.get(name) for name in (API_TOKEN_VARIABLE, API_TOKEN_FILE_VARIABLE))


@functools.cache
def child_settings() -> ChildSettings:
    """Return the settings that `hud` exported, else those of a read-only dashboard."""
    text = os.environ.pop(ACCESS_VARIABLE, "")
    if not text:
        return ChildSettings()
    settings = json.loads(text)
    return ChildSettings(**{**settings, "rules": AccessRules.from_json(settings["rules"])})


@functools.cache
def owner_sign_in() -> OwnerSignIn | None:
    """Return the sign-in of the local user, None where this dashboard has no owner."""
    settings = child_settings()
    if not settings.is_owned:
        return None
    return OwnerSignIn(name=local_user(), url=settings.url, save=_save_link)


def _save_link(link: str) -> None:
    state_dir = os.environ.get(STATE_VARIABLE)
    if not state_dir:
        return
    try:
        write_link(Path(state_dir), link, port=urlsplit(link).port or 80)
    except OSError as error:
        logger.warning("`hud sign-in` has no link: %s", error)


def withdraw_link() -> None:
    """Remove the file with the owner's link: this process ends."""
    state_dir, settings = os.environ.get(STATE_VARIABLE), child_settings()
    if settings.is_owned and state_dir:
        remove_link(Path(state_dir), port=urlsplit(settings.url).port or 80)


def owner_of(cookies: Mapping[str, str]) -> Person | None:
    """Return the owner if `cookies` are those of a session of theirs, else None."""
    owner = owner_sign_in()
    return None if owner is None else owner.person(cookies)


def rules() -> AccessRules:
    """Return the access rules of hud.toml, read again after a change; no roles if the file is
    broken.
    """
    settings = child_settings()
    if not settings.rules.has_sign_in or not settings.path:
        return settings.rules
    try:
        state = Path(settings.path).stat()
    except OSError as error:
        logger.warning("nobody has a role: %s cannot be read: %s", settings.path, error)
        return settings.rules.for_nobody()
    return _rules_in(settings.path, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=1)
def _rules_in(path: str, _changed_ns: int, _num_bytes: int) -> AccessRules:
    rules_of_file = child_settings().rules
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("auth", {})
        return rules_of_file.with_lists(table)
    except (OSError, ValueError, AttributeError) as error:
        logger.warning("nobody has a role: [auth] of %s cannot be read: %s", path, error)
        return rules_of_file.for_nobody()


def claims() -> Mapping[str, Any]:
    """Return the claims of the user who is signed in on this page, empty without one."""
    user = st.user.to_dict()
    return user if user.get("is_logged_in") else {}


def present() -> Person:
    """Return the person at this page."""
    owner = None if owner_sign_in() is None else owner_of(st.context.cookies)
    return owner or person_from_claims(claims())


def person_from_claims(user_claims: Mapping[str, Any]) -> Person:
    """Return the person with these claims of the provider."""
    return person_of(user_claims, rules=rules(), at=clock.now(), ended=_ended())


def may_upload(person: Person) -> bool:
    """Return whether `person` may send a file: never without a sign-in."""
    return person.is_signed_in and person.may(Role.TRIAGER)


def require(person: Person, role: Role, *, action: str = "") -> None:
    """Raise NotAllowed unless `person` has the rights of `role`; the message names `action`."""
    if text := refusal(person, role, action=action):
        what = action or _NEEDED[role]
        logger.warning("refused: %s by %r, who is %s", what, person.name, person.role)
        raise NotAllowed(text)


def refusal(person: Person, role: Role, *, action: str = "") -> str:
    """Return the reason why `person` lacks the rights of `role`, and a remedy; "" with these
    rights.
    """
    if person.may(role):
        return ""
    action = action or _NEEDED[role]
    if person.is_signed_in:
        return (
            f"{person.name} is {_article(person.role)}; {action} takes {_article(role)}."
            " The owner of [auth] in hud.toml can change that"
        )
    if rules().has_sign_in:
        why = f"{person.problem}; " if person.problem else ""
        return f"{why}{action} takes {_article(role)}: sign in"
    if owner_sign_in() is not None:
        return f"{action} takes the sign-in of this machine's user. {LINK_ADVICE}"
    return (
        f"{action} takes {_article(role)}, and this dashboard has no sign-in. Use `hud alerts` on"
        " the command line, or set up [auth] in hud.toml"
    )


def end(person: Person) -> None:
    """End the sign-in of `person` in every page and for every copy of its cookie."""
    if owner := owner_sign_in():
        owner.end(person)
        return
    ended = _ended()
    if person.is_signed_in:
        ended[person.session] = None
    while len(ended) > _MAX_ENDED:
        ended.pop(next(iter(ended)))


@functools.cache
def _ended() -> dict[str, None]:
    return {}


def _article(role: Role | None) -> str:
    if role is None:
        return "nobody"
    return f"an {role}" if role is Role.ADMIN else f"a {role}"
