"""Models outside of the zoo: those of hud.toml, and those of installed packages.

A package offers a model by an entry point of the group `compile_hud.models`: its name is the
model's, its value the build string. This module imports nothing of the package. The worker does,
under the toolchain's interpreter.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.shapes import make_size
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.planning.suites import AUTO_SHAPE, NIGHTLY_SHAPES

logger = logging.getLogger(__name__)

ENTRY_POINTS = "compile_hud.models"
OWN_FAMILY = "own"
# The only size of a model that names none.
OWN_SHAPE = "default"
# A name is part of a case's key, where `/` parts, and of globs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class OwnModelError(ValueError):
    """An invalid model; `key` is the faulty setting, None for its name."""

    def __init__(self, problem: str, *, key: str | None = None) -> None:
        super().__init__(problem)
        self.key = key


def own_model(name: str, values: Mapping[str, Any], *, folder: Path, source_name: str) -> ModelSpec:
    """Return the model of a `[models.NAME]` with `values`; raise OwnModelError.

    A file of its `build` is relative to `folder`.
    """
    _check_name(name)
    if values["family"] == REFERENCE_FAMILY:
        raise OwnModelError(
            f"the family {REFERENCE_FAMILY!r} is that of the reference cases, which no table of"
            " models shows; choose another",
            key="family",
        )
    sizes = values["sizes"] or {OWN_SHAPE: {}}
    for size in (AUTO_SHAPE, NIGHTLY_SHAPES):
        if size in sizes:
            raise OwnModelError(
                f"a suite that asks for the shape {size!r} means another; choose another name",
                key="sizes",
            )
    return ModelSpec(
        name=name,
        family=values["family"],
        build=_absolute_build(values["build"], folder),
        summary=f"From {source_name}.",
        sizes={
            size: make_size(config, num_samples=values["num_samples"])
            for size, config in sizes.items()
        },
        phases=values["phases"],
        tags=values["tags"] or (),
        tolerance=values["tolerance"] or {},
        keep_source=values["keep_source"],
    )


def installed_models(
    distributions: Iterable[Distribution] | None = None,
) -> dict[str, ModelSpec]:
    """Return the models of installed packages, by name.

    An invalid entry is left out with a warning that names the package.
    """
    models: dict[str, ModelSpec] = {}
    if distributions is None:
        distributions = importlib.metadata.distributions()
    for package, entry in _entries(distributions):
        try:
            spec = _offered(package, entry)
            if spec.build != models.get(spec.name, spec).build:
                raise OwnModelError("another package offers a model of that name")
        except OwnModelError as error:
            logger.warning(
                "the model %r of the package %s is left out: %s", entry.name, package, error
            )
        else:
            models.setdefault(spec.name, spec)
    return models


def _entries(distributions: Iterable[Distribution]) -> Iterator[tuple[str, EntryPoint]]:
    for distribution in distributions:
        try:
            # Most packages have no such entry point, and parsing all of them would take time.
            if ENTRY_POINTS not in (distribution.read_text("entry_points.txt") or ""):
                continue
            package = distribution.metadata["Name"] or "without a name"
            entries = [item for item in distribution.entry_points if item.group == ENTRY_POINTS]
        except (OSError, TypeError, ValueError) as error:
            logger.warning("the entry points of an installed package cannot be read: %s", error)
            continue
        yield from ((package, entry) for entry in entries)


def _offered(package: str, entry: EntryPoint) -> ModelSpec:
    _check_name(entry.name)
    match = EntryPoint.pattern.match(entry.value)
    if match is None:
        raise OwnModelError(f"its value {entry.value!r} is not `package.module:attribute`")
    build = f"{match['module']}:{match['attr']}" if match["attr"] else match["module"]
    return ModelSpec(
        name=entry.name,
        family=OWN_FAMILY,
        build=build,
        summary=f"From the package {package}.",
        sizes={OWN_SHAPE: make_size({})},
    )


def _check_name(name: str) -> None:
    if name in CATALOG or name in REFERENCES:
        raise OwnModelError("the zoo has a model of that name; choose another")
    if _NAME.fullmatch(name) is None:
        raise OwnModelError(
            "a name has letters, digits and . _ + - and begins with a letter or a digit"
        )


def _absolute_build(build: str, folder: Path) -> str:
    file, colon, attribute = build.partition(":")
    if not file.endswith(".py"):
        return build
    # Path.resolve raises on a loop of links; the check of the file reports it by name.
    return f"{os.path.realpath(folder / file)}{colon}{attribute}"
