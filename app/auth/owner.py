"""The sign-in of the local user, the owner of a dashboard on loopback without `[auth]`.

A link from the terminal has a one-time token. The server exchanges it for a cookie and makes the
next link. Tokens and cookies are valid in this process alone, so a restart ends both.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from compile_hud.db.shared.access_rules import Person, Role
from compile_hud.db.shared.local_sign_in import SIGN_IN_PATH
from compile_hud.db.shared.text import one_line, shortened

logger = logging.getLogger(__name__)

# Bytes. A token of 24 keeps the link in one line of a terminal of 80 columns.
_TOKEN_BYTES = 24
_COOKIE_BYTES = 32
_COOKIE_PREFIX = "hud_owner"
# Each browser needs one; the oldest one ends when there are more.
_MAX_SESSIONS = 100
_MAX_NAME = 40


class OwnerSignIn:
    """The link and the sessions of the owner `name`; `save` gets the URL of each new link.

    `url` is the address at which people open the dashboard. Its port is part of the cookie's name:
    cookies are shared by all ports of a host, and two dashboards must not replace each other's.
    """

    def __init__(self, *, name: str, url: str, save: Callable[[str], None]) -> None:
        self._name = shortened(one_line(name).strip(), limit=_MAX_NAME)
        self._url = url.rstrip("/")
        self._save = save
        self._lock = threading.Lock()
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        # Digests, so that no dump of the memory of this process has a cookie of the owner.
        self._sessions: dict[str, None] = {}
        self.cookie_name = f"{_COOKIE_PREFIX}_{urlsplit(url).port or 80}"
        save(self.link())

    @property
    def name(self) -> str:
        """Return the name of the owner."""
        return self._name

    def link(self) -> str:
        """Return the link whose token is still unused."""
        return f"{self._url}/{SIGN_IN_PATH}?token={self._token}"

    def exchange(self, token: str) -> str | None:
        """Return the cookie of a new session if `token` is that of the current link, else None."""
        with self._lock:
            if not _is_same(self._token, token):
                return None
            self._token = secrets.token_urlsafe(_TOKEN_BYTES)
            cookie = secrets.token_urlsafe(_COOKIE_BYTES)
            self._sessions[_digest(cookie)] = None
            while len(self._sessions) > _MAX_SESSIONS:
                self._sessions.pop(next(iter(self._sessions)))
            self._save(self.link())
        logger.info("the owner of this dashboard signed in")
        return cookie

    def person(self, cookies: Mapping[str, str]) -> Person | None:
        """Return the owner if `cookies` have that of a session, else None."""
        digest = _digest(cookies.get(self.cookie_name, ""))
        if digest not in self._sessions:
            return None
        return Person(name=self._name, role=Role.ADMIN, session=f"owner {digest}")

    def end(self, person: Person) -> None:
        """End the session of `person`."""
        self._sessions.pop(person.session.removeprefix("owner "), None)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _is_same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))
