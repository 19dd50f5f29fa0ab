"""The module and line of the model in which a kernel is called more or less often."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from compile_hud.db.records.kernels import Kernel, call_lines_of, modules_of
from compile_hud.db.shared.text import one_line, shortened

# A path in a hostile trace may be thousands of characters long.
_MAX_PATH = 200


def location_text(baseline: Sequence[Kernel], candidate: Sequence[Kernel]) -> str:
    """Return " in `MODULE`, FILE:LINE" of the changed calls, of the candidate if none changed."""
    modules = _gained_modules(baseline, candidate)
    path = shortened(one_line(_common_path(modules)), limit=_MAX_PATH)
    line = shortened(one_line(_line(candidate or baseline, modules)), limit=_MAX_PATH)
    return f"{f' in `{path}`' if path else ''}{f', {line}' if line else ''}"


def calls_text(baseline: Sequence[Kernel], candidate: Sequence[Kernel]) -> str:
    """Return "+1 call in `MODULE`, FILE:LINE"; empty where no module and no line is known."""
    difference = round(_num_calls(candidate) - _num_calls(baseline))
    location = location_text(baseline, candidate)
    if not location or not difference:
        return ""
    return f"{difference:+,d} call{'' if abs(difference) == 1 else 's'}{location}"


def _num_calls(kernels: Iterable[Kernel]) -> float:
    return sum(kernel.count for kernel in kernels)


def _gained_modules(baseline: Iterable[Kernel], candidate: Iterable[Kernel]) -> list[str]:
    """Return the modules in which the candidate calls the kernels more often; all if none is."""
    before, after = _calls(baseline), _calls(candidate)
    gained = [path for path, count in after.items() if count > before.get(path, 0.0)]
    fewer = [path for path, count in before.items() if count > after.get(path, 0.0)]
    return [path for path in gained or fewer or after if path]


def _calls(kernels: Iterable[Kernel]) -> Mapping[str, float]:
    calls: dict[str, float] = {}
    for kernel in kernels:
        modules = modules_of(kernel)
        counts = [(item.path, item.count) for item in modules] or [(kernel.module, kernel.count)]
        for path, count in counts:
            calls[path] = calls.get(path, 0.0) + count
    return calls


def _common_path(modules: Iterable[str]) -> str:
    return ".".join(os.path.commonprefix([module.split(".") for module in modules]))


def _line(kernels: Iterable[Kernel], modules: Iterable[str]) -> str:
    """Return file and line of the user's code in one of `modules`; empty where it is unknown."""
    chosen = set(modules)
    for kernel in kernels:
        for path, line in call_lines_of(kernel).items():
            if path in chosen or not chosen:
                return line.rpartition("/")[2]
        for origin in kernel.origins:
            if origin.line and (origin.module in chosen or not chosen):
                return f"{origin.file.rpartition('/')[2]}:{origin.line}"
    return ""
