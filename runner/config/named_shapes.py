"""The shapes that hud.toml names: their models and their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product

from compile_hud.db.errors import CodedError
from compile_hud.models_zoo.catalog.shapes import (
    AXES,
    ZOO_SIZES,
    UnfitShapeError,
    name_of,
    split_name,
    vary,
)
from compile_hud.models_zoo.catalog.spec import ModelSpec, NamedShape, near_names
from compile_hud.runner.planning.suites import AUTO_SHAPE, NIGHTLY_SHAPES

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class NamedShapeError(CodedError, ValueError):
    """An invalid `[shapes.NAME]`; `key` is the faulty setting, None for all of it."""

    def __init__(self, message: str, /, *, key: str | None = None, **parameters: object) -> None:
        super().__init__(message, **parameters)
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRule:
    """A `[shapes.NAME]`: the size of some models along axes, with one or several values each.

    `axes` has the values by axis key. `lists` are the axes whose setting is a list; the names of
    the shapes contain their values.
    """

    name: str
    size: str
    models: tuple[str, ...]
    is_tracked: bool
    axes: Mapping[str, tuple[int, ...]]
    lists: frozenset[str]

    def points(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield the name and the values of each shape of this rule."""
        for values in product(*self.axes.values()):
            point = dict(zip(self.axes, values, strict=True))
            listed = {key: value for key, value in point.items() if key in self.lists}
            yield f"{self.name}{name_of(listed)}", point


def with_shapes(catalog: Mapping[str, ModelSpec], rule: ShapeRule) -> dict[str, ModelSpec]:
    """Return `catalog` whose models have the shapes of `rule` too; raise NamedShapeError."""
    _check(rule, catalog=catalog)
    return {**catalog, **_having(rule, catalog=catalog)}


def _check(rule: ShapeRule, *, catalog: Mapping[str, ModelSpec]) -> None:
    sizes = {size for spec in catalog.values() for size in spec.sizes}
    if _NAME.fullmatch(rule.name) is None:
        raise NamedShapeError(
            "a name begins with a letter and has letters, digits, _ . - alone",
            name=rule.name,
            problem="characters",
        )
    if rule.name in {*sizes, *ZOO_SIZES, AUTO_SHAPE, NIGHTLY_SHAPES}:
        raise NamedShapeError(
            f"{rule.name!r} means something else already; choose another name",
            name=rule.name,
            problem="reserved",
        )
    if _ends_with_axes(rule.name):
        raise NamedShapeError(
            "a name that ends like `-b8` is that of a size; choose another name",
            name=rule.name,
            problem="like-a-size",
        )
    if not rule.axes:
        keys = ", ".join(axis.key for axis in AXES)
        raise NamedShapeError(f"names no axis; give one or more of {keys}", problem="no-axis")
    for pattern in rule.models:
        if not any(fnmatchcase(name, pattern) for name in catalog):
            near = near_names(pattern, catalog)
            suggestion = f"; did you mean {near}?" if near else ""
            raise NamedShapeError(
                f"no model matches {pattern!r}{suggestion}", key="models", model=pattern
            )


def _ends_with_axes(name: str) -> bool:
    try:
        return bool(split_name(name)[1])
    except UnfitShapeError:
        return True


def _having(rule: ShapeRule, *, catalog: Mapping[str, ModelSpec]) -> dict[str, ModelSpec]:
    """Return the models of `catalog` that the shapes of `rule` apply to, with these shapes."""
    changed: dict[str, ModelSpec] = {}
    problems = []
    for name, spec in catalog.items():
        if not any(fnmatchcase(name, pattern) for pattern in rule.models):
            continue
        for shape, values in rule.points():
            try:
                if rule.size not in spec.sizes:
                    raise UnfitShapeError(
                        f"has no size {rule.size!r}; it has {_list(spec.sizes)}",
                        size=rule.size,
                    )
                named = NamedShape(
                    size=vary(spec.sizes[rule.size], values), is_tracked=rule.is_tracked
                )
            except UnfitShapeError as error:
                # A glob means the models that have such a shape.
                if name in rule.models:
                    facts = {"model": name, **error.parameters}
                    raise NamedShapeError(f"{name} {error}", key=None, **facts) from error
                problems.append(f"{name} {error}")
                continue
            before = changed.get(name, spec)
            changed[name] = replace(before, shapes={**before.shapes, shape: named})
    if not changed:
        raise NamedShapeError(f"no model has such a shape: {problems[0]}")
    return changed


def _list(names: Mapping[str, object]) -> str:
    return ", ".join(names)
