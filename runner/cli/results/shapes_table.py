"""The shapes of the models as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compile_hud.models_zoo.catalog.catalog import find_models
from compile_hud.models_zoo.catalog.shapes import Axis, axes_of
from compile_hud.models_zoo.catalog.spec import ModelSpec, SizeSpec
from compile_hud.runner.cli.output import print_json
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.planning.selection import SHAPES_BY_DEVICE
from compile_hud.runner.workspace import Workspace

_NAMES = ("model", "shape", "reads", "bounds", "measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShapeRow:
    model: str
    shape: str
    size: SizeSpec
    measured: str

    @property
    def axes(self) -> tuple[Axis, ...]:
        return axes_of(self.size)


def show_shapes(workspace: Workspace, *, patterns: Sequence[str], as_json: bool) -> None:
    """Print the shapes of the models that `patterns` match, along which axes others can be named.

    Raises UnknownNameError for a pattern that matches nothing.
    """
    specs = find_models(patterns or ("*",), catalog=workspace.config.catalog)
    rows = [row for spec in specs for row in _rows(spec)]
    if as_json:
        print_json([_to_json(row) for row in rows])
        return
    cells = [
        (
            row.model,
            row.shape,
            " ".join(f"{axis.letter}={row.size.config[axis.key]}" for axis in row.axes),
            ", ".join(filter(None, (axis.bound(row.size.config) for axis in row.axes))),
            row.measured,
        )
        for row in rows
    ]
    print_table([Column(name=name) for name in _NAMES], rows=cells)


def _rows(spec: ModelSpec) -> Iterator[_ShapeRow]:
    devices = {shape: device for device, shape in SHAPES_BY_DEVICE.items()}
    for name, size in spec.sizes.items():
        measured = f"auto ({devices[name]})" if name in devices else "when named"
        yield _ShapeRow(model=spec.name, shape=name, size=size, measured=measured)
    for name, shape in spec.shapes.items():
        measured = "nightly" if shape.is_tracked else "when named"
        yield _ShapeRow(model=spec.name, shape=name, size=shape.size, measured=measured)


def _to_json(row: _ShapeRow) -> dict[str, object]:
    return {
        "model": row.model,
        "shape": row.shape,
        "axes": {axis.letter: row.size.config[axis.key] for axis in row.axes},
        "num_samples": row.size.num_samples,
        "num_tokens": row.size.num_tokens,
        "measured": row.measured,
    }
