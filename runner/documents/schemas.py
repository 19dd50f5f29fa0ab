"""JSON schemas of records, by the types of their fields, as the codec writes them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from compile_hud.db.records.codec import JSON_NAME, JsonRecord

_PLAIN: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    Path: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseObject:
    """An object of a response: the fields of `record` but `without`, and further ones.

    Without a record only the fields in `has` are described.
    """

    name: str
    description: str
    record: type | None = None
    without: tuple[str, ...] = ()
    has: Mapping[str, Any] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the object."""
        fields = {} if self.record is None else _properties(self.record)
        properties = {name: item for name, item in fields.items() if name not in self.without}
        properties |= {name: schema_of(hint) for name, hint in self.has.items()}
        return {
            "type": "object",
            "description": self.description,
            "properties": properties,
            "required": list(properties),
        }


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a value of the type `hint`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return schema_of(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [schema_of(item) for item in arguments if item is not type(None)] + _NULL}
    if origin is typing.Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (tuple, list):
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is not None:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [str(member) for member in hint]}
    if dataclasses.is_dataclass(hint):
        return _record_schema(hint)
    return dict(_PLAIN[hint])


_NULL: list[dict[str, Any]] = [{"type": "null"}]


def _record_schema(kind: Any) -> dict[str, Any]:
    writes_itself = getattr(kind, "to_json", JsonRecord.to_json) is not JsonRecord.to_json
    if writes_itself:
        return {"type": "object"}
    properties = _properties(kind)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _properties(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        item.metadata.get(JSON_NAME, item.name): schema_of(hints[item.name])
        for item in dataclasses.fields(kind)
    }
