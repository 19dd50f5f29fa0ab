"""The password of a PostgreSQL store from a file of its own, as containers are given secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from compile_hud.runner.errors import ConfigError

PASSWORD_FILE_VARIABLE: Final = "HUD_DATABASE_PASSWORD_FILE"


def with_password(url: str, *, env: Mapping[str, str]) -> str:
    """Return `url` with the password from the file that the environment names.

    It applies to the URL of a server without a password; an empty file means none. Raises
    ConfigError for an unreadable file.
    """
    named = env.get(PASSWORD_FILE_VARIABLE)
    if not named:
        return url
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "postgresql" or parsed.password:
            return url
        password = Path(named).read_text(encoding="utf-8").strip()
    except ArgumentError:
        # The store reports an invalid URL when it is opened.
        return url
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{PASSWORD_FILE_VARIABLE} names {named}, which cannot be read: {error}. Name a file"
            " that this user may read, or put the password into the URL",
            variable=PASSWORD_FILE_VARIABLE,
            file=named,
        ) from error
    if not password:
        return url
    return parsed.set(password=password).render_as_string(hide_password=False)
