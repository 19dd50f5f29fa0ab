"""Write files completely or not at all."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


def write_json(path: Path, document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write `document` to `path`, completely or not at all; raise OSError (see `whole_file`)."""
    with whole_file(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8")
        json.dump(document, text, allow_nan=False)
        text.flush()
        text.detach()


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces `path` at the end of the block, on the disk.

    Raises OSError, also for a full disk. After an error, `path` is unchanged and no temporary file
    remains. A device or a pipe is written to directly.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
