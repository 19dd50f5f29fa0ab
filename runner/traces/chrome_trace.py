"""Read the events of a Chrome trace, as torch.profiler writes them, as a stream.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (an object
with a list `traceEvents`, or the bare list; times in microseconds).

The bytes are read as Latin-1, in which one byte is one character. A position in the text is then a
position in the file. A value that is not ASCII is decoded again as UTF-8.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NoReturn

from compile_hud.db.records.json_fields import kind_of
from compile_hud.db.shared.text import counted
from compile_hud.runner.errors import TraceError
from compile_hud.runner.files.stream_reader import open_unpacked

_PIECE_BYTES = 1 << 20
# 8 minutes of 8 GPUs in detail; a gzip bomb of 4 MB is stopped here as well.
MAX_UNPACKED_BYTES = 4 << 30
# The longest values other than events are lists of log lines and stack frames. Nested brackets make
# Python objects of twenty times the size: 16 MiB limit a hostile value to 400 MB.
MAX_VALUE_BYTES = 16 << 20
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_NUMBER_CHARS = frozenset("+-.0123456789eE")
# Error texts of `json`. -Infinity and an escaped sign are the longest words that a cut may split.
_NO_END = "Unterminated string"
_LONGEST_WORD = 16
# An event with a deep Python stack takes some ten thousand bytes.
MAX_EVENT_BYTES = 1 << 20
# A timeline stores at most 250 bytes an event: 1.3 GB.
MAX_EVENTS = 5_000_000
# Microseconds from 1970 to the year 2096: ends fit into 64 bits of nanoseconds after any addition.
MAX_START_US = 4e15
# Eleven days; profiles last minutes.
MAX_DURATION_US = 1e12
# An event with a beginning and a duration; all others only describe or connect these.
COMPLETE = "X"
_DECIMAL = re.compile(r"\s*(?P<whole>\d{1,18})(?:\.(?P<part>\d{1,18}))?\s*")
_EMPTY: Mapping[str, Any] = {}
_HEADER_NAMES = {"baseTimeNanoseconds", "deviceProperties", "distributedInfo"}


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


class JsonStream(AbstractContextManager["JsonStream"]):
    """A trace file during reading; every method raises TraceError for invalid content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Kineto has written raw line ends into names: strict would refuse such a trace.
        decoder = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)
        self._decode = decoder.raw_decode
        self._text = ""
        self._position = 0
        self._is_ascii = True
        # The offset of the text's first character in the unpacked file.
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
        """Return the number of consumed bytes of the unpacked file."""
        return self._text_offset + self._position

    def peek(self) -> str:
        """Return the next non-blank sign, empty at the end of the file."""
        return self._skip(_SPACE)

    def peek_item(self) -> str:
        """Return the sign at which the next item of a list or an object begins, or its end."""
        return self._skip(_BETWEEN)

    def expect(self, sign: str) -> None:
        """Consume the next sign; raise TraceError unless it is `sign`."""
        sign_read = self.peek()
        if sign_read != sign:
            got = repr(sign_read) if sign_read else "the end: the file is cut off"
            raise self.error(f"expected {sign!r}, got {got}")
        self._position += 1

    def items(self, *, max_bytes: int) -> Iterator[tuple[int, Any]]:
        """Yield the items of the list that begins here, each with its offset, and take the list."""
        begin = self.offset
        self.expect("[")
        while sign := self.peek_item():
            if sign == "]":
                self._position += 1
                return
            offset = self.offset
            yield offset, self.take(max_bytes=max_bytes)
        raise self.error(f"the list that begins at byte {begin} has no end: the file is cut off")

    def take(self, *, max_bytes: int = MAX_VALUE_BYTES) -> Any:
        """Return the next JSON value and advance past it."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._position)
            except RecursionError as error:
                raise self.error("the JSON is nested too deeply") from error
            except ValueError as error:
                self._read_on(error, max_bytes)
                continue
            # A number at the end of a piece may continue in the next one.
            is_open = end == len(self._text) and self._text[end - 1] in _NUMBER_CHARS
            if is_open and self._more():
                continue
            if end - self._position > max_bytes:
                raise self._too_long(max_bytes)
            if not self._is_ascii:
                value = self._as_utf8(end)
            self._position = end
            return value

    def error(self, what: str, offset: int | None = None) -> TraceError:
        """Return an error with the problem `what` at `offset`, by default the current position."""
        position = self.offset if offset is None else offset
        return TraceError(
            f"{self.path}: byte {position}: {what}. Nothing of this trace is used; record or export"
            " it again as a Chrome trace (torch.profiler's export_chrome_trace)"
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
            match = pattern.match(self._text, self._position)
            assert match is not None
            self._position = match.end()
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Double the buffered text; return False at the end of the file."""
        waiting = self._text[self._position :]
        piece = self._read(max(_PIECE_BYTES, len(waiting)))
        if not piece:
            return False
        if self._num_read == 0:
            piece_text = piece.removeprefix(_BOM).decode("latin-1")
            self._text_offset = len(piece) - len(piece_text)
        else:
            piece_text = piece.decode("latin-1")
            self._text_offset += self._position
        self._num_read += len(piece)
        if self._num_read > MAX_UNPACKED_BYTES:
            raise self.error(f"the trace is larger than {MAX_UNPACKED_BYTES} bytes")
        self._text = waiting + piece_text
        self._position = 0
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
        """Read more of an incomplete value; raise TraceError for a broken one."""
        if not isinstance(error, json.JSONDecodeError):
            is_long = "int_max_str_digits" in str(error)
            raise self.error("a number has too many digits" if is_long else str(error)) from error
        if len(self._text) - self._position > max_bytes:
            raise self._too_long(max_bytes) from error
        # A value is broken if the text ends in it, or if one of its strings has no end.
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
        return self.error(f"the value that begins here is longer than {counted(max_bytes, 'byte')}")

    def _as_utf8(self, end: int) -> Any:
        raw = self._text[self._position : end].encode("latin-1")
        try:
            return self._decode(raw.decode("utf-8"))[0]
        except UnicodeDecodeError as error:
            raise self.error(f"this is no UTF-8 text: {error.reason}") from error


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event. It is positional, with whole nanoseconds, since there are very many.

    `phase` is the format's letter; only COMPLETE events have a `start_ns` and a `duration_ns`.
    `start_ns` counts from the trace's own zero (Header.base_ns).
    """

    phase: str
    category: str
    name: str
    process: int | str
    thread: int | str
    start_ns: int
    duration_ns: int
    args: Mapping[str, Any]

    @property
    def end_ns(self) -> int:
        """Return when the event ended."""
        return self.start_ns + self.duration_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The header of a trace; a missing value is None or empty.

    `base_ns` is the zero of all times in nanoseconds since 1970 (0: they count from 1970).
    `devices` are the names of the GPUs, `rank` is that of the process among `world_size`.
    """

    base_ns: int = 0
    devices: tuple[str, ...] = ()
    rank: int | None = None
    world_size: int | None = None


