"""The settings of a user's own variant, checked against the torch at hand and applied."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from compile_hud.models_zoo.catalog.spec import CompileSettings, near_names

# The backends by the word of a variant.
SDPA_BACKENDS: Mapping[str, SDPBackend] = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


class UnknownSettingError(RuntimeError):
    """This torch lacks a setting of the variant; the message has the nearest name."""


def resolve_backend(name: str) -> str | Callable[..., Any]:
    """Return the backend for torch.compile: a registered name, or the function of `module:name`.

    Raises UnknownSettingError.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon:
        known = torch._dynamo.list_backends(exclude_tags=())
        if name not in known:
            raise _unknown("backend", name, known)
        return name
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UnknownSettingError(
            f"the backend {name} needs the module {error.name}, which this toolchain lacks"
        ) from error
    function: Callable[..., Any] | None = getattr(module, attribute, None)
    if function is None:
        raise _unknown(f"function of {module_name}", attribute, vars(module))
    return function


@contextmanager
def applied_inductor_config(settings: CompileSettings) -> Iterator[None]:
    """Set Inductor's config during the block; raise UnknownSettingError.

    A value must have the type of torch's own.
    """
    if not settings.inductor:
        yield
        return
    # The import is here, since an eager case does not need it.
    from torch._inductor import config as inductor_config

    _check_inductor(settings.inductor, kind="setting")
    with inductor_config.patch(dict(settings.inductor)):
        yield


def checked_options(settings: CompileSettings, *, backend: str) -> dict[str, Any]:
    """Return torch.compile's own `options`; raise UnknownSettingError for those of Inductor."""
    if settings.options and backend == "inductor":
        # Torch accepts hyphens, and reads `use_aoti` itself.
        names = {key.replace("-", "_"): value for key, value in settings.options.items()}
        names.pop("use_aoti", None)
        _check_inductor(names, kind="option")
    return dict(settings.options)


def _check_inductor(values: Mapping[str, Any], *, kind: str) -> None:
    from torch._inductor import config as inductor_config

    known = torch._inductor.list_options()
    current = inductor_config.get_config_copy()
    for key, value in values.items():
        if key not in known:
            raise _unknown(f"{kind} of Inductor", key, known)
        own = current.get(key)
        if own is not None and not _is_alike(own, value):
            raise UnknownSettingError(
                f"Inductor's {key} is {_kind(own)} in torch {torch.__version__}, not {value!r}"
            )


@contextmanager
def applied_while_compiling(
    settings: CompileSettings, *, inputs: Mapping[str, torch.Tensor]
) -> Iterator[None]:
    """Mark dynamic dimensions and choose the attention of what compiles during the block.

    Compiled code keeps its attention, so eager is not affected. Raises UnknownSettingError.
    """
    for name, dimensions in settings.mark_dynamic.items():
        if name not in inputs:
            raise _unknown("input", name, inputs)
        for dimension in dimensions:
            if not -inputs[name].dim() <= dimension < inputs[name].dim():
                raise UnknownSettingError(
                    f"the input {name} has {inputs[name].dim()} dimensions, none is {dimension}"
                )
            torch._dynamo.mark_dynamic(inputs[name], dimension % inputs[name].dim())
    with ExitStack() as stack:
        if settings.sdpa:
            stack.enter_context(sdpa_kernel(SDPA_BACKENDS[settings.sdpa]))
        yield


def _unknown(kind: str, name: str, known: Iterable[str]) -> UnknownSettingError:
    near = near_names(name, known)
    end = f"; did you mean {near}?" if near else ""
    return UnknownSettingError(f"torch {torch.__version__} has no {kind} {name!r}{end}")


def _is_alike(own: object, value: object) -> bool:
    if isinstance(own, bool) or isinstance(value, bool):
        return isinstance(own, bool) and isinstance(value, bool)
    if isinstance(own, float):
        return isinstance(value, int | float)
    return isinstance(value, type(own))


def _kind(own: object) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(
        type(own), f"a {type(own).__name__}"
    )
