"""The lazy seam between the torch-free catalog and the code that builds a model.

A `build` string is relative to the working directory or to installed packages. It names

- `package.module` or `path/to/file.py`: a module with `build(config)`,
  `example_inputs(config, *, seed)` and optionally `loss(outputs, inputs)`;
- either of the two followed by `:name`: an object with these same attributes, or a function of the
  configuration that returns `(module, inputs)`; its module may have the `loss`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from compile_hud.models_zoo.building.inputs import WEIGHTS_SEED, seeded

# Mistakes in a module's own statements raise these; a stranger error passes with its own traceback.
_IMPORT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
_ADDRESS_HELP = (
    "Write `package.module`, `package.module:factory`, `path/to/file.py` or"
    " `path/to/file.py:factory`"
)


class ModelLoadError(ImportError):
    """A model's code cannot be imported, or lacks a required attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """The factory of a model, the keyword arguments of its forward and, rarely, its own loss."""

    build: Callable[[Mapping[str, Any]], nn.Module]
    example_inputs: Callable[..., dict[str, Tensor]]
    loss: Callable[[Any, Mapping[str, Tensor]], Tensor] | None = None


def load_builder(build: str) -> Builder:
    """Return the builder that `build` names; raise ModelLoadError without one."""
    location, _, name = build.partition(":")
    if not location:
        raise ModelLoadError(f"the build string {build!r} names no module. {_ADDRESS_HELP}.")
    module = _import(location, build=build)
    if not name:
        return _from_object(module, build=build)
    target = _attribute(module, name=name, build=build)
    if hasattr(target, "build") or not callable(target):
        return _from_object(target, build=build)
    return _from_factory(target, build=build, loss=getattr(module, "loss", None))


def check_names(model: nn.Module, inputs: Mapping[str, Tensor], *, build: str) -> None:
    """Raise ModelLoadError if the forward of `model` does not take `inputs` by their names."""
    try:
        taken = inspect.signature(model.forward)
    except (TypeError, ValueError):
        # Scripted and built-in functions have no names of parameters; the first call checks them.
        return
    try:
        taken.bind(**inputs)
    except TypeError as error:
        raise ModelLoadError(
            f"the inputs of the model {build!r} are not those of its forward: {error}."
            f" {type(model).__name__}.forward takes {taken}, the inputs are named"
            f" {', '.join(inputs) or 'nothing'}."
        ) from None


def _import(location: str, *, build: str) -> ModuleType:
    try:
        return _import_file(Path(location)) if location.endswith(".py") else _import_name(location)
    except _IMPORT_ERRORS as error:
        raise ModelLoadError(
            f"cannot import the model {build!r}: {type(error).__name__}: {error}. {_ADDRESS_HELP}"
            f", and install what it needs into this interpreter ({sys.executable});"
            f" the working directory is {Path.cwd()}."
        ) from error


def _import_name(name: str) -> ModuleType:
    # A worker starts in another folder, and `python -m` would have this one on the path.
    _extend_path(Path.cwd())
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    _extend_path(path.parent)
    # A file in a subfolder imports packages that lie next to hud.toml, as a module does.
    _extend_path(Path.cwd())
    # An import would register the module too: dataclasses and pickle look a class's module up by
    # name. With the prefix a user's `torch.py` cannot replace torch.
    name = f"hud_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _extend_path(folder: Path) -> None:
    # The folder goes to the end: a user's folder must not shadow an installed package.
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _attribute(module: ModuleType, *, name: str, build: str) -> Any:
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise ModelLoadError(
            f"the model {build!r} cannot be loaded: {module.__name__} has no {name!r}."
            f" It has {', '.join(public) or 'nothing public'}."
        )
    return getattr(module, name)


def _from_object(target: object, *, build: str) -> Builder:
    missing = [
        key for key in ("build", "example_inputs") if not callable(getattr(target, key, None))
    ]
    if missing:
        raise ModelLoadError(
            f"the model {build!r} has no function {' and no function '.join(missing)}."
            " It needs `build(config) -> nn.Module` and"
            " `example_inputs(config, *, seed) -> dict[str, Tensor]`, or name a function that"
            " returns both: `...:factory`."
        )
    return Builder(
        build=target.build,  # type: ignore[attr-defined]
        example_inputs=target.example_inputs,  # type: ignore[attr-defined]
        loss=getattr(target, "loss", None),
    )


def _from_factory(
    factory: Callable[[Mapping[str, Any]], Any],
    *,
    build: str,
    loss: Callable[[Any, Mapping[str, Tensor]], Tensor] | None,
) -> Builder:
    def make(config: Mapping[str, Any], *, seed: int) -> tuple[nn.Module, dict[str, Tensor]]:
        # A factory draws from the global generator: seeded, each process gets the same model.
        with seeded(seed):
            made = factory(config)
        if not _is_pair(made):
            raise ModelLoadError(
                f"the model {build!r} returned {type(made).__name__}, not a pair of nn.Module and"
                " dict of tensors by the names of forward's arguments."
            )
        module, inputs = made
        return module, dict(inputs)

    def example_inputs(config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
        return make(config, seed=seed)[1]

    return Builder(
        build=lambda config: make(config, seed=WEIGHTS_SEED)[0],
        example_inputs=example_inputs,
        loss=loss,
    )


def _is_pair(made: object) -> bool:
    if not isinstance(made, tuple) or len(made) != 2:
        return False
    module, inputs = made
    return (
        isinstance(module, nn.Module)
        and isinstance(inputs, Mapping)
        and all(isinstance(value, torch.Tensor) for value in inputs.values())
    )
