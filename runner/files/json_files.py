"""Read JSON files of unknown origin: results, traces and exports."""

from __future__ import annotations

import errno
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from compile_hud.db.errors import RecordError
from compile_hud.db.records.results import RunDocument
from compile_hud.db.shared.text import counted
from compile_hud.runner.files.nesting import MAX_DEPTH, is_nested_too_deeply

# Parsed, a file takes several times its size of memory, and the runner must outlive it.
MAX_JSON_BYTES = 512 << 20
# Two maintained clocks are never further apart.
MAX_AHEAD: Final = timedelta(days=1)
# There was no torch before.
_FIRST_YEAR: Final = 2016
# No clock is set back further than this during a measurement.
MAX_BACK: Final = timedelta(minutes=1)
# This path stands for standard input instead of a file.
STDIN: Final = Path("standard input")
_GZIP_MAGIC: Final = b"\x1f\x8b"
_LOOK: Final = "Look at the clock of the machine that measured it"


def read_json(path: Path) -> Any:
    """Return the content of the JSON file `path`, which may be packed with gzip.

    Raises OSError, and RecordError for invalid JSON, for more than MAX_JSON_BYTES unpacked and for
    more than MAX_DEPTH levels.
    """
    content = _read(path)
    if len(content) > MAX_JSON_BYTES:
        raise RecordError(
            f"{path.name} is larger than {MAX_JSON_BYTES} bytes; split it into runs", path=path.name
        )
    if not content.strip():
        raise RecordError(f"{path.name} is empty", path=path.name)
    try:
        document = json.loads(content, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise _too_deep(path) from error
    except ValueError as error:
        raise RecordError(
            f"{path.name} is not whole JSON: {error}", path=path.name, reason=str(error)
        ) from error
    if is_nested_too_deeply(document):
        raise _too_deep(path)
    return document


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON; write null for a missing one")


def _too_deep(path: Path) -> RecordError:
    return RecordError(
        f"{path.name} is nested too deeply: {MAX_DEPTH} levels of lists and objects are allowed",
        path=path.name,
        problem="too-deep",
        most=MAX_DEPTH,
    )


def _read(path: Path) -> bytes:
    """Return the content of `path`, unpacked, and only as much as shows that it is too large."""
    with _opened(path) as stream:
        # A peek consumes nothing: a pipe cannot be read twice.
        if not stream.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            return stream.read(MAX_JSON_BYTES + 1)
        try:
            return gzip.GzipFile(fileobj=stream).read(MAX_JSON_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RecordError(
                f"{path.name} is not whole gzip: {error}", path=path.name, reason=str(error)
            ) from error


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    if path is STDIN:
        # A name in /dev would not work for a socket. The stream stays open, at its end.
        stream: io.BufferedReader | None = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise OSError(errno.EBADF, "it is closed")
        yield stream
        return
    with path.open("rb") as stream:
        yield stream


def read_documents(path: Path) -> list[RunDocument]:
    """Return the runs in a result file; raise OSError, and RecordError naming the file."""
    try:
        content = read_json(path)
        items = content if isinstance(content, list) else [content]
        if not items:
            raise RecordError("no run is in it")
        return [RunDocument.from_json(item) for item in items]
    except RecordError as error:
        raise RecordError(
            f"{path} is no result file: {error}. `hud run --json PATH` writes one, and `hud import`"
            " reads files of other tools",
            path=path,
            reason=str(error),
        ) from error


def check_times(document: RunDocument, *, now: datetime) -> None:
    """Raise RecordError where the run or a result ends before it starts, or later than today."""
    run = document.run
    _check_span(f"run {run.id}", started_at=run.started_at, finished_at=run.finished_at, now=now)
    for result in document.results:
        what, start = f"result {result.id} of run {run.id}", result.started_at
        _check_span(what, started_at=start, finished_at=result.finished_at, now=now)


def _check_span(
    what: str, *, started_at: datetime, finished_at: datetime | None, now: datetime
) -> None:
    check_not_ahead(what, started_at=started_at, now=now)
    if started_at.year < _FIRST_YEAR:
        raise RecordError(
            f"{what} starts in the year {started_at.year}. {_LOOK}", year=started_at.year
        )
    if finished_at is None:
        return
    if started_at - finished_at > MAX_BACK:
        raise RecordError(
            f"{what} finishes at {finished_at:%Y-%m-%d %H:%M:%S} UTC, before it starts"
            f" ({started_at:%Y-%m-%d %H:%M:%S} UTC). {_LOOK}",
            finished_at=finished_at,
            started_at=started_at,
        )
    if finished_at > now + MAX_AHEAD:
        raise RecordError(f"{what} finishes at {_later(finished_at, now=now)}")


def check_not_ahead(what: str, *, started_at: datetime, now: datetime) -> None:
    """Raise RecordError if `what` starts after today: it would remain the newest for ever."""
    if started_at > now + MAX_AHEAD:
        raise RecordError(f"{what} starts at {_later(started_at, now=now)}")


def _later(at: datetime, *, now: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC, more than a day after now ({now:%Y-%m-%d %H:%M} UTC). {_LOOK}"


def read_document(path: Path) -> RunDocument:
    """Return the one run in a result file; raise OSError, and RecordError naming the file."""
    documents = read_documents(path)
    if len(documents) != 1:
        raise RecordError(
            f"{path} holds {counted(len(documents), 'run')}, not one; `hud ingest` stores them all,"
            " and then"
            " each can be named by its id",
            path=path,
            num_documents=len(documents),
        )
    return documents[0]
