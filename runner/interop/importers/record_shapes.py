"""Shapes in a benchmark record outside of the benchmark's own facts.

A record has one shape for all of its values, or a list of shapes that runs parallel to them. A list
of numbers is the shape of one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.runner.interop.importers.vocabulary import clean_part

_KEYS = ("shape", "shapes", "input_shape", "input_shapes")


def parallel_shapes(record: Mapping[str, Any]) -> list[str]:
    """Return a shape for each value of `record`, empty where its values are of one shape."""
    num_values = len(get_list(get_mapping(record, "metric"), "benchmark_values"))
    for value in (*_stated(record), *_of_benchmark(record)):
        if is_shape_list(value) and len(value) == num_values:
            return [_text(entry) for entry in value]
    return []


def has_unread_shapes(record: Mapping[str, Any]) -> bool:
    """Return whether `record` has a list of shapes, but not one for each value."""
    lists = [item for item in (*_stated(record), *_of_benchmark(record)) if is_shape_list(item)]
    return bool(lists) and not parallel_shapes(record)


def stated_shape(record: Mapping[str, Any]) -> str:
    """Return the shape of all values of `record`, empty where it states none of its own."""
    shapes = (_text(value) for value in _stated(record) if not is_shape_list(value))
    return next(filter(None, shapes), "")


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


def _stated(record: Mapping[str, Any]) -> Iterator[Any]:
    metric = get_mapping(record, "metric")
    for fields in (record, metric, get_mapping(metric, "extra_info")):
        yield from (fields[key] for key in _KEYS if key in fields)


def _of_benchmark(record: Mapping[str, Any]) -> Iterator[Any]:
    about = get_mapping(get_mapping(record, "benchmark"), "extra_info")
    yield from (about[key] for key in _KEYS if key in about)


def _text(value: Any) -> str:
    if isinstance(value, list):
        is_flat = all(isinstance(size, str | int | float) for size in value)
        return f"({', '.join(map(str, value))})" if value and is_flat else ""
    return value.strip() if isinstance(value, str) else ""