@dataclass(slots=True)
class TraceReader:
    """A trace during reading; `header` is complete after the last event."""

    path: Path
    _fields: dict[str, Any] = field(default_factory=dict)

    @property
    def header(self) -> Header:
        """Return the header as far as it was read; raise TraceError for an ill-typed field."""
        try:
            return _header(self._fields)
        except (TypeError, ValueError, OverflowError) as error:
            raise TraceError(
                f"{self.path}: the header of the trace is damaged: {error}. Record the trace again",
                path=self.path,
                reason=str(error),
            ) from error

    def events(self) -> Iterator[TraceEvent]:
        """Yield every event in the order of the file; raise TraceError where it is broken."""
        with JsonStream(self.path) as stream:
            events = _events_of_list(stream) if stream.peek() == "[" else self._of_object(stream)
            yield from events
            if sign := stream.peek():
                raise stream.error(f"the trace has ended, but {sign!r} follows")

    def _of_object(self, stream: JsonStream) -> Iterator[TraceEvent]:
        stream.expect("{")
        has_events = False
        while stream.peek_item() == '"':
            name = stream.take()
            stream.expect(":")
            if name == "traceEvents":
                has_events = True
                yield from _events_of_list(stream)
            else:
                value = stream.take()
                if name in _HEADER_NAMES:
                    self._fields[name] = value
        stream.expect("}")
        if not has_events:
            raise stream.error("the object has no list 'traceEvents'", 0)


