"""The cause of a change in one phrase: "one more addmm in `extra`", with the line of the model.

Method: kernels that run more or less often, are new, have other code or other shapes come first:
they are counted, and have no noise. Only where there are none a time that moved beyond noise is
named.
"""

from __future__ import annotations

from collections.abc import Iterable

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.shared.text import one_line, shortened
from compile_hud.runner.analysis.kernels.call_locations import location_text
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
    rows = [
        row
        for row in diff.rows
        if (row.kind in _COUNTED or row.has_other_inputs) and not _is_dispatch(row)
    ]
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
    return f"{_what(row)}{location_text(row.baseline, row.candidate)}"


def _what(row: KernelChange) -> str:
    name = _name(row)
    difference = round(_count(row.candidate) - _count(row.baseline))
    if row.has_other_inputs and row.kind not in _COUNTED:
        return f"{name} has other shapes"
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
