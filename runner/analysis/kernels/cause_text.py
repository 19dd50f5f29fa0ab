"""The cause of a change in one phrase: "one more addmm in `extra`", with the line of the model.

Method: kernels that run more or less often, are new or have other code come first: they are
counted, and have no noise. Only where there are none a time that moved beyond noise is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from compile_hud.db.records.kernels import Kernel, call_lines_of, modules_of
from compile_hud.db.shared.text import one_line, shortened
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import KernelDiff, top_rows

_COUNTED = (
    ChangeKind.NEW,
    ChangeKind.VANISHED,
    ChangeKind.MORE_OFTEN,
    ChangeKind.LESS_OFTEN,
    ChangeKind.OTHER_CODE,
    ChangeKind.OTHER_ALGORITHM,
    ChangeKind.OTHER_CONFIG,
    ChangeKind.SPLIT,
    ChangeKind.MERGED,
    ChangeKind.REGROUPED,
)
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_MAX_LABEL = 60
# The kind of the overhead between kernels, which comes and goes with them.
_DISPATCH = "dispatch"
SAME_KERNELS = "the kernels are the same"
UNCLEAR = "no kernel stands out"


def cause_text(diff: KernelDiff, *, is_slower: bool) -> str:
    """Return the kernels that made the candidate slower or faster, with module and line."""
    sign = 1 if is_slower else -1
    rows = [row for row in diff.rows if row.kind in _COUNTED and not _is_dispatch(row)]
    counted = max(rows, key=lambda row: sign * row.contribution_s, default=None)
    if counted is not None and sign * counted.contribution_s > 0:
        return _row_text(counted)
    timed = [row for row in top_rows(diff, is_slower=is_slower) if not _is_dispatch(row)]
    if timed:
        return _row_text(timed[0])
    return UNCLEAR if rows else SAME_KERNELS


def _is_dispatch(row: KernelChange) -> bool:
    kernels = (*row.baseline, *row.candidate)
    return bool(kernels) and all(kernel.kind == _DISPATCH for kernel in kernels)


def _row_text(row: KernelChange) -> str:
    if row.part:
        return f"{row.part}, outside of all kernels"
    modules = _gained_modules(row)
    path = _common_path(modules)
    where = f" in `{path}`" if path else ""
    line = _line(row, modules)
    return f"{_what(row)}{where}{f', {line}' if line else ''}"


def _what(row: KernelChange) -> str:
    name = _name(row)
    difference = round(_count(row.candidate) - _count(row.baseline))
    match row.kind:
        case ChangeKind.NEW | ChangeKind.MORE_OFTEN if difference > 0:
            return f"{_number(difference)} more {name}"
        case ChangeKind.VANISHED | ChangeKind.LESS_OFTEN if difference < 0:
            return f"{_number(-difference)} {name} fewer"
        case ChangeKind.SPLIT | ChangeKind.MERGED | ChangeKind.REGROUPED:
            before, after = len(row.baseline), len(row.candidate)
            return f"{_number(after)} {name} for {_number(before)} before"
        case ChangeKind.SLOWER:
            return f"{name} is slower, with the same code"
        case ChangeKind.FASTER:
            return f"{name} is faster, with the same code"
        case ChangeKind.WAITED:
            verb = "more" if row.contribution_s > 0 else "less"
            return f"{name} waits {verb} for other ranks"
        case ChangeKind.OTHER_CONFIG:
            return f"{name} has another configuration"
    return f"{name} has other code"


def _name(row: KernelChange) -> str:
    """Return the label of the candidate's kernels without the namespace of ATen."""
    labels = dict.fromkeys(kernel.label for kernel in row.candidate or row.baseline)
    text = " + ".join(label.removeprefix("aten::") for label in labels)
    return shortened(one_line(text), limit=_MAX_LABEL)


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _count(kernels: Iterable[Kernel]) -> float:
    return sum(kernel.count for kernel in kernels)


def _gained_modules(row: KernelChange) -> list[str]:
    """Return the modules in which the candidate calls the kernels more often; all if none is."""
    before, after = (_calls(side) for side in (row.baseline, row.candidate))
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


def _line(row: KernelChange, modules: Iterable[str]) -> str:
    """Return file and line of the user's code in one of `modules`; empty where it is unknown."""
    chosen = set(modules)
    for kernel in row.candidate or row.baseline:
        for path, line in call_lines_of(kernel).items():
            if path in chosen or not chosen:
                return line.rpartition("/")[2]
        for origin in kernel.origins:
            if origin.line and (origin.module in chosen or not chosen):
                return f"{origin.file.rpartition('/')[2]}:{origin.line}"
    return ""
