"""The stored searches of a state directory: one process at a time continues one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from compile_hud.db.errors import RecordError
from compile_hud.runner.cli.bisect.options import LATEST
from compile_hud.runner.errors import BisectError
from compile_hud.runner.files.stored_searches import StoredSearch, read_searches, search_ids
from compile_hud.runner.system.locks import holder_text, immediate_lock

_Search = TypeVar("_Search", bound=StoredSearch)


@contextmanager
def alone_in(
    folder: Path, activity: str, *, error: Callable[[str], Exception] = BisectError
) -> Iterator[None]:
    """Lock `folder`, whose checkouts all processes with this activity share; else raise `error`.

    `activity` is `bisecting in .hud`, for the message.
    """

    def lock_error(pid: int | None) -> Exception:
        return error(f"{holder_text(pid)} is {activity}; wait for it")

    with immediate_lock(folder / ".lock", on_conflict=lock_error):
        yield


def find_search(kind: type[_Search], name: str, *, folder: Path) -> _Search:
    """Return the search whose id begins with `name`, or the latest that is not complete.

    Raises BisectError without one.
    """
    begins = "" if name == LATEST else name
    try:
        matches = read_searches(kind, folder=folder, begins=begins)
    except (OSError, RecordError) as error:
        raise BisectError(f"cannot resume: {error}", reason=str(error)) from error
    if name == LATEST:
        matches = [item for item in matches if not item.is_complete]
    if not matches:
        ids = ", ".join(search_ids(folder))
        problem = "was stopped" if name == LATEST else f"is called {name!r}"
        there = f"there is {ids}" if ids else "without --resume one begins"
        raise BisectError(f"no {kind.NOUN} here {problem}; {there}")
    return matches[0]
