"""The settings of hud.toml about sign-in, and their way into the dashboard's process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from compile_hud.db.shared.access_rules import EVERYBODY, AccessRules, Role, is_loopback
from compile_hud.db.shared.text import counted
from compile_hud.db.shared.trace_paths import is_web_address
from compile_hud.runner.config.notifications import SecretSource
from compile_hud.runner.config.section import ConfigSection, SectionError
from compile_hud.runner.config.value_types import Duration, Flag, Text, Texts, one_of, takes
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.notifications.receivers.secrets import NotReady, resolve_secret

# The value of `[auth] anonymous` that denies access without sign-in.
NO_ROLE = "nobody"
DEFAULT_SCOPE = "openid email profile"
_PROVIDER = "the https address of an OpenID Connect provider; http for one of this machine alone"
# 128 random bits as hexadecimal digits.
_LEAST_SECRET = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """The access rules, and the sources of the sign-in's secrets.

    Relative paths of files are relative to `base`. With `is_open` the dashboard may listen on any
    address without sign-in. With `has_token` the local user signs in with a one-time link.
    """

    base: Path
    rules: AccessRules = field(default_factory=AccessRules)
    scope: str = DEFAULT_SCOPE
    client_secret: str = ""
    cookie_secret: str = ""
    is_open: bool = False
    has_token: bool = True


def _is_private(url: str) -> bool:
    """Return whether the connection to `url` is protected: HTTPS or loopback."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _issuer(value: str) -> str:
    if not is_web_address(value) or not _is_private(value):
        raise ValueError(value)
    return value


class AuthSection(ConfigSection):
    issuer: Annotated[str, AfterValidator(_issuer), takes(_PROVIDER)] | None = Field(
        None,
        description="Address of the OpenID Connect provider that people sign in with. Default: no"
        " sign-in.",
    )
    client_id: Text | None = Field(None, description="What the provider calls this application.")
    client_secret: SecretSource | None = Field(
        None,
        description="Where the secret that the provider gave to this application is kept:"
        " `env:NAME` or `file:PATH`.",
    )
    cookie_secret: SecretSource | None = Field(
        None,
        description="Where the secret that signs the cookies is kept, 32 characters or more:"
        " `env:NAME` or `file:PATH`. Default: a new one at each start, so that everybody signs in"
        " again.",
    )
    scope: Text = Field(DEFAULT_SCOPE, description="The requested scopes.")
    claim: Text = Field("groups", description="Claim that names the groups of a person.")
    viewers: Texts = Field(
        (EVERYBODY,),
        description="Who may look: e-mail addresses (`*@example.org` is a domain), groups, or `*`"
        " for whoever signs in.",
    )
    triagers: Texts = Field(
        (), description="Who may also decide about alerts: addresses and groups."
    )
    admins: Texts = Field(
        (), description="Who may also change how series are judged: addresses and groups."
    )
    trust_email: Flag = Field(
        False,
        description="Whether e-mail addresses count that the provider does not say are verified.",
    )
    anonymous: Annotated[str, one_of((NO_ROLE, str(Role.VIEWER), str(Role.TRIAGER)))] | None = (
        Field(
            None,
            description="What one may who is not signed in: `nobody` is nothing, `viewer` is to"
            " look, `triager` is to decide about alerts under any name. Default: `viewer` without"
            " an issuer, `nobody` with one.",
        )
    )
    session: Duration = Field(
        12 * 3600.0, description="After how long one signs in again, in seconds or as text."
    )


