"""Files of other tools of any size, read piece by piece, gzipped or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from compile_hud.db.records.json_fields import kind_of
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.files.nesting import MAX_DEPTH, is_nested_too_deeply

_GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 1 << 20
# A value is a record or a short list of records; a longer text is no valid value.
MAX_VALUE_CHARS = 16 << 20
# Parsed, a document takes several times its size of memory.
MAX_DOCUMENT_CHARS = 512 << 20
_SPACE = " \t\r\n"
# Between values of a list, and between documents of a file, commas and spaces alike.
_BETWEEN = _SPACE + ","
_NUMBER_CHARS = frozenset("+-.0123456789eE")
# Error texts of `json`. -Infinity and an escaped sign are the longest words that a cut may split.
_NO_END = "Unterminated string"
_LONGEST_WORD = 16


@dataclass(slots=True)
class Source:
    """A file that is read twice: for its digest, and for its content."""

    path: Path
    _hash: Any = field(default_factory=hashlib.sha256)
    # The last line if no newline ends it, None before any line was read.
    _open_line: int | None = None

    def read_digest(self) -> str:
        """Return the SHA-256 of the content, unpacked, as hex digits; raise as `texts` does."""
        for _text in self.texts():
            pass
        return str(self._hash.hexdigest())

    def check_digest(self, digest: str) -> None:
        """Raise ImportFailed unless the last read content has this digest."""
        if self._hash.hexdigest() != digest:
            raise ImportFailed(
                f"{self.path} was changed while it was read. Nothing of this file was imported;"
                " import it again",
                path=self.path,
            )

    def texts(self) -> Iterator[str]:
        """Yield the content as text; raise ImportFailed when it cannot be read or is no UTF-8."""
        self._hash = hashlib.sha256()
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        num_lines = 0
        try:
            with open_unpacked(self.path) as file:
                while piece := file.read(_PIECE_BYTES):
                    self._hash.update(piece)
                    text = decoder.decode(piece)
                    num_lines += text.count("\n")
                    yield text
            yield decoder.decode(b"", final=True)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.error(
                f"the gzip data is damaged or cut off: {error}", num_lines + 1
            ) from error
        except UnicodeDecodeError as error:
            raise self.error(f"this is no UTF-8 text: {error.reason}", num_lines + 1) from error
        except OSError as error:
            raise ImportFailed(
                f"cannot read {self.path}: {error.strerror or error}", path=self.path
            ) from error

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield every line with its number, from 1, without its end."""
        number, rest = 0, ""
        self._open_line = None
        for text in self.texts():
            *whole, rest = (rest + text).split("\n")
            if len(rest) > MAX_VALUE_CHARS:
                raise self.error("the line is too long to be a row", number + len(whole) + 1)
            for line in whole:
                number += 1
                yield number, line.removesuffix("\r")
        if rest:
            self._open_line = number + 1
            yield number + 1, rest

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every JSON object with the number of the line on which it begins.

        The file is an object, a list of them, or several of these one after the other. Raises
        ImportFailed naming the line for anything else.
        """
        return _Objects(self).read()

    def head(self) -> str:
        """Return the first piece of the content, empty for an empty file."""
        return next(self.texts())

    def documents(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield every JSON object of a file with its line, however large one is.

        The file is one or several objects, or lists of them. Raises ImportFailed for anything else.
        """
        text = self._whole_text()
        decode = json.JSONDecoder().raw_decode
        position = _after_space(text, 0)
        while position < len(text):
            line = text.count("\n", 0, position) + 1
            try:
                value, position = decode(text, position)
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith(_NO_END) or error.pos >= len(text.rstrip())
                what = "the file is cut off in the middle of a value" if is_cut else error.msg
                raise self.error(f"this is no whole JSON: {what}", error.lineno) from error
            except RecursionError as error:
                raise self.error("the JSON is nested too deeply", line) from error
            except ValueError as error:
                what = "there is a number in this value that has too many digits to be one"
                raise self.error(what, line) from error
            if is_nested_too_deeply(value):
                raise self.error("the JSON is nested too deeply", line)
            for item in value if isinstance(value, list) else [value]:
                if not isinstance(item, dict):
                    raise self.error(f"expected a JSON object, got {kind_of(item)}", line)
                yield line, item
            position = _after_space(text, position)

    def _whole_text(self) -> str:
        pieces, size = [], 0
        for piece in self.texts():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_DOCUMENT_CHARS:
                what = f"the file is longer than {MAX_DOCUMENT_CHARS:,} characters; split it"
                raise self.error(what, 1)
        return "".join(pieces)

    def cells(self, line: int, text: str) -> list[str]:
        """Return the cells of one row of CSV; raise ImportFailed when it is none."""
        try:
            return [cell.strip() for cell in next(csv.reader([text], strict=True))]
        except csv.Error as error:
            raise self.error(f"this is no CSV: {error}", line) from error

    def check_end(self, line: int) -> None:
        """Raise ImportFailed if row `line` has no newline: its last cell may be cut off.

        Programs that write such files end every row, and half of a number looks like another
        number.
        """
        if line == self._open_line:
            what = (
                "no newline ends the last row, as in a file that is cut off. Add one if it is whole"
            )
            raise self.error(what, line)

    def error(self, what: str, line: int) -> ImportFailed:
        """Return the error that `what` is wrong on `line`."""
        return ImportFailed(
            f"{self.path}:{line}: {what}. Nothing of this file was imported",
            path=self.path,
            line=line,
        )


