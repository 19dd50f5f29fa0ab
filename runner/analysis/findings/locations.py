"""The module and line of kernels in the user's model, and numbers as words."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from compile_hud.db.records.findings import Exhibit, Location
from compile_hud.db.records.kernels import Kernel, call_lines_of, modules_of
from compile_hud.db.shared.text import one_line, shortened, significant
from compile_hud.runner.analysis.kernels.grouping import reportable_operators

# Layers of one kind have one path: `encoder.layer.3.output` is `encoder.layer.*.output`.
_INDEX = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")
_MAX_CHARS = 120
_MAX_OPERATORS = 4
MAX_EXHIBITS = 10


def location_of(kernels: Sequence[Kernel]) -> Location:
    """Return the common module, the most frequent line and the operators of `kernels`."""
    modules = _modules(kernels)
    operators: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        for name in sorted(reportable_operators(kernel.operators)):
            operators[name] += kernel.total_s
    return Location(
        module=shortened(one_line(_common_module(modules)), limit=_MAX_CHARS),
        line=shortened(one_line(_line(kernels)), limit=_MAX_CHARS),
        operators=tuple(_longest(operators)[:_MAX_OPERATORS]),
    )


def _longest(times_s: Mapping[str, float]) -> list[str]:
    return sorted(times_s, key=lambda name: (-times_s[name], name))


def _modules(kernels: Iterable[Kernel]) -> list[str]:
    paths = []
    for kernel in kernels:
        listed = [item.path for item in modules_of(kernel)] or [kernel.module]
        paths += [_INDEX.sub("*", path) for path in listed if path]
    return sorted(set(paths))


def _common_module(modules: Sequence[str]) -> str:
    return ".".join(os.path.commonprefix([path.split(".") for path in modules]))


def _line(kernels: Iterable[Kernel]) -> str:
    """Return the user's line with the longest time, `FILE:LINE`; empty if none is known."""
    times_s: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        lines = set(call_lines_of(kernel).values())
        lines |= {f"{item.file}:{item.line}" for item in kernel.origins if item.line}
        for line in sorted(lines):
            times_s[line.rpartition("/")[2]] += kernel.total_s / len(lines)
    return next(iter(_longest(times_s)), "")


def exhibits_of(kernels: Iterable[Kernel]) -> tuple[Exhibit, ...]:
    """Return the longest kernels as evidence, at most MAX_EXHIBITS."""
    longest = sorted(kernels, key=lambda kernel: -kernel.total_s)[:MAX_EXHIBITS]
    return tuple(
        Exhibit(
            kind="kernel",
            name=kernel.name,
            value=kernel.total_s,
            unit="s",
            facts={
                "label": kernel.label,
                "count": kernel.count,
                "library": kernel.library,
                "shapes": kernel.shapes,
                "source_hash": kernel.source_hash,
            },
        )
        for kernel in longest
    )


def metric_exhibit(name: str, value: float, *, unit: str = "s") -> Exhibit:
    """Return a metric of the result as evidence."""
    return Exhibit(kind="metric", name=name, value=value, unit=unit)


def time_text(time_s: float) -> str:
    """Return a time in a fitting unit: `6.16 ms`."""
    for scale, unit in ((1.0, "s"), (1e3, "ms")):
        if abs(time_s) * scale >= 1:
            return f"{significant(scale * time_s)} {unit}"
    return f"{significant(1e6 * time_s)} us"


def gib_text(num_bytes: float) -> str:
    """Return a size in GiB: `1.23 GiB`."""
    return f"{significant(num_bytes / 2**30)} GiB"


def share_text(share: float) -> str:
    """Return a share in whole percent: `60 %`."""
    return f"{100 * share:.0f} %"


def calls_text(kernels: Iterable[Kernel]) -> str:
    """Return the calls of an iteration: `24 calls`."""
    count = sum(kernel.count for kernel in kernels)
    number = f"{count:,.0f}" if count >= 1 else significant(count, digits=2)
    return f"{number} call{'' if number == '1' else 's'}"
