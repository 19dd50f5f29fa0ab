"""Records are read and written by the types of their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.records.codec import JSON_NAME, Bounds, JsonRecord, Name, Quantity
from compile_hud.db.records.string_enum import StrEnum


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    count: int
    share: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(JsonRecord):
    name: Name
    colour: Colour
    at: datetime
    folder: Path
    bounds: Bounds
    inner: Inner
    items: tuple[Inner, ...]
    facts: Mapping[str, Any]
    by_name: Mapping[str, Inner]
    axes: tuple[int, ...] = (0,)
    words: tuple[str, ...] = field(default=(), metadata={JSON_NAME: "texts"})
    is_cut: bool = False
    ended_at: datetime | None = None


OUTER = Outer(
    name="a",
    colour=Colour.RED,
    at=datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=1))),
    folder=Path("/srv"),
    bounds=(0.5, 1.5),
    inner=Inner(count=2),
    items=(Inner(count=1, share=0.5), Inner(count=0)),
    facts={"k": [1, None]},
    by_name={"x": Inner(count=3)},
    axes=(-1, 2),
    words=("b",),
    is_cut=True,
)
DOCUMENT: dict[str, Any] = {
    "name": "a",
    "colour": "red",
    "at": "2026-01-02T02:00:00+00:00",
    "folder": "/srv",
    "bounds": [0.5, 1.5],
    "inner": {"count": 2, "share": None},
    "items": [{"count": 1, "share": 0.5}, {"count": 0, "share": None}],
    "facts": {"k": [1, None]},
    "by_name": {"x": {"count": 3, "share": None}},
    "axes": [-1, 2],
    "texts": ["b"],
    "is_cut": True,
    "ended_at": None,
}


def test_a_record_has_its_fields_in_order() -> None:
    assert json.dumps(OUTER.to_json()) == json.dumps(DOCUMENT)
    assert Outer.from_json(DOCUMENT) == OUTER


def test_missing_fields_have_their_defaults_and_lists_are_empty() -> None:
    given = {name: DOCUMENT[name] for name in ("name", "colour", "at", "folder", "bounds", "inner")}
    record = Outer.from_json(given)
    assert (record.items, record.facts, record.by_name) == ((), {}, {})
    assert (record.axes, record.words, record.is_cut, record.ended_at) == ((0,), (), False, None)


@pytest.mark.parametrize(
    ("changes", "field_name"),
    [
        ({"name": "\0"}, "name"),
        ({"name": 1}, "name"),
        ({"colour": "blue"}, "colour"),
        ({"at": "2026-01-02T02:00:00"}, "at"),
        ({"folder": None}, "folder"),
        ({"bounds": [1.0]}, "bounds"),
        ({"inner": []}, "count"),
        ({"inner": {"count": -1}}, "count"),
        ({"inner": {"count": 1.5}}, "count"),
        ({"items": {}}, "items"),
        ({"items": [{"share": 0.5}]}, "count"),
        ({"facts": []}, "facts"),
        ({"by_name": {"x": 1}}, "count"),
        ({"axes": [1.5]}, "axes"),
        ({"texts": [1]}, "texts"),
        ({"is_cut": "yes"}, "is_cut"),
        ({"ended_at": 1}, "ended_at"),
    ],
)
def test_errors_name_the_field(changes: Mapping[str, Any], field_name: str) -> None:
    with pytest.raises(RecordError) as raised:
        Outer.from_json({**DOCUMENT, **changes})
    assert repr(field_name) in str(raised.value)


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_only_an_object_is_a_record(document: Any) -> None:
    with pytest.raises(RecordError) as raised:
        Outer.from_json(document)
    assert raised.value.parameters["expected"] == "an object"
