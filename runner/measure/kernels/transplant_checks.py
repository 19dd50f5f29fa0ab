"""The checks of a launch with kernels of another build: they run, and give the same results.

A launch in which a transplant does not run is an error, so it has no number.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from compile_hud.runner.measure.accuracy.step import (
    Reference,
    check_other_shape,
    differences,
)
from compile_hud.runner.measure.compile.dynamo import has_recorded_cudagraphs
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.kernels.generated_code import generated_modules, replaced
from compile_hud.runner.measure.kernels.replacements import Replacement, TransplantError
from compile_hud.runner.protocol.transplants import TRANSPLANTS, KernelTransplant


def report_transplants(context: Context) -> None:
    """Record the transplants that run; raise TransplantError unless each of them does."""
    transplants = context.request.workload.transplants
    if not transplants:
        return
    for item in transplants:
        made = [one for one in context.replacements if one.transplant is item]
        if not made:
            raise TransplantError(f"Inductor did not define {item.name} with the code to replace")
        for replacement in made:
            _check_runs(replacement)
    context.findings.details[TRANSPLANTS] = [
        {"name": item.name, "sha256": item.sha256} for item in transplants
    ]


def _check_runs(replacement: Replacement) -> None:
    """Raise TransplantError unless a module of this build calls the kernel, of this very code."""
    item, kernel = replacement.transplant, _resolved(replacement.kernel)
    if not _places(kernel):
        raise TransplantError(f"no module of Inductor calls the kernel that replaces {item.name}")
    if item.language == "cpp" and item.source not in _compiled_text(kernel):
        raise TransplantError(f"the library that replaces {item.name} is of other code")
    if item.config and not _has_choice(kernel, item):
        raise TransplantError(f"the autotuner took another configuration for {item.name}")


def _resolved(kernel: Any) -> Any:
    return kernel.result() if hasattr(kernel, "result") else kernel


def _places(kernel: Any) -> list[tuple[ModuleType, str]]:
    """Return the modules and names under which Inductor's code calls `kernel`."""
    return [
        (module, name)
        for module in generated_modules()
        for name, value in vars(module).items()
        if value is kernel
    ]


def _compiled_text(kernel: Any) -> str:
    """Return the code that the library of a C++ kernel was compiled from; "" if unreadable."""
    library = getattr(getattr(kernel, "__self__", None), "__file__", None)
    try:
        return Path(str(library)).with_suffix(".cpp").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _has_choice(kernel: Any, item: KernelTransplant) -> bool:
    launchers = getattr(kernel, "launchers", None) or ()
    configs = [getattr(launcher, "config", None) for launcher in launchers]
    taken = [
        {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
        for config in configs
        if config is not None
    ]
    return bool(taken) and all(
        choice.get(name) == value for choice in taken for name, value in item.config.items()
    )


def check_transplants(context: Context, forward: Forward) -> str:
    """Return the reason why results differ from those of the build's own kernels, "" without one.

    A replayed CUDA graph calls no kernel of a module, so the fp64 oracle alone checks it.
    """
    replacements = context.replacements
    is_replayed = context.device.is_cuda and has_recorded_cudagraphs()
    if not replacements or is_replayed:
        return ""
    result = context.variant.result(forward)
    with ExitStack() as stack:
        for item in replacements:
            for module, name in _places(_resolved(item.kernel)):
                stack.enter_context(replaced(module, name, _resolved(item.own)))
        own, again = (context.variant.result(forward) for _ in range(2))
    reference = Reference(
        oracle=own, eager=own, spread=differences(own, again), by_eager=tuple(own.parts)
    )
    reason, _ = check_other_shape(context, result, reference=reference)
    names = ", ".join(dict.fromkeys(item.transplant.name for item in replacements))
    return f"with other code for {names} the results change: {reason}" if reason else ""
