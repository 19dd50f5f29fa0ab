"""The events of a Chrome trace, as torch.profiler writes them, without loading the file whole.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (an object
with a list `traceEvents`, or the bare list; times in microseconds).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compile_hud.db.records.json_fields import kind_of
from compile_hud.runner.errors import TraceError
from compile_hud.runner.traces.chrome_trace import JsonStream

# An event with a deep Python stack takes some ten thousand bytes.
MAX_EVENT_BYTES = 1 << 20
# What reads them keeps at most 250 bytes an event: 1.3 GB.
MAX_EVENTS = 5_000_000
# Since 1970, in the year 2096: ends fit into 64 bits of nanoseconds, whatever is added to them.
MAX_START_US = 4e15
# Eleven days; profiles last minutes.
MAX_DURATION_US = 1e12
# An event with a beginning and a duration; all others only describe or connect these.
COMPLETE = "X"
_EMPTY: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Positional, and with whole nanoseconds, since there are very many.

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
    """What the trace says about itself; None and empty where it does not say it.

    `base_ns` is the zero of all times in nanoseconds since 1970 (0: they count from 1970),
    `devices` the names of the GPUs, `rank` that of the process among `world_size`.
    """

    base_ns: int = 0
    devices: tuple[str, ...] = ()
    rank: int | None = None
    world_size: int | None = None


@dataclass(slots=True)
class TraceReader:
    """A trace that is being read; `header` is whole once the last event has been read."""

    path: Path
    _fields: dict[str, Any] = field(default_factory=dict)

    @property
    def header(self) -> Header:
        """Return what has been read of the header; raise TraceError when a field is ill-typed."""
        try:
            return _header(self._fields)
        except (TypeError, ValueError, OverflowError) as error:
            raise TraceError(
                f"{self.path}: the header of the trace is damaged: {error}. Record the trace again"
            ) from error

    def events(self) -> Iterator[Event]:
        """Yield every event in the order of the file; raise TraceError where it is broken."""
        with JsonStream(self.path) as stream:
            found = _events_of_list(stream) if stream.peek() == "[" else self._of_object(stream)
            yield from found
            if sign := stream.peek():
                raise stream.error(f"the trace has ended, but {sign!r} follows")

    def _of_object(self, stream: JsonStream) -> Iterator[Event]:
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


_HEADER_NAMES = {"baseTimeNanoseconds", "deviceProperties", "distributedInfo"}


def read_events(path: Path) -> Iterator[Event]:
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


def _events_of_list(stream: JsonStream) -> Iterator[Event]:
    items = stream.items(max_bytes=MAX_EVENT_BYTES)
    for num_before, (offset, item) in enumerate(items):
        if num_before >= MAX_EVENTS:
            raise stream.error(f"the trace has more than {MAX_EVENTS} events", offset)
        try:
            event = _event(item)
        except (TypeError, ValueError) as error:
            raise stream.error(f"this event is damaged: {error}", offset) from error
        yield event


def _event(item: Any) -> Event:
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
        return Event(phase, category, name, process, thread, 0, 0, args)
    start_ns = _time_ns(item, "ts", MAX_START_US)
    duration_ns = _time_ns(item, "dur", MAX_DURATION_US)
    return Event(phase, category, name, process, thread, start_ns, duration_ns, args)


def _time_ns(item: Mapping[str, Any], name: str, limit_us: float) -> int:
    """Return the field, which is in microseconds from 0 to the limit, in whole nanoseconds."""
    value = item.get(name)
    kind = type(value)
    if kind is not float and kind is not int:
        raise TypeError(f"{name!r} must be a number of microseconds, got {kind_of(value)}")
    assert isinstance(value, int | float)
    # Also refuses what is not finite.
    if not 0 <= value < limit_us:
        raise ValueError(f"{name!r} must be from 0 to {limit_us:.0e} microseconds, got {value:.3g}")
    return value * 1000 if isinstance(value, int) else math.floor(value * 1000 + 0.5)