def make_sign_in(auth: AuthSection, *, is_open: bool, base: Path) -> SignIn:
    """Return the settings of `[auth]`; raise SectionError.

    Without a sign-in, anonymous users may view pages; with one, they have no access by default.
    """
    issuer = (auth.issuer or "").rstrip("/")
    for key in ("client_id", "client_secret"):
        is_set = getattr(auth, key) is not None
        if issuer and not is_set:
            problem = "is missing: the provider gives it to who registers an application"
            raise SectionError(problem, key=key)
        if is_set and not issuer:
            problem = f"is missing, and {key} is for it: the address of the provider"
            raise SectionError(problem, key="issuer")
    if "openid" not in auth.scope.split():
        problem = f"got {auth.scope!r}, without which the provider says nobody's name"
        raise SectionError(problem, key="scope")
    anonymous = auth.anonymous or (NO_ROLE if issuer else Role.VIEWER)
    rules = AccessRules(
        issuer=issuer,
        client_id=auth.client_id or "",
        claim=auth.claim,
        viewers=auth.viewers,
        triagers=auth.triagers,
        admins=auth.admins,
        anonymous=None if anonymous == NO_ROLE else Role(anonymous),
        trusts_email=auth.trust_email,
        session_s=auth.session,
    )
    return SignIn(
        base=base,
        rules=rules,
        scope=auth.scope,
        client_secret=auth.client_secret or "",
        cookie_secret=auth.cookie_secret or "",
        is_open=is_open,
    )


def has_local_owner(sign_in: SignIn, *, host: str, public_url: str) -> bool:
    """Return whether the local user owns a dashboard on `host` and signs in with a link.

    A `public_url` of another machine is that of a proxy, which has its own rules.
    """
    is_local = is_loopback(host) and (
        not public_url or is_loopback(urlsplit(public_url).hostname or "")
    )
    return sign_in.has_token and is_local and not sign_in.rules.has_sign_in


def export_to_child(
    sign_in: SignIn,
    *,
    url: str,
    path: Path | None,
    env: Mapping[str, str],
    is_owned: bool = False,
    shows_link: bool = False,
) -> str:
    """Return `sign_in` as JSON for the dashboard's process, secrets included.

    `url` is the public address of the dashboard. With `is_owned` the local user signs in with a
    link, which is shown on standard output where `shows_link`. The dashboard rereads the lists of
    people from the hud.toml at `path`. Raises ConfigError for a missing secret, and for a URL over
    which others could intercept the sign-in.
    """
    settings: dict[str, Any] = {
        "rules": sign_in.rules.to_json(),
        "path": "" if path is None else str(path.absolute()),
        "url": url,
    }
    if is_owned:
        settings |= {"is_owned": True, "shows_link": shows_link}
    if sign_in.rules.has_sign_in:
        _check_url(url)
        settings |= {
            "scope": sign_in.scope,
            "client_secret": _secret(sign_in, "client_secret", env=env),
            "cookie_secret": _secret(sign_in, "cookie_secret", env=env),
        }
    return json.dumps(settings)


def _secret(sign_in: SignIn, name: str, *, env: Mapping[str, str]) -> str:
    where = getattr(sign_in, name)
    try:
        secret = resolve_secret(name, where, base=sign_in.base, env=env)
    except NotReady as error:
        raise ConfigError(f"[auth] {error}", section="auth", key=name, reason=str(error)) from error
    if name == "cookie_secret" and secret and len(secret) < _LEAST_SECRET:
        raise ConfigError(
            f"[auth] cookie_secret: has {counted(len(secret), 'character')}, takes {_LEAST_SECRET}"
            " or more;"
            " `openssl rand -hex 32` makes one",
            section="auth",
            key=name,
            num_characters=len(secret),
        )
    return secret


def _check_url(url: str) -> None:
    if not _is_private(url):
        raise ConfigError(
            f"people open the dashboard at {url}: with sign-in that takes an https address, which a"
            " proxy in front of it answers. Set [server] url; only this machine may do without",
            section="server",
            key="url",
            url=url,
            problem="not-private",
        )
    if urlsplit(url).path.strip("/"):
        raise ConfigError(
            f"[server] url is {url!r}: with sign-in it takes one without a path",
            section="server",
            key="url",
            url=url,
            problem="path",
        )
