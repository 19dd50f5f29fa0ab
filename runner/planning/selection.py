"""Which shapes of which models a selection means."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from compile_hud.models_zoo.catalog.catalog import find_size
from compile_hud.models_zoo.catalog.shapes import ZOO_SIZES
from compile_hud.models_zoo.catalog.spec import ModelSpec, UnknownNameError
from compile_hud.runner.planning.suites import AUTO_SHAPE, NIGHTLY_SHAPES, Selection

SHAPES_BY_DEVICE = {"cpu": "small", "cuda": "full"}


def choose_shapes(
    specs: Sequence[ModelSpec], *, selection: Selection, device: str
) -> dict[str, tuple[str, ...]]:
    """Return by the name of each model the shapes that `selection` means on `device`, each once.

    A model that is named in full has every shape that is; one that a glob found is left out of
    those that it does not have. Raises UnknownNameError for a shape that a model must have and has
    not, and for one that no model has.
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
    # A model from hud.toml has one size, whatever it is called: that one is meant.
    if len(spec.sizes) == 1 and pattern in (AUTO_SHAPE, *ZOO_SIZES):
        return list(spec.sizes)
    if pattern == AUTO_SHAPE:
        usual = SHAPES_BY_DEVICE[device]
        return [usual if usual in spec.sizes else next(iter(spec.sizes))]
    if pattern == NIGHTLY_SHAPES:
        return _tracked(spec)
    # What is there on demand is not asked for by asking for everything.
    named = _tracked(spec) if pattern == "*" else list(spec.shapes)
    found = [name for name in (*spec.sizes, *named) if fnmatchcase(name, pattern)]
    if not found:
        find_size(spec, pattern)
    return found or [pattern]


def _tracked(spec: ModelSpec) -> list[str]:
    return [name for name, shape in spec.shapes.items() if shape.is_tracked]


def _is_glob(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")
