"""Shapes that a benchmark record states, besides those that the benchmark's settings imply.

A record has one shape for all of its values, or a list of shapes that runs parallel to them. A list
of numbers is the shape of one tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.runner.interop.importers.vocabulary import clean_part

SHAPE_KEYS = frozenset(("shape", "shapes", "input_shape", "input_shapes"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordShapes:
    """The shapes of a record: `parallel` has one for each value, `common` is one for all.

    `is_unread` means that a list of shapes has another length than the values.
    """

    parallel: Sequence[str] = ()
    common: str = ""
    is_unread: bool = False


_NO_SHAPES = RecordShapes()


def shapes_of(record: Mapping[str, Any]) -> RecordShapes:
    """Return the shapes of `record`; raise RecordError where a part of it has another form."""
    metric = get_mapping(record, "metric")
    own = (record, metric, get_mapping(metric, "extra_info"))
    of_benchmark = get_mapping(get_mapping(record, "benchmark"), "extra_info")
    # Most records have none, and a file has millions of records.
    if all(SHAPE_KEYS.isdisjoint(fields) for fields in (*own, of_benchmark)):
        return _NO_SHAPES
    stated = [fields[key] for fields in own for key in sorted(SHAPE_KEYS & fields.keys())]
    settings = [of_benchmark[key] for key in sorted(SHAPE_KEYS & of_benchmark.keys())]
    lists = [value for value in (*stated, *settings) if is_shape_list(value)]
    num_values = len(get_list(metric, "benchmark_values"))
    parallel = next((value for value in lists if len(value) == num_values), ())
    return RecordShapes(
        parallel=[_text(entry) for entry in parallel],
        common=next(
            (text for value in stated if not is_shape_list(value) and (text := _text(value))), ""
        ),
        is_unread=bool(lists) and not parallel,
    )


def is_shape_list(value: Any) -> bool:
    """Return whether `value` is a list of shapes, each a text or a list of sizes."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(entry, str | list) and _text(entry) for entry in value)
    )


def with_shape(known: str, shape: str) -> str:
    """Return the shape of a case whose other facts say `known`."""
    return clean_part(shape if known in ("", "default") else f"{known}-{shape}")


def _text(value: Any) -> str:
    """Return a shape as text, empty for anything else."""
    if isinstance(value, list):
        is_flat = all(isinstance(size, str | int | float) for size in value)
        return f"({', '.join(map(str, value))})" if value and is_flat else ""
    return value.strip() if isinstance(value, str) else ""
