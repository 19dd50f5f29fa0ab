"""The shapes that hud.toml names: their models and their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import product
from typing import Annotated, Any

from pydantic import Field

from compile_hud.models_zoo.catalog.shapes import (
    AXES,
    ZOO_SIZES,
    UnfitShapeError,
    name_of,
    split_name,
    vary,
)
from compile_hud.models_zoo.catalog.spec import ModelSpec, NamedShape, near_names
from compile_hud.runner.config.section import ConfigSection, SectionError, Unit
from compile_hud.runner.config.value_types import Counts, Flag, Text, Texts
from compile_hud.runner.planning.suites import AUTO_SHAPE, NIGHTLY_SHAPES

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def _axis(key: str) -> Any:
    letter = next(axis.letter for axis in AXES if axis.key == key)
    return Field(None, description=f"Axis `{letter}`: its value, or a list for a shape of each.")


class ShapeSection(ConfigSection):
    size: Text = Field(
        description="Size that the [shape](#shapes) is made of: `tiny`, `small`, `full`."
    )
    models: Texts = Field(
        ("*",), description="Globs of the models that have it, as far as they have its axes."
    )
    batch: Annotated[Counts | None, Unit("sample")] = _axis("batch")
    length: Annotated[Counts | None, Unit("token")] = _axis("length")
    source_length: Annotated[Counts | None, Unit("token")] = _axis("source_length")
    target_length: Annotated[Counts | None, Unit("token")] = _axis("target_length")
    cache_length: Annotated[Counts | None, Unit("token")] = _axis("cache_length")
    image_size: Annotated[Counts | None, Unit("pixel")] = _axis("image_size")
    nightly: Flag = Field(
        False,
        description="Whether the suite `nightly` measures it; else it is measured when named.",
    )

    @property
    def axes(self) -> dict[str, int | tuple[int, ...]]:
        """Return the values that the section has, by the key of the axis."""
        values = {axis.key: getattr(self, axis.key) for axis in AXES}
        return {key: value for key, value in values.items() if value is not None}

    def points(self, name: str) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield the name and the values of each shape; names contain the values of lists."""
        axes = self.axes
        choices = [value if isinstance(value, tuple) else (value,) for value in axes.values()]
        for values in product(*choices):
            point = dict(zip(axes, values, strict=True))
            listed = {key: point[key] for key, value in axes.items() if isinstance(value, tuple)}
            yield f"{name}{name_of(listed)}", point


def with_shapes(
    catalog: Mapping[str, ModelSpec], name: str, rule: ShapeSection
) -> dict[str, ModelSpec]:
    """Return `catalog` whose models have the shapes of `rule` too; raise SectionError."""
    _check(name, rule, catalog=catalog)
    return {**catalog, **_having(name, rule, catalog=catalog)}


def _check(name: str, rule: ShapeSection, *, catalog: Mapping[str, ModelSpec]) -> None:
    sizes = {size for spec in catalog.values() for size in spec.sizes}
    if _NAME.fullmatch(name) is None:
        raise SectionError("a name begins with a letter and has letters, digits, _ . - alone")
    if name in {*sizes, *ZOO_SIZES, AUTO_SHAPE, NIGHTLY_SHAPES}:
        raise SectionError(f"{name!r} means something else already; choose another name")
    if _ends_with_axes(name):
        raise SectionError("a name that ends like `-b8` is that of a size; choose another name")
    if not rule.axes:
        keys = ", ".join(axis.key for axis in AXES)
        raise SectionError(f"names no axis; give one or more of {keys}")
    for pattern in rule.models:
        if not any(fnmatchcase(model, pattern) for model in catalog):
            near = near_names(pattern, catalog)
            suggestion = f"; did you mean {near}?" if near else ""
            raise SectionError(f"no model matches {pattern!r}{suggestion}", key="models")


def _ends_with_axes(name: str) -> bool:
    try:
        return bool(split_name(name)[1])
    except UnfitShapeError:
        return True


def _having(
    name: str, rule: ShapeSection, *, catalog: Mapping[str, ModelSpec]
) -> dict[str, ModelSpec]:
    """Return the models of `catalog` that the shapes of `rule` apply to, with these shapes."""
    changed: dict[str, ModelSpec] = {}
    problems = []
    for model, spec in catalog.items():
        if not any(fnmatchcase(model, pattern) for pattern in rule.models):
            continue
        for shape, values in rule.points(name):
            try:
                if rule.size not in spec.sizes:
                    sizes = ", ".join(spec.sizes)
                    raise UnfitShapeError(f"has no size {rule.size!r}; it has {sizes}")
                named = NamedShape(
                    size=vary(spec.sizes[rule.size], values), is_tracked=rule.nightly
                )
            except UnfitShapeError as error:
                # A glob means the models that have such a shape.
                if model in rule.models:
                    raise SectionError(f"{model} {error}") from error
                problems.append(f"{model} {error}")
                continue
            before = changed.get(model, spec)
            changed[model] = replace(before, shapes={**before.shapes, shape: named})
    if not changed:
        raise SectionError(f"no model has such a shape: {problems[0]}")
    return changed
