"""The settings of hud.toml about sign-in, and their way into the dashboard's process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from compile_hud.db.shared.access_rules import EVERYBODY, AccessRules, Role, is_loopback
from compile_hud.db.shared.trace_paths import is_web_address
from compile_hud.runner.config.notifications import secret_source
from compile_hud.runner.config.setting import Setting
from compile_hud.runner.config.validators import duration, flag, text, texts
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.notifications.receivers.secrets import NotReady, resolve_secret

# The value of `[auth] anonymous` that denies access without sign-in.
NO_ROLE = "nobody"
DEFAULT_SCOPE = "openid email profile"
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


def make_sign_in(
    auth: Mapping[str, Any], *, is_open: bool, base: Path, fail: Callable[[str, str], Any]
) -> SignIn:
    """Return the settings of `[auth]`; call `fail` with a key and its error.

    Without a sign-in, anonymous users may view pages; with one, they have no access by default.
    """
    issuer = (auth["issuer"] or "").rstrip("/")
    for key in ("client_id", "client_secret"):
        if issuer and not auth[key]:
            fail(key, "is missing: the provider gives it to who registers an application")
        if auth[key] and not issuer:
            fail("issuer", f"is missing, and {key} is for it: the address of the provider")
    if "openid" not in auth["scope"].split():
        fail("scope", f"got {auth['scope']!r}, without which the provider says nobody's name")
    rules = AccessRules(
        issuer=issuer,
        client_id=auth["client_id"] or "",
        claim=auth["claim"],
        viewers=auth["viewers"],
        triagers=auth["triagers"] or (),
        admins=auth["admins"] or (),
        anonymous=_anonymous_role(auth["anonymous"] or (NO_ROLE if issuer else Role.VIEWER)),
        trusts_email=auth["trust_email"],
        session_s=auth["session"],
    )
    return SignIn(
        base=base,
        rules=rules,
        scope=auth["scope"],
        client_secret=auth["client_secret"] or "",
        cookie_secret=auth["cookie_secret"] or "",
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
            f"[auth] cookie_secret: has {len(secret)} characters, takes {_LEAST_SECRET} or more;"
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


def _is_private(url: str) -> bool:
    """Return whether the connection to `url` is protected: HTTPS or loopback."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def _issuer(value: Any) -> str:
    problem = "the https address of an OpenID Connect provider; http for one of this machine alone"
    if not isinstance(value, str) or not is_web_address(value) or not _is_private(value):
        raise ValueError(problem)
    return value


def _anonymous(value: Any) -> str:
    allowed = (NO_ROLE, str(Role.VIEWER), str(Role.TRIAGER))
    if value not in allowed:
        raise ValueError(f"one of {', '.join(allowed)}")
    return str(value)


def _anonymous_role(value: str) -> Role | None:
    return None if value == NO_ROLE else Role(value)


def _row(
    key: str, accept: Callable[[Any], Any], description: str, *, default: Any = None
) -> Setting:
    return Setting(section="auth", key=key, accept=accept, description=description, default=default)


SIGN_IN_SETTINGS = (
    _row(
        "issuer",
        _issuer,
        "Address of the OpenID Connect provider that people sign in with. Default: no sign-in.",
    ),
    _row("client_id", text, "What the provider calls this application."),
    _row(
        "client_secret",
        secret_source,
        "Where the secret that the provider gave to this application is kept: `env:NAME` or"
        " `file:PATH`.",
    ),
    _row(
        "cookie_secret",
        secret_source,
        "Where the secret that signs the cookies is kept, 32 characters or more: `env:NAME` or"
        " `file:PATH`. Default: a new one at each start, so that everybody signs in again.",
    ),
    _row("scope", text, "The requested scopes.", default=DEFAULT_SCOPE),
    _row("claim", text, "Claim that names the groups of a person.", default="groups"),
    _row(
        "viewers",
        texts,
        "Who may look: e-mail addresses (`*@example.org` is a domain), groups, or `*` for whoever"
        " signs in.",
        default=(EVERYBODY,),
    ),
    _row("triagers", texts, "Who may also decide about alerts: addresses and groups."),
    _row("admins", texts, "Who may also change how series are judged: addresses and groups."),
    _row(
        "trust_email",
        flag,
        "Whether e-mail addresses count that the provider does not say are verified.",
        default=False,
    ),
    _row(
        "anonymous",
        _anonymous,
        "What one may who is not signed in: `nobody` is nothing, `viewer` is to look, `triager` is"
        " to decide about alerts under any name. Default: `viewer` without an issuer, `nobody`"
        " with one.",
    ),
    _row(
        "session",
        duration,
        "After how long one signs in again, in seconds or as text.",
        default=12 * 3600.0,
    ),
)
