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
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from compile_hud.db.records.results import MEASURED_DTYPES, REFERENCE_FAMILY
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.shapes import AXES, make_size
from compile_hud.models_zoo.catalog.spec import ConfigValue, ModelSpec, Tolerance
from compile_hud.runner.config.section import ConfigSection, SectionError, Unit
from compile_hud.runner.config.value_types import (
    Count,
    Flag,
    Phases,
    Scalar,
    Text,
    Texts,
    one_of,
    takes,
)
from compile_hud.runner.planning.suites import AUTO_SHAPE, NIGHTLY_SHAPES

logger = logging.getLogger(__name__)

ENTRY_POINTS = "compile_hud.models"
OWN_FAMILY = "own"
# The only size of a model that names none.
OWN_SHAPE = "default"
# A name is part of a case's key, where `/` parts, and of globs.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class ToleranceLimits(ConfigSection):
    """The fields of a Tolerance that hud.toml sets."""

    # A cosine is at most 1, so a larger limit would make every result inaccurate.
    min_cosine: Annotated[float, Field(ge=0, le=1)] | None = None
    min_gradient_cosine: Annotated[float, Field(ge=0, le=1)] | None = None
    rounding_rmse: Annotated[float, Field(ge=0)] | None = None
    max_rmse_ratio: Annotated[float, Field(ge=0)] | None = None
    max_discrete_share: Annotated[float, Field(ge=0)] | None = None


def _with_axes(sizes: dict[str, dict[str, ConfigValue]]) -> dict[str, dict[str, ConfigValue]]:
    for config in sizes.values():
        for value in (config[axis.key] for axis in AXES if axis.key in config):
            if type(value) is not int or value < 1:
                raise ValueError(value)
    return sizes


Tolerances = Annotated[
    dict[Annotated[str, one_of(map(str, MEASURED_DTYPES))], ToleranceLimits],
    takes(
        f"a table of {', '.join(MEASURED_DTYPES)}, each a table of numbers from 0 up (cosines up"
        f" to 1): {', '.join(ToleranceLimits.model_fields)}; for example"
        " { bf16 = { min_cosine = 0.95 } }"
    ),
]
Sizes = Annotated[
    dict[
        # The name of a size is part of a case's key, and precedes the axes in the name of a shape.
        Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")],
        dict[str, Scalar | Annotated[tuple[int, ...], Field(strict=False)]],
    ],
    Field(min_length=1),
    AfterValidator(_with_axes),
    takes(
        "a table of sizes, each a table of numbers, texts, true or false and lists of whole"
        " numbers, `batch` and lengths from 1; for example { small = { batch = 8, width = 256 } }"
    ),
]


class ModelSection(ConfigSection):
    build: Text = Field(
        description="Your own model: `package.module`, `package.module:attribute` or a file"
        " `path/to/file.py`, the path relative to hud.toml."
    )
    family: Text = Field(OWN_FAMILY, description="Kind of model, to group it by.")
    num_samples: Annotated[Count, Unit("sample")] = Field(
        1, description="Samples (batch size) that one iteration works through, for the throughput."
    )
    sizes: Sizes | None = Field(
        None,
        description="Sizes by name, each the `config` that `build` gets:"
        " `[models.NAME.sizes.small]`. Default: one, `default`, whose `config` is empty.",
    )
    tags: Texts = Field((), description="[Tags](#tags) of your own, to choose it by.")
    phases: Phases = Field(
        ("inference", "training"), description="Phases that the model can be measured in."
    )
    tolerance: Tolerances | None = Field(
        None,
        description="How far results may be from fp64, by dtype:"
        " `{ bf16 = { min_cosine = 0.95 } }`. Default: that of the dtype.",
    )
    keep_source: Flag = Field(
        False,
        description="Whether a run keeps the text of the model's files (256 KiB at most), so that"
        " comparisons and alerts show the diff of changed code, and scripts of case files run both"
        " versions.",
    )


def own_model(name: str, section: ModelSection, *, folder: Path, source_name: str) -> ModelSpec:
    """Return the model of a `[models.NAME]`; raise SectionError.

    A file of its `build` is relative to `folder`.
    """
    _check_name(name)
    if section.family == REFERENCE_FAMILY:
        raise SectionError(
            f"the family {REFERENCE_FAMILY!r} is that of the reference cases, which no table of"
            " models shows; choose another",
            key="family",
        )
    sizes = section.sizes or {OWN_SHAPE: {}}
    for size in (AUTO_SHAPE, NIGHTLY_SHAPES):
        if size in sizes:
            raise SectionError(
                f"a suite that asks for the shape {size!r} means another; choose another name",
                key="sizes",
            )
    return ModelSpec(
        name=name,
        family=section.family,
        build=_absolute_build(section.build, folder),
        summary=f"From {source_name}.",
        sizes={
            size: make_size(config, num_samples=section.num_samples)
            for size, config in sizes.items()
        },
        phases=section.phases,
        tags=section.tags,
        tolerance={
            dtype: Tolerance(**dict(limits)) for dtype, limits in (section.tolerance or {}).items()
        },
        keep_source=section.keep_source,
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
                raise SectionError("another package offers a model of that name")
        except SectionError as error:
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
        raise SectionError(f"its value {entry.value!r} is not `package.module:attribute`")
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
        raise SectionError("the zoo has a model of that name; choose another")
    if _NAME.fullmatch(name) is None:
        raise SectionError(
            "a name has letters, digits and . _ + - and begins with a letter or a digit"
        )


def _absolute_build(build: str, folder: Path) -> str:
    file, colon, attribute = build.partition(":")
    if not file.endswith(".py"):
        return build
    # Path.resolve raises on a loop of links; the check of the file reports it by name.
    return f"{os.path.realpath(folder / file)}{colon}{attribute}"
