"""Layout of the icicle: module, operator and kernel, each as wide as its time. Pure.

A rectangle is as wide as its children together. They stand side by side below it and begin where it
begins, the longest first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compile_hud.app.views.kernels.tables import kernel_id, without_wrapper
from compile_hud.db.records.kernels import Kernel, modules_of

WHOLE, MODULE, OPERATOR, KERNEL = range(4)
LEVELS = ("iteration", "module", "operators", "kernel")
NO_MODULE = "no module known"
NO_OPERATOR = "no operator known"
SEVERAL = "several kinds"
_ROUNDING_SHARE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A rectangle: its bounds on the axis of time in seconds, and its module, operators or kernel.

    `share` is its part of the time of all rows, `kind` that of all kernels in it or SEVERAL.
    `kernel_id` is the id of a kernel, empty above the kernels.
    """

    level: int
    start_s: float
    end_s: float
    name: str
    kind: str
    share: float
    num_kernels: int
    kernel_id: str = ""


def layout(kernels: Sequence[Kernel]) -> tuple[Rect, ...]:
    """Return the rectangles of all levels; none if the kernels took no time."""
    timed = [part for kernel in kernels for part in _parts(kernel) if part.total_s > 0]
    whole_s = sum(kernel.total_s for kernel in timed)
    if not timed:
        return ()
    rectangles = [_rect(timed, WHOLE, start_s=0.0, name="an iteration", whole_s=whole_s)]
    module_s = 0.0
    for module, in_module in _grouped(timed, _module):
        rectangles.append(_rect(in_module, MODULE, start_s=module_s, name=module, whole_s=whole_s))
        operator_s = module_s
        for operators, alike in _grouped(in_module, _operators):
            rectangles.append(
                _rect(alike, OPERATOR, start_s=operator_s, name=operators, whole_s=whole_s)
            )
            kernel_s = operator_s
            for kernel in sorted(alike, key=lambda item: -item.total_s):
                rectangles.append(
                    _rect([kernel], KERNEL, start_s=kernel_s, name=kernel.label, whole_s=whole_s)
                )
                kernel_s += kernel.total_s
            operator_s = kernel_s
        module_s = operator_s
    return tuple(rectangles)


def _rect(
    kernels: Sequence[Kernel], level: int, *, start_s: float, name: str, whole_s: float
) -> Rect:
    total_s = sum(kernel.total_s for kernel in kernels)
    kinds = {kernel.kind for kernel in kernels}
    return Rect(
        level=level,
        start_s=start_s,
        end_s=start_s + total_s,
        name=name,
        kind=kinds.pop() if len(kinds) == 1 else SEVERAL,
        share=total_s / whole_s,
        num_kernels=len({kernel_id(kernel) for kernel in kernels if not kernel.is_dispatch}),
        kernel_id=kernel_id(kernels[0]) if level == KERNEL else "",
    )


def _parts(kernel: Kernel) -> list[Kernel]:
    """Return the kernel once for each of its modules, and its remainder without a module."""
    parts = [
        replace(kernel, module=part.path, count=part.count, total_s=part.total_s)
        for part in modules_of(kernel)
    ]
    rest_s = kernel.total_s - sum(part.total_s for part in parts)
    # A smaller remainder is rounding.
    if not parts or rest_s > _ROUNDING_SHARE * kernel.total_s:
        parts.append(replace(kernel, total_s=rest_s))
    return parts


def _module(kernel: Kernel) -> str:
    return without_wrapper(kernel.module) or NO_MODULE


def _operators(kernel: Kernel) -> str:
    return ", ".join(kernel.operators) or NO_OPERATOR


def _grouped(
    kernels: Sequence[Kernel], named: Callable[[Kernel], str]
) -> list[tuple[str, list[Kernel]]]:
    """Return the kernels by name, the name with the longest time first."""
    groups: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(named(kernel), []).append(kernel)
    return sorted(
        groups.items(), key=lambda group: (-sum(item.total_s for item in group[1]), group[0])
    )