def read_events(path: Path) -> Iterator[TraceEvent]:
    """Yield the events of the trace at `path`; raise TraceError where it is broken."""
    return TraceReader(path).events()


def _header(fields: Mapping[str, Any]) -> Header:
    distributed = fields.get("distributedInfo") or {}
    devices = fields.get("deviceProperties") or []
    if not isinstance(distributed, Mapping) or not isinstance(devices, list):
        raise TypeError("'distributedInfo' must be an object and 'deviceProperties' a list")
    names = [item.get("name", "") if isinstance(item, Mapping) else None for item in devices]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("'deviceProperties' must be objects with a text 'name'")
    return Header(
        base_ns=_whole(fields, "baseTimeNanoseconds") or 0,
        devices=tuple(str(name) for name in names),
        rank=_whole(distributed, "rank"),
        world_size=_whole(distributed, "world_size"),
    )


def _whole(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name!r} must be a whole number, got {kind_of(value)}")
    return int(value)


def _events_of_list(stream: JsonStream) -> Iterator[TraceEvent]:
    items = stream.items(max_bytes=MAX_EVENT_BYTES)
    for num_before, (offset, item) in enumerate(items):
        if num_before >= MAX_EVENTS:
            raise stream.error(f"the trace has more than {MAX_EVENTS} events", offset)
        try:
            event = _event(item)
        except (TypeError, ValueError, OverflowError) as error:
            raise stream.error(f"this event is damaged: {error}", offset) from error
        yield event


def _event(item: Any) -> TraceEvent:
    if type(item) is not dict:
        raise TypeError(f"expected an object, got {kind_of(item)}")
    get = item.get
    phase, category, name = get("ph", ""), get("cat", ""), get("name", "")
    if not (type(phase) is type(category) is type(name) is str):
        raise TypeError("'ph', 'cat' and 'name' must be text")
    process, thread, args = get("pid", 0), get("tid", 0), get("args", _EMPTY)
    if not (isinstance(process, int | str) and isinstance(thread, int | str)):
        raise TypeError("'pid' and 'tid' must be whole numbers or text")
    if type(args) is not dict:
        if args is not _EMPTY and args is not None:
            raise TypeError(f"'args' must be an object, got {kind_of(args)}")
        args = _EMPTY
    if phase != COMPLETE:
        return TraceEvent(phase, category, name, process, thread, 0, 0, args)
    start_ns = _time_ns(item, "ts", MAX_START_US)
    # Some profilers write no duration for an event that had not ended.
    duration_ns = _time_ns(item, "dur", MAX_DURATION_US) if "dur" in item else 0
    return TraceEvent(phase, category, name, process, thread, start_ns, duration_ns, args)


def _time_ns(item: Mapping[str, Any], name: str, limit_us: float) -> int:
    """Return the field, which is in microseconds from 0 to the limit, in whole nanoseconds.

    Profilers of other vendors write the number as text, to keep its digits.
    """
    value = item.get(name)
    if type(value) is str and (digits := _DECIMAL.fullmatch(value)):
        whole_us, part = int(digits["whole"]), digits["part"] or "0"
        if whole_us < limit_us:
            return whole_us * 1000 + math.floor(float(f"0.{part}") * 1000 + 0.5)
        value = float(whole_us)
    kind = type(value)
    if kind is not float and kind is not int:
        raise TypeError(f"{name!r} must be a number of microseconds, got {kind_of(value)}")
    assert isinstance(value, int | float)
    # The comparison also refuses infinity and NaN.
    if not 0 <= value < limit_us:
        raise ValueError(f"{name!r} must be from 0 to {limit_us:.0e} microseconds, got {value:.3g}")
    return value * 1000 if isinstance(value, int) else math.floor(value * 1000 + 0.5)
