"""The password of a PostgreSQL server comes from a file and appears in no message."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from compile_hud.runner.config.postgres_password import PASSWORD_FILE_VARIABLE, with_password
from compile_hud.runner.errors import ConfigError

URL = "postgresql+psycopg://hud@db/hud"


def url_with_password(url: str, content: str, folder: Path) -> str:
    """Return what becomes of `url` where the file of the password has `content`."""
    (folder / "password").write_text(content, encoding="utf-8")
    return with_password(url, env={PASSWORD_FILE_VARIABLE: str(folder / "password")})


def test_a_server_gets_the_password_of_the_file(tmp_path: Path) -> None:
    url = url_with_password(URL, "p@ss/w:rd\n", tmp_path)
    assert make_url(url).password == "p@ss/w:rd"
    assert (make_url(url).host, make_url(url).username) == ("db", "hud")


@pytest.mark.parametrize(
    "url", ["duckdb:///x.duckdb", "duckdb:///:memory:", "postgresql+psycopg://hud:own@db/hud", "no"]
)
def test_other_urls_stay_as_they_are(url: str, tmp_path: Path) -> None:
    assert url_with_password(url, "secret", tmp_path) == url


def test_an_empty_file_and_no_file_are_no_password(tmp_path: Path) -> None:
    assert url_with_password(URL, "\n", tmp_path) == URL
    assert with_password(URL, env={}) == URL


def test_a_file_that_is_missing_is_reported_by_name() -> None:
    message = "HUD_DATABASE_PASSWORD_FILE names /nowhere, which cannot be read"
    with pytest.raises(ConfigError, match=message):
        with_password(URL, env={PASSWORD_FILE_VARIABLE: "/nowhere"})