def _after_space(text: str, position: int) -> int:
    """Return the index of the next character at or after `position` that is no space."""
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def open_unpacked(path: Path) -> AbstractContextManager[BinaryIO]:
    """Return the file, open to read, unpacked if it is gzip; raise OSError when it cannot be."""
    file = path.open("rb")
    is_packed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    file.seek(0)
    if not is_packed:
        return file
    # Closing the GzipFile leaves a file object that was handed in open.
    file.close()
    return cast("AbstractContextManager[BinaryIO]", gzip.open(path, "rb"))


class _Objects:
    """The unparsed text of a source, and its position in the file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.texts = source.texts()
        self.decode = json.JSONDecoder().raw_decode
        self.rest = ""
        self.position = 0
        self.line = 1
        # The line on which the list began that is being read, None outside.
        self.list_line: int | None = None

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        while self.skip(_BETWEEN):
            sign = self.rest[self.position]
            if sign == "[" and self.list_line is None:
                self.list_line = self.line
                self.position += 1
            elif sign == "]" and self.list_line is not None:
                self.list_line = None
                self.position += 1
            else:
                line = self.line
                value = self.take()
                if not isinstance(value, dict):
                    what = f"expected a JSON object, got {kind_of(value)}"
                    raise self.source.error(what, line)
                yield line, value
        if self.list_line is not None:
            what = f"the list that begins on line {self.list_line} has no end; the file is cut off"
            raise self.source.error(what, self.line)

    def skip(self, signs: str) -> bool:
        """Advance to the next sign outside of `signs`; return False at the end of the file."""
        while True:
            while self.position < len(self.rest) and self.rest[self.position] in signs:
                self.line += self.rest[self.position] == "\n"
                self.position += 1
            if self.position < len(self.rest):
                return True
            if not self.more():
                return False

    def more(self) -> bool:
        """Read more text; return False at the end of the file."""
        text = next(self.texts, None)
        if text is None:
            return False
        self.rest = self.rest[self.position :] + text
        self.position = 0
        return True

    def take(self) -> Any:
        """Return the JSON value that begins here and advance past it."""
        while True:
            try:
                value, end = self.decode(self.rest, self.position)
            except (json.JSONDecodeError, RecursionError) as error:
                self.read_on(error)
                continue
            except ValueError as error:
                # Python refuses to read an integer of more than 4,300 digits.
                what = "there is a number in this value that has too many digits to be one"
                raise self.source.error(what, self.line) from error
            # A number at the end of a piece may continue in the next one.
            if end == len(self.rest) and self.rest[end - 1] in _NUMBER_CHARS and self.more():
                continue
            if self.may_be_deep(end) and is_nested_too_deeply(value):
                raise self.source.error("the JSON is nested too deeply", self.line)
            self.line += self.rest.count("\n", self.position, end)
            self.position = end
            return value

    def may_be_deep(self, end: int) -> bool:
        """Return whether the value up to `end` has as many brackets as one that is too deep."""
        num_opened = sum(self.rest.count(sign, self.position, end) for sign in "{[")
        return num_opened > MAX_DEPTH

    def read_on(self, error: Exception) -> None:
        """Read more of an incomplete value; raise ImportFailed for a broken one."""
        if isinstance(error, RecursionError):
            raise self.source.error("the JSON is nested too deeply", self.line) from error
        assert isinstance(error, json.JSONDecodeError)
        # A value is broken if the text ends in it, or if one of its strings has no end.
        has_no_end = error.msg.startswith(_NO_END)
        may_go_on = has_no_end or error.pos >= len(self.rest) - _LONGEST_WORD
        is_long = len(self.rest) - self.position > MAX_VALUE_CHARS
        if may_go_on and not is_long and self.more():
            return
        if may_go_on and is_long:
            what = f"the value is longer than {MAX_VALUE_CHARS:,} characters, which is no record"
            raise self.source.error(what, self.line)
        is_cut = has_no_end or error.pos >= len(self.rest.rstrip())
        line = self.line + self.rest.count("\n", self.position, min(error.pos, len(self.rest)))
        what = "the file is cut off in the middle of a value" if is_cut else error.msg
        if line == 1 and not is_cut:
            what += "; `hud import --help` says which formats there are"
        raise self.source.error(f"this is no whole JSON: {what}", line) from error
