"""The JSON values of a trace file, one after the other, however large the file is.

The bytes are read as Latin-1, where one byte is one character, so that a place in the text is a
place in the file; values that are not ASCII are decoded again, as the UTF-8 that they are.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NoReturn

from compile_hud.runner.errors import TraceError
from compile_hud.runner.files.stream_reader import open_unpacked

_PIECE_BYTES = 1 << 20
# 8 minutes of 8 GPUs in detail; a gzip bomb of 4 MB is stopped here as well.
MAX_UNPACKED_BYTES = 4 << 30
# The longest values beside the events are lists of log lines and stack frames. Nothing but brackets
# makes Python objects of twenty times the size: 16 MiB keep a hostile value below 400 MB.
MAX_VALUE_BYTES = 16 << 20
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_NUMBER_CHARS = frozenset("+-.0123456789eE")
# As json says it; -Infinity and an escaped sign are the longest words that a cut may split.
_NO_END = "Unterminated string"
_LONGEST_WORD = 16


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


class JsonStream(AbstractContextManager["JsonStream"]):
    """A file that is being read; every method raises TraceError where it is no trace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Kineto has written raw line ends into names: strict would refuse such a trace.
        decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)
        self._decode = decoder.raw_decode
        self._text = ""
        self._place = 0
        self._is_ascii = True
        # Of the first character of the text in the unpacked file.
        self._text_offset = 0
        self._num_read = 0
        self._file = self._open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def offset(self) -> int:
        """Return how many bytes of the unpacked file have been taken."""
        return self._text_offset + self._place

    def peek(self) -> str:
        """Return the next sign that is no blank, empty at the end of the file."""
        return self._skip(_SPACE)

    def peek_item(self) -> str:
        """Return the sign at which the next item of a list or an object begins, or its end."""
        return self._skip(_BETWEEN)

    def expect(self, sign: str) -> None:
        """Take the next sign, which must be `sign`."""
        found = self.peek()
        if found != sign:
            got = repr(found) if found else "the end: the file is cut off"
            raise self.error(f"expected {sign!r}, got {got}")
        self._place += 1

    def items(self, *, max_bytes: int) -> Iterator[tuple[int, Any]]:
        """Yield the items of the list that begins here, each with its offset, and take the list."""
        begin = self.offset
        self.expect("[")
        while sign := self.peek_item():
            if sign == "]":
                self._place += 1
                return
            offset = self.offset
            yield offset, self.take(max_bytes=max_bytes)
        raise self.error(f"the list that begins at byte {begin} has no end: the file is cut off")

    def take(self, *, max_bytes: int = MAX_VALUE_BYTES) -> Any:
        """Return the next JSON value and go behind it."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._place)
            except RecursionError as error:
                raise self.error("the JSON is nested too deeply") from error
            except ValueError as error:
                self._read_on(error, max_bytes)
                continue
            # A number at the end of a piece may go on in the next.
            is_open = end == len(self._text) and self._text[end - 1] in _NUMBER_CHARS
            if is_open and self._more():
                continue
            if end - self._place > max_bytes:
                raise self._too_long(max_bytes)
            if not self._is_ascii:
                value = self._as_utf8(end)
            self._place = end
            return value

    def error(self, what: str, offset: int | None = None) -> TraceError:
        """Return the error that `what` is wrong at `offset`, or where the reading is."""
        place = self.offset if offset is None else offset
        return TraceError(
            f"{self.path}: byte {place}: {what}. Nothing of this trace is used; record or export it"
            " again as a Chrome trace (torch.profiler's export_chrome_trace)"
        )

    def _open(self) -> BinaryIO:
        try:
            return open_unpacked(self.path).__enter__()
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> TraceError:
        reason = error.strerror or error
        return TraceError(
            f"cannot read {self.path}: {reason}. Name a Chrome trace (.json, .json.gz)"
        )

    def _skip(self, pattern: re.Pattern[str]) -> str:
        while True:
            match = pattern.match(self._text, self._place)
            assert match is not None
            self._place = match.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on, as much again as is waiting; return False when there is nothing more."""
        waiting = self._text[self._place :]
        piece = self._read(max(_PIECE_BYTES, len(waiting)))
        if not piece:
            return False
        if self._num_read == 0:
            piece_text = piece.removeprefix(_BOM).decode("latin-1")
            self._text_offset = len(piece) - len(piece_text)
        else:
            piece_text = piece.decode("latin-1")
            self._text_offset += self._place
        self._num_read += len(piece)
        if self._num_read > MAX_UNPACKED_BYTES:
            raise self.error(f"the trace is larger than {MAX_UNPACKED_BYTES} bytes")
        self._text = waiting + piece_text
        self._place = 0
        self._is_ascii = self._text.isascii()
        return True

    def _read(self, num_bytes: int) -> bytes:
        try:
            return self._file.read(num_bytes)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"the gzip data is damaged or cut off: {error}"
            raise self.error(what, self._num_read) from error
        except OSError as error:
            raise self._unreadable(error) from error

    def _read_on(self, error: ValueError, max_bytes: int) -> None:
        """Read more of a value that is not whole; raise TraceError when it is broken."""
        if not isinstance(error, json.JSONDecodeError):
            is_long = "int_max_str_digits" in str(error)
            raise self.error("a number has too many digits" if is_long else str(error)) from error
        if len(self._text) - self._place > max_bytes:
            raise self._too_long(max_bytes) from error
        # Half of a value is broken where the text ends, or in a string that has no end.
        has_no_end = error.msg.startswith(_NO_END)
        if has_no_end or error.pos >= len(self._text) - _LONGEST_WORD:
            is_cut = has_no_end or error.pos >= len(self._text.rstrip())
            if self._more():
                return
        else:
            is_cut = False
        what = "the file is cut off in the middle of a value" if is_cut else error.msg
        raise self.error(f"this is no JSON: {what}", self._text_offset + error.pos) from error

    def _too_long(self, max_bytes: int) -> TraceError:
        return self.error(f"the value that begins here is longer than {max_bytes} bytes")

    def _as_utf8(self, end: int) -> Any:
        raw = self._text[self._place : end].encode("latin-1")
        try:
            return self._decode(raw.decode("utf-8"))[0]
        except UnicodeDecodeError as error:
            raise self.error(f"this is no UTF-8 text: {error.reason}") from error
