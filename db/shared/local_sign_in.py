"""The sign-in of the local user: the name, and the files with the links of running dashboards.

A dashboard on loopback without `[auth]` belongs to the user who started it. It writes its next
one-time link to a file that this user alone can read, for `hud sign-in`.
"""

from __future__ import annotations

import getpass
import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compile_hud.db.records.triage import is_reserved
from compile_hud.db.shared.processes import is_gone, this_process

# The path of the page that exchanges the token of a link for a cookie.
SIGN_IN_PATH: Final = "sign-in"
# In the state directory; each dashboard has a file named after its port.
_FOLDER: Final = "sign-in"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink:
    """The next link of the dashboard `process`; its token signs in one browser, once."""

    url: str
    process: str


def local_user() -> str:
    """Return the name of the user of this process for the record of changes."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # The user of a container often has no name.
        return f"uid {os.getuid()}"
    return f"user {user}" if is_reserved(user) else user


def write_link(state_dir: Path, url: str, *, port: int) -> None:
    """Replace the link of this process with `url`, readable by the current user alone."""
    folder = state_dir / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{uuid.uuid4().hex}"
    content = {"schema_version": _SCHEMA_VERSION, "url": url, "process": this_process()}
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        draft.replace(_path(state_dir, port))
    finally:
        draft.unlink(missing_ok=True)


def remove_link(state_dir: Path, *, port: int) -> None:
    """Remove the link of this process, not that of a later one on the same port."""
    link = _read(_path(state_dir, port))
    if link is not None and link.process == this_process():
        _path(state_dir, port).unlink(missing_ok=True)


def load_links(state_dir: Path) -> list[SignInLink]:
    """Return the links of the dashboards that still run, by port."""
    paths = sorted((state_dir / _FOLDER).glob("*.json"))
    links = [link for path in paths if (link := _read(path)) is not None]
    return [link for link in links if is_gone(link.process) is not True]


def _path(state_dir: Path, port: int) -> Path:
    return state_dir / _FOLDER / f"{port:05}.json"


def _read(path: Path) -> SignInLink | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema_version"] == _SCHEMA_VERSION:
            return SignInLink(url=str(content["url"]), process=str(content["process"]))
    return None
