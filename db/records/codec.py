"""The JSON form of a record, by the types of its fields.

Only the standard library is needed, on Python 3.10 or newer: the worker runs in other people's
environments. A type may name its own reader, as in `Annotated[str, get_name]`.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from compile_hud.db.records.json_fields import (
    get_bounds,
    get_count,
    get_counts,
    get_flag,
    get_list,
    get_mapping,
    get_member,
    get_name,
    get_number,
    get_numbers,
    get_quantities,
    get_quantity,
    get_text,
    get_texts,
    get_time,
    get_value,
    get_whole_numbers,
    time_to_json,
)

# A text that the store can save and look up.
Name = Annotated[str, get_name]
# A number that a measurement can have, and several of them.
Quantity = Annotated[float, get_quantity]
Quantities = Annotated[tuple[float, ...], get_quantities]
Bounds = Annotated[tuple[float, float], get_bounds]
Counts = Annotated[tuple[int, ...], get_counts]

# The key of a field's metadata that has its name in JSON, if that differs.
JSON_NAME = "json"

_MISSING = object()
_Record = TypeVar("_Record")
# It takes an object and the name of one of its fields, as `get_text` does.
_Reader = Callable[[Any, str], Any]
_Writer = Callable[[Any], Any]
_READERS: Mapping[Any, _Reader] = {
    str: get_text,
    float: get_number,
    int: get_count,
    bool: get_flag,
    datetime: get_time,
    Path: lambda document, name: Path(get_text(document, name)),
    Any: get_value,
}
_WRITERS: Mapping[Any, _Writer] = {datetime: time_to_json, Path: str}
# The readers of lists of these.
_ITEMS: Mapping[Any, _Reader] = {
    Any: lambda document, name: tuple(get_list(document, name)),
    str: get_texts,
    int: get_whole_numbers,
    float: get_numbers,
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """A field of a record.

    `write` is None if JSON has its value unchanged. A value of the type `plain` is read unchanged.
    """

    name: str
    json_name: str
    read: _Reader
    write: _Writer | None
    has_default: bool
    plain: Any


class JsonRecord:
    """A dataclass whose JSON object has its fields, in their order."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return encode(self)

    @classmethod
    def from_json(cls: type[_Record], document: Any) -> _Record:
        """Return the record that `document` describes; raise RecordError for an invalid one."""
        return decode(cls, document)


def encode(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as a JSON object."""
    kind: Any = type(record)
    document = {}
    for item in _fields(kind):
        value = getattr(record, item.name)
        document[item.json_name] = value if item.write is None else item.write(value)
    return document


def decode(kind: type[_Record], document: Any, **given: Any) -> _Record:
    """Return the dataclass of `kind` that `document` describes; raise RecordError.

    A missing field has its default. Without one, a list, an object and what may be None are empty.
    The caller has read the fields in `given`.
    """
    any_kind: Any = kind
    known = _fields(any_kind)
    if type(document) is not dict and not isinstance(document, Mapping):
        get_value(document, known[0].json_name)
    for item in known:
        value = document.get(item.json_name, _MISSING)
        # An import reads a million fields: the usual ones are not worth a call.
        if type(value) is item.plain:
            given.setdefault(item.name, value)
        elif item.name not in given and not (value is _MISSING and item.has_default):
            given[item.name] = item.read(document, item.json_name)
    return kind(**given)


@functools.cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple(
        _Field(
            name=item.name,
            json_name=item.metadata.get(JSON_NAME, item.name),
            read=_reader(hints[item.name]),
            write=_writer(hints[item.name]),
            has_default=item.default is not dataclasses.MISSING
            or item.default_factory is not dataclasses.MISSING,
            plain=hints[item.name] if hints[item.name] in (str, float, bool) else None,
        )
        for item in dataclasses.fields(kind)
    )


def _reader(hint: Any) -> _Reader:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        reader: _Reader = arguments[1]
        return reader
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_read_optional, _reader(arguments[0]))
    if origin is typing.Literal:
        return get_text
    if origin is tuple:
        return _ITEMS.get(arguments[0]) or functools.partial(_read_items, _maker(arguments[0]))
    if origin is not None:
        value = arguments[1]
        return get_mapping if value is Any else functools.partial(_read_values, _reader(value))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return functools.partial(_read_member, hint)
    return _READERS.get(hint) or functools.partial(_read_record, _maker(hint))


def _writer(hint: Any) -> _Writer | None:
    """Return the writer of a type, None if JSON has its values unchanged."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _writer(arguments[0])
    if origin in (types.UnionType, typing.Union):
        write = _writer(arguments[0])
        return write and functools.partial(_write_optional, write)
    if origin is tuple:
        write = _writer(arguments[0])
        return list if write is None else functools.partial(_write_items, write)
    if origin is not None and origin is not typing.Literal:
        write = _writer(arguments[1])
        return dict if write is None else functools.partial(_write_values, write)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return str
    if dataclasses.is_dataclass(hint):
        return getattr(hint, "to_json", encode)
    return _WRITERS.get(hint)


def _maker(kind: Any) -> Callable[[Any], Any]:
    """Return the function that makes a record: `from_json` if the class has it."""
    return getattr(kind, "from_json", None) or functools.partial(decode, kind)


def _read_optional(read: _Reader, document: Any, name: str) -> Any:
    return None if get_value(document, name, default=None) is None else read(document, name)


def _read_items(make: Callable[[Any], Any], document: Any, name: str) -> tuple[Any, ...]:
    return tuple(map(make, get_list(document, name)))


def _read_values(read: _Reader, document: Any, name: str) -> dict[str, Any]:
    values = get_mapping(document, name)
    return {key: read(values, key) for key in values}


def _read_record(make: Callable[[Any], Any], document: Any, name: str) -> Any:
    return make(get_value(document, name))


def _read_member(kind: type[Enum], document: Any, name: str) -> Any:
    return get_member(document, name, kind)


def _write_optional(write: _Writer, value: Any) -> Any:
    return None if value is None else write(value)


def _write_items(write: _Writer, values: Any) -> list[Any]:
    return [write(value) for value in values]


def _write_values(write: _Writer, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: write(value) for name, value in values.items()}
