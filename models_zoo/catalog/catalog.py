"""The models that are measured. Nothing here needs torch.

`rows/` has one row each. Tests build the size `tiny`, a CPU measures `small` in minutes, and `full`
is the published model. README.md in this folder names the source of each `full` configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from compile_hud.models_zoo.catalog.architecture_search import candidate_models
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.models_zoo.catalog.providers import provided_models
from compile_hud.models_zoo.catalog.rows import (
    decoders,
    encoder_decoders,
    encoders,
    image_generation,
    kernels,
    other,
    vision,
)
from compile_hud.models_zoo.catalog.shapes import UnfitShapeError, split_name, vary
from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec, near_names

_TABLES = (encoders, decoders, encoder_decoders, vision, image_generation, other, kernels)
CATALOG: dict[str, ModelSpec] = {row.name: row for table in _TABLES for row in table.ROWS}


def find_models(
    patterns: Sequence[str], *, catalog: Mapping[str, ModelSpec] = CATALOG
) -> tuple[ModelSpec, ...]:
    """Return the models whose name matches any glob of `patterns`, in the order of `catalog`.

    Models of providers, which are in no catalog, come last. Raises UnknownNameError for a pattern
    that matches nothing.
    """
    known = with_provided(catalog, names=patterns)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UnknownNameError(
                f"no model matches {pattern!r}.{_suggestion(pattern, catalog)}"
                f" `hud list models` shows all {len(catalog)}.",
                model=pattern,
                near=near_names(pattern, catalog),
            )
    return tuple(
        spec
        for name, spec in known.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def with_provided(
    catalog: Mapping[str, ModelSpec], *, names: Iterable[str]
) -> Mapping[str, ModelSpec]:
    """Return `catalog` with those of `names` that are architectures or models of a provider.

    Raises UnknownNameError for a glob of a provider's models, and for an invalid architecture.
    """
    lacking = [name for name in names if name not in catalog]
    return {**catalog, **candidate_models(lacking), **provided_models(lacking)}


def find_size(spec: ModelSpec, shape: str) -> SizeSpec:
    """Return the shape of `spec` with the name `shape`, such as `small`, or `small-b8-l128`.

    Raises UnknownNameError for an unknown name or axis.
    """
    if shape in spec.shapes:
        return spec.shapes[shape].size
    size, values = (shape, {}) if shape in spec.sizes else split_name(shape)
    if size not in spec.sizes:
        known = dict.fromkeys((*spec.sizes, *spec.shapes))
        raise UnknownNameError(
            f"model {spec.name!r} has no shape {shape!r}.{_suggestion(shape, known)}"
            f" It has {', '.join(known)}.",
            model=spec.name,
            shape=shape,
            known=tuple(known),
        )
    try:
        return vary(spec.sizes[size], values) if values else spec.sizes[size]
    except UnfitShapeError as error:
        raise UnfitShapeError(
            f"model {spec.name!r} has no shape {shape!r}: {size} {error}.",
            model=spec.name,
            shape=shape,
            **error.parameters,
        ) from error


def _suggestion(name: str, names: Mapping[str, object]) -> str:
    near = near_names(name, names)
    return f" Did you mean {near}?" if near else ""
