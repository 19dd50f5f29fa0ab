"""Tokens in the header `Authorization`, as RFC 6750 and RFC 9110 define it."""

from __future__ import annotations

import hmac

SCHEME = "Bearer"


def has_token(header: str, token: str) -> bool:
    """Return whether a header has `token`; the case of the scheme does not matter."""
    scheme, _, credentials = header.partition(" ")
    is_same = hmac.compare_digest(credentials.strip().encode(), token.encode())
    return bool(token) and scheme.lower() == SCHEME.lower() and is_same
