"""A small OpenID Connect provider for tests, in a process of its own: PORT CLIENT USERS, in JSON.

It does the authorisation code flow with PKCE, and the checks of a provider. Each user has claims,
which also override the provider's own claims: an "iss" makes it lie. Names with a leading `_` are
its faults: `_state` answers with another state, `_key` signs with a key that it does not publish.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

READY = "the provider answers now\n"


class Provider(ThreadingHTTPServer):
    """OpenID provider on a port of this machine, with its users and codes."""

    daemon_threads = True

    def __init__(self, port: int, *, client: dict[str, str], users: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.client = client
        self.users = users
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.hidden_key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.grants: dict[str, dict[str, str]] = {}


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def log_message(self, *_args: Any) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        pages = {
            "/.well-known/openid-configuration": self._discovery,
            "/jwks": self._jwks,
            "/authorize": self._ask,
            "/approve": self._approve,
            "/end": self._end,
        }
        pages.get(parts.path, self._missing)(query)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        grant = self.server.grants.pop(form.get("code", ""), None)
        credentials = base64.b64decode(self.headers.get("authorization", "Basic ")[6:]).decode()
        client = self.server.client
        is_client = credentials == f"{client['id']}:{client['secret']}"
        if not is_client or grant is None or not _fits(grant, form):
            self._json({"error": "invalid_grant"}, status=400)
            return
        claims_of_user = self.server.users[grant["user"]]
        now = int(time.time())
        answer = {
            "iss": self.server.issuer,
            "aud": client["id"],
            "sub": grant["user"],
            "iat": now,
            "exp": now + 300,
            "nonce": grant["nonce"],
            **{name: value for name, value in claims_of_user.items() if not name.startswith("_")},
        }
        key = self.server.hidden_key if "_key" in claims_of_user else self.server.key
        token = jwt.encode({"alg": "RS256", "kid": "one"}, answer, key)
        self._json({"access_token": "a", "token_type": "Bearer", "id_token": token})

    def _discovery(self, _query: dict[str, str]) -> None:
        issuer = self.server.issuer
        self._json(
            {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "jwks_uri": f"{issuer}/jwks",
                "end_session_endpoint": f"{issuer}/end",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            }
        )

    def _jwks(self, _query: dict[str, str]) -> None:
        self._json({"keys": [self.server.key.as_dict(private=False)]})

    def _ask(self, query: dict[str, str]) -> None:
        client = self.server.client
        if (query.get("client_id"), query.get("redirect_uri")) != (client["id"], client["back"]):
            self._json({"error": "unknown client"}, status=400)
            return
        links = "".join(
            f'<p><a href="/approve?{html.escape(urlencode({**query, "user": user}))}">{user}</a>'
            for user in self.server.users
        )
        self._send(f"<!doctype html><title>Who are you?</title>{links}", kind="text/html")

    def _approve(self, query: dict[str, str]) -> None:
        code = secrets.token_urlsafe(16)
        self.server.grants[code] = query
        is_lie = "_state" in self.server.users[query["user"]]
        state = "another" if is_lie else query["state"]
        self._redirect(f"{query['redirect_uri']}?{urlencode({'code': code, 'state': state})}")

    def _end(self, query: dict[str, str]) -> None:
        self._redirect(query["post_logout_redirect_uri"])

    def _missing(self, _query: dict[str, str]) -> None:
        self._json({"error": "no such page"}, status=404)

    def _redirect(self, url: str) -> None:
        self.send_response(302)
        self.send_header("Location", url)
        self.end_headers()

    def _json(self, content: Any, *, status: int = 200) -> None:
        self._send(json.dumps(content), kind="application/json", status=status)

    def _send(self, text: str, *, kind: str, status: int = 200) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _fits(grant: dict[str, str], form: dict[str, str]) -> bool:
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    has_challenge = grant.get("code_challenge_method") == "S256"
    is_same = form.get("redirect_uri") == grant["redirect_uri"]
    return has_challenge and is_same and grant["code_challenge"] == challenge


if __name__ == "__main__":
    served = Provider(
        int(sys.argv[1]), client=json.loads(sys.argv[2]), users=json.loads(sys.argv[3])
    )
    sys.stdout.write(READY)
    sys.stdout.flush()
    served.serve_forever()
