"""The rights of people on the dashboard: roles, their members, and the end of sign-ins. Pure.

Only the standard library is needed: the settings and the dashboard's server share this.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from compile_hud.db.records.codec import decode, encode
from compile_hud.db.shared.text import one_line, shortened

# `hud` exports the access rules, with secrets, to the dashboard's process in this variable.
ACCESS_VARIABLE = "HUD_ACCESS"
# In the list of a role this means everyone who signs in.
EVERYBODY = "*"
# Clocks of two machines differ; the library that checks the token allows as much.
CLOCK_SLACK = timedelta(minutes=2)
# The record of changes has this behind an unverified name.
UNCHECKED = " (not signed in)"
# The same for a name that the provider passes on without a check, such as one of a profile.
UNVERIFIED = " (unverified name)"
# The longest unverified name. A message shows 60 characters, the mark among them.
_MAX_NAME = 40


class Role(StrEnum):
    """The rights of a person; each role includes those before it."""

    VIEWER = "viewer"
    TRIAGER = "triager"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Return whether this role has all rights of `other`."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The roles and their members.

    Without an `issuer` there is no sign-in. An entry of a list with an `@` is an e-mail address
    (`*@example.org` is a domain), and `*` is everyone who signs in. Any other entry is a value of
    the claim. `anonymous` is the role without a sign-in, None for none. An e-mail address counts if
    the provider has verified it, or with `trusts_email`.
    """

    issuer: str = ""
    client_id: str = ""
    claim: str = "groups"
    viewers: tuple[str, ...] = (EVERYBODY,)
    triagers: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    anonymous: Role | None = Role.VIEWER
    trusts_email: bool = False
    session_s: float = 12 * 3600.0

    @property
    def has_sign_in(self) -> bool:
        """Return whether people can sign in."""
        return bool(self.issuer)

    def to_json(self) -> dict[str, Any]:
        """Return the rules as a JSON object."""
        return encode(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AccessRules:
        """Return the rules that `to_json` wrote into `document`."""
        return decode(cls, document).with_lists(document)

    def with_lists(self, table: Mapping[str, Any]) -> AccessRules:
        """Return these rules with the lists of people of `table`; raise ValueError for invalid
        ones.

        A missing list is the default one.
        """
        defaults = AccessRules()
        return dataclasses.replace(
            self,
            viewers=_names(table.get("viewers", defaults.viewers)),
            triagers=_names(table.get("triagers", defaults.triagers)),
            admins=_names(table.get("admins", defaults.admins)),
        )

    def for_nobody(self) -> AccessRules:
        """Return these rules without any member."""
        return dataclasses.replace(self, viewers=(), triagers=(), admins=(), anonymous=None)


def _role(value: Any) -> Role | None:
    return None if value is None else Role(value)


def _names(value: Any) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError("a list of people is one text or a list of texts")
    return tuple(items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """The person at a page: the name for the record of changes, and the role.

    `session` identifies a sign-in and is empty without one. `problem` says why a sign-in does not
    count.
    """

    name: str = ""
    role: Role | None = None
    session: str = ""
    problem: str = ""

    @property
    def is_signed_in(self) -> bool:
        """Return whether a provider verified this person."""
        return bool(self.session)

    def may(self, role: Role) -> bool:
        """Return whether this person has the rights of `role`."""
        return self.role is not None and self.role.includes(role)

    def signed_as(self, typed: str) -> str:
        """Return the name for the record of changes: `typed` if it is unverified."""
        return self.name if self.is_signed_in else f"{_one_name(typed)}{UNCHECKED}"


def person_of(
    claims: Mapping[str, Any], *, rules: AccessRules, at: datetime, ended: Iterable[str] = ()
) -> Person:
    """Return the person of `claims`, else an anonymous one with the anonymous role.

    `ended` are sessions that were signed out.
    """
    unknown = Person(role=rules.anonymous)
    if not rules.has_sign_in or not claims:
        return unknown
    session = "/".join(str(claims.get(name, "")) for name in ("sub", "iat", "nonce"))
    problem = _problem(claims, rules=rules, at=at)
    if not problem and session in ended:
        problem = "you have signed out"
    if problem:
        return dataclasses.replace(unknown, problem=problem)
    role = role_of(claims, rules=rules)
    return Person(name=_name(claims, rules), role=role, session=session)


def _name(claims: Mapping[str, Any], rules: AccessRules) -> str:
    """Return the verified e-mail address or subject; a name of the profile has a mark."""
    if email := _email(claims, rules):
        return email
    # People can write any name into their profile: that of another person, or of the judge.
    typed = claims.get("name")
    return f"{_one_name(str(typed))}{UNVERIFIED}" if typed else str(claims["sub"])


def _one_name(typed: str) -> str:
    return shortened(one_line(typed).strip(), limit=_MAX_NAME)


def role_of(claims: Mapping[str, Any], *, rules: AccessRules) -> Role | None:
    """Return the highest role that the lists give to these claims, None without any."""
    for role, entries in (
        (Role.ADMIN, rules.admins),
        (Role.TRIAGER, rules.triagers),
        (Role.VIEWER, rules.viewers),
    ):
        if any(_fits(entry, claims, rules) for entry in entries):
            return role
    return None


def _fits(entry: str, claims: Mapping[str, Any], rules: AccessRules) -> bool:
    if entry == EVERYBODY:
        return True
    if "@" in entry:
        return fnmatchcase(_email(claims, rules).lower(), entry.lower())
    values = claims.get(rules.claim)
    return entry in (values if isinstance(values, list) else [values])


def _email(claims: Mapping[str, Any], rules: AccessRules) -> str:
    # Some providers let people write any address into their profile.
    is_theirs = rules.trusts_email or claims.get("email_verified") is True
    return str(claims.get("email") or "") if is_theirs else ""


def _problem(claims: Mapping[str, Any], *, rules: AccessRules, at: datetime) -> str:
    """Return the reason why a sign-in does not count, "" if it counts."""
    audience = claims.get("aud")
    if str(claims.get("iss", "")).rstrip("/") != rules.issuer.rstrip("/"):
        return "another provider than the one that is set has signed you in"
    if rules.client_id not in (audience if isinstance(audience, list) else [audience]):
        return "you are signed in to another application"
    since = claims.get("iat")
    if not claims.get("sub") or not isinstance(since, int | float):
        return "the provider did not say who you are, or since when"
    age_s = at.timestamp() - since
    if not -CLOCK_SLACK.total_seconds() <= age_s < rules.session_s:
        return "your sign-in is over"
    return ""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refusal(host: str, *, rules: AccessRules, is_open: bool) -> str:
    """Return the reason why the dashboard must not listen on `host`, "" if it may.

    `is_open` is True for a dashboard that is open on purpose.
    """
    if rules.has_sign_in or is_open or is_loopback(host):
        return ""
    return (
        f"the dashboard does not listen on {host or 'all addresses'} without sign-in: everyone who"
        " reaches it could read everything. Set up [auth] in hud.toml with an issuer,"
        " let it listen on 127.0.0.1, or say that it is meant: --without-sign-in, or"
        " `[server] without_sign_in = true`"
    )
