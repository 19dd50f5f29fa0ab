"""The models and shapes that a selection names: by name, by tag, without its exclusions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase

from compile_hud.models_zoo.catalog.catalog import find_models, find_size
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.shapes import ZOO_SIZES
from compile_hud.models_zoo.catalog.spec import ModelSpec, near_names
from compile_hud.models_zoo.catalog.tags import tags_of
from compile_hud.runner.planning.suites import AUTO_SHAPE, NIGHTLY_SHAPES, Selection

SHAPES_BY_DEVICE = {"cpu": "small", "cuda": "full"}


def choose_shapes(
    specs: Sequence[ModelSpec], *, selection: Selection, device: str
) -> dict[str, tuple[str, ...]]:
    """Return the shapes of `selection` on `device` by model name, without duplicates.

    A model that the selection names in full must have every named shape. A model that matches a
    glob may lack one. Raises UnknownNameError for a missing shape, and for one that no model has.
    """
    chosen: dict[str, dict[str, None]] = {spec.name: {} for spec in specs}
    for pattern in selection.shapes:
        errors = {}
        for spec in specs:
            try:
                names = _matching(spec, pattern, device=device)
            except UnknownNameError as error:
                errors[spec.name] = error
            else:
                chosen[spec.name].update(dict.fromkeys(names))
        named = [] if _is_glob(pattern) else [name for name in errors if name in selection.models]
        if named or (errors and len(errors) == len(specs)):
            raise errors[next(iter(named or errors))]
    return {name: tuple(shapes) for name, shapes in chosen.items()}


def _matching(spec: ModelSpec, pattern: str, *, device: str) -> list[str]:
    """Return the names of the shapes of `spec` that `pattern` means; raise UnknownNameError."""
    # A model from hud.toml has one size under any name, so every size name means that one.
    if len(spec.sizes) == 1 and pattern in (AUTO_SHAPE, *ZOO_SIZES):
        return list(spec.sizes)
    if pattern == AUTO_SHAPE:
        usual = SHAPES_BY_DEVICE[device]
        return [usual if usual in spec.sizes else next(iter(spec.sizes))]
    if pattern == NIGHTLY_SHAPES:
        return _tracked(spec)
    # `*` leaves out on-demand shapes: a user selects them by name.
    named = _tracked(spec) if pattern == "*" else list(spec.shapes)
    matches = [name for name in (*spec.sizes, *named) if fnmatchcase(name, pattern)]
    if not matches:
        find_size(spec, pattern)
    return matches or [pattern]


def _tracked(spec: ModelSpec) -> list[str]:
    return [name for name, shape in spec.shapes.items() if shape.is_tracked]


def _is_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")


def choose_models(
    selection: Selection, *, catalog: Mapping[str, ModelSpec]
) -> tuple[ModelSpec, ...]:
    """Return the models of `selection`: named, with any of its tags if it has some, not excluded.

    Raises UnknownNameError for a name or a tag that matches nothing, and when no model is left.
    """
    named = find_models(selection.models, catalog=catalog)
    tags = dict.fromkeys(tag for spec in (*catalog.values(), *named) for tag in tags_of(spec))
    _check(selection.tags, known=tags, kind="tag")
    _check(
        selection.exclude, known={**catalog, **{spec.name: spec for spec in named}}, kind="model"
    )
    chosen = tuple(
        spec
        for spec in named
        if (not selection.tags or _matches(tags_of(spec), selection.tags))
        and not _matches([spec.name], selection.exclude)
    )
    if not chosen:
        tagged = f" tagged {' or '.join(selection.tags)}" if selection.tags else ""
        without = " that is not excluded" if selection.exclude else ""
        raise UnknownNameError(
            f"nothing to measure: of {', '.join(spec.name for spec in named)} there is no model"
            f"{tagged}{without}. `hud list models` shows the tags of each.",
            tags=tuple(selection.tags),
            exclude=tuple(selection.exclude),
        )
    return chosen


def _matches(names: Collection[str], patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _check(patterns: Collection[str], *, known: Collection[str], kind: str) -> None:
    for pattern in patterns:
        if not _matches(known, [pattern]):
            near = near_names(pattern, known)
            suggestion = f" Did you mean {near}?" if near else ""
            raise UnknownNameError(
                f"no {kind} matches {pattern!r}.{suggestion} `hud list models` shows them.",
                kind=kind,
                name=pattern,
                near=near,
            )
