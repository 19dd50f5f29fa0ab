"""The change of a kernel: its class, its contribution, and its reason as a sentence.

A change of calls and of time per call splits the contribution: (n2 - n1) times the average of both
means, and (mean2 - mean1) times the average of both counts, which add up to n2 mean2 - n1 mean1.
For the same code the larger of the two decides the class. noise.py decides whether a time moved.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.shared.text import counted, listed, shortened, signed_percent
from compile_hud.runner.analysis.kernels.call_locations import calls_text, location_text
from compile_hud.runner.analysis.kernels.code_similarity import (
    choices_of,
    likeness,
    without_choices,
)
from compile_hud.runner.analysis.kernels.fusion import is_as_often
from compile_hud.runner.analysis.kernels.grouping import Group, MatchedBy, has_same_inputs
from compile_hud.runner.analysis.kernels.matching import Match
from compile_hud.runner.analysis.kernels.noise import Move, Noise, is_waiting, move_of, wait_s
from compile_hud.runner.analysis.kernels.operator_families import families_of, has_same_call
from compile_hud.runner.analysis.kernels.replays import is_unattributed

# A sentence lists at most this many operators.
_NUM_LISTED = 4
_OTHER_SHAPES = "with other shapes"
# Names of C++ templates fill pages.
_MAX_NAME = 120
_PARTS = {
    "idle": "The device had no work",
    "python": "Outside all kernels and operators",
    "dispatch": "Operators outside their kernels",
    "overlap": "Time that kernels ran beside others, which their rows count twice",
}


class ChangeKind(StrEnum):
    """The class of a change."""

    UNCHANGED = "unchanged"
    SLOWER = "same_code_slower"
    FASTER = "same_code_faster"
    WAITED = "waited"
    OTHER_CONFIG = "other_config"
    OTHER_CODE = "other_code"
    NEW = "new"
    VANISHED = "vanished"
    MORE_OFTEN = "more_often"
    LESS_OFTEN = "less_often"
    OTHER_ALGORITHM = "other_algorithm"
    SPLIT = "split"
    MERGED = "merged"
    REGROUPED = "regrouped"
    PART = "part"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChange:
    """One row of a diff: the change, its contribution an iteration, and the reason.

    `contribution_s` is candidate less baseline, seconds an iteration. `count_s` and `time_s` are
    its parts from the number of calls and from the time of one. They are None for kernels of one
    side only and for fusions, which have no call to compare. `part` names the component of the
    profile for a row without kernels. `matched_by` is the rule that matched the kernels of both
    sides. `has_other_inputs` says that the calls of both sides have other shapes. `is_beyond_noise`
    is False if neither the calls nor the time of one changed by more than
    noise; kernels on one side alone, or fused, are beyond it.
    """

    kind: ChangeKind
    baseline: tuple[Kernel, ...]
    candidate: tuple[Kernel, ...]
    contribution_s: float
    text: str
    matched_by: MatchedBy
    count_s: float | None = None
    time_s: float | None = None
    part: str = ""
    has_other_inputs: bool = False
    is_beyond_noise: bool = True

    @property
    def label(self) -> str:
        """Return the name of the row: the labels of both sides if they differ."""
        if self.part:
            return self.part
        names = [
            " + ".join(dict.fromkeys(kernel.label for kernel in side))
            for side in (self.baseline, self.candidate)
            if side
        ]
        return " -> ".join(dict.fromkeys(names))

    def to_json(self) -> dict[str, Any]:
        """Return the row as a JSON object; times are microseconds an iteration."""
        return {
            "label": self.label,
            "class": str(self.kind),
            "contribution_us": 1e6 * self.contribution_s,
            "count_us": None if self.count_s is None else 1e6 * self.count_s,
            "time_us": None if self.time_s is None else 1e6 * self.time_s,
            "matched_by": str(self.matched_by),
            "text": self.text,
            "baseline": [_brief(kernel) for kernel in self.baseline],
            "candidate": [_brief(kernel) for kernel in self.candidate],
        }


def change_of(match: Match, *, noise: Noise) -> KernelChange:
    """Return the row for `match`; `noise` is that of both sides."""
    if not match.baseline or not match.candidate:
        return _one_sided(match)
    if len(match.baseline) + len(match.candidate) > 2:
        return _fusion(match)
    return _pair(match, noise=noise)


def part_change(name: str, *, baseline_s: float, candidate_s: float) -> KernelChange:
    """Return the row for a component of the profile outside of kernels."""
    what = _PARTS.get(name, f"{name}, which no kernel accounts for")
    return KernelChange(
        kind=ChangeKind.PART,
        baseline=(),
        candidate=(),
        contribution_s=candidate_s - baseline_s,
        text=f"{what}: {_us(baseline_s)} -> {_us(candidate_s)} us per iteration.",
        matched_by=MatchedBy.NOTHING,
        part=name,
    )


def _one_sided(match: Match) -> KernelChange:
    is_new = not match.baseline
    (group,) = match.candidate or match.baseline
    sign, word = (1, "New") if is_new else (-1, "Gone")
    number = "1 call" if group.count == 1 else f"{_number(group.count)} calls"
    where = location_text((), group.kernels)
    return KernelChange(
        kind=ChangeKind.NEW if is_new else ChangeKind.VANISHED,
        baseline=() if is_new else group.kernels,
        candidate=group.kernels if is_new else (),
        contribution_s=sign * group.total_s,
        text=f"{word}: {number} of {_us(group.mean_s)} us per iteration{where}.",
        matched_by=MatchedBy.NOTHING,
    )


def _fusion(match: Match) -> KernelChange:
    num_before, num_after = len(match.baseline), len(match.candidate)
    kind = ChangeKind.REGROUPED
    if num_before != num_after:
        kind = ChangeKind.SPLIT if num_before < num_after else ChangeKind.MERGED
    before_s, after_s = (math.fsum(group.total_s for group in side) for side in _sides(match))
    verb = "One kernel does" if num_after == 1 else f"{counted(num_after, 'kernel')} do"
    return KernelChange(
        kind=kind,
        baseline=_kernels(match.baseline),
        candidate=_kernels(match.candidate),
        contribution_s=after_s - before_s,
        text=f"{verb} what {num_before} did ({_computed(match)}):"
        f" {_us(before_s)} -> {_us(after_s)} us per iteration{_calls_text(match)}.",
        matched_by=match.matched_by,
    )


def _calls_text(match: Match) -> str:
    """Return the text about kernels with only some matched calls."""
    phrases = [
        f"{_number(group.count)} of the {_number(group.of_count)} calls of {group.first.label}"
        for side in _sides(match)
        for group in side
        if group.count < group.of_count
    ]
    return f"; with {', '.join(phrases)}" if phrases else ""


def _computed(match: Match) -> str:
    if match.matched_by is MatchedBy.ATTENTION:
        return "attention"
    groups = [group for side in _sides(match) for group in side]
    if match.matched_by is MatchedBy.CALL:
        names = sorted(frozenset[str]().union(*map(families_of, groups)))
    else:
        names = sorted({name for group in groups for name in group.words or group.operators})
    return listed(names, limit=_NUM_LISTED)


def _pair(match: Match, *, noise: Noise) -> KernelChange:
    (before,), (after,) = _sides(match)
    move = move_of(before, after, noise=noise)
    contribution_s = after.total_s - before.total_s
    is_wait = is_waiting(before, after)
    count_s = (after.count - before.count) * (after.mean_s + before.mean_s) / 2
    time_s = contribution_s - count_s
    kind, what = _what_changed(before, after)
    if is_wait:
        clauses = [what, _wait_clause(before, after)]
        kind = kind or (ChangeKind.WAITED if abs(time_s) > abs(count_s) else None)
    else:
        clauses = [what, _time_clause(before, after, move=move)]
    inputs = _inputs_clause(before, after)
    if inputs:
        clauses.append(inputs)
    has_other_calls = not is_as_often(before, after)
    if has_other_calls:
        clauses.append(
            f"called {_number(before.count)} -> {_number(after.count)} times per iteration"
            f" ({_signed_us(count_s)} by calls, {_signed_us(time_s)} by the time of one)"
        )
        if where := calls_text(before.kernels, after.kernels):
            clauses.append(where)
        if not (move.is_beyond_noise and abs(time_s) > abs(count_s)):
            is_more = after.count > before.count
            kind = kind or (ChangeKind.MORE_OFTEN if is_more else ChangeKind.LESS_OFTEN)
    return KernelChange(
        kind=kind or _kind_of_time(move),
        baseline=before.kernels,
        candidate=after.kernels,
        contribution_s=contribution_s,
        text="; ".join(clauses) + ".",
        matched_by=match.matched_by,
        count_s=count_s,
        time_s=time_s,
        has_other_inputs=inputs == _OTHER_SHAPES,
        # A change of calls in the other direction is no evidence for a time change within noise.
        is_beyond_noise=move.is_beyond_noise
        or (is_wait and move.is_mean_beyond)
        or (has_other_calls and count_s * contribution_s > 0),
    )


def _kind_of_time(move: Move) -> ChangeKind:
    if not move.is_beyond_noise:
        return ChangeKind.UNCHANGED
    return ChangeKind.SLOWER if move.is_slower else ChangeKind.FASTER


def _what_changed(before: Group, after: Group) -> tuple[ChangeKind | None, str]:
    """Return the class if not only times or calls changed, and the beginning of the sentence."""
    is_same = bool(before.code.identity) and before.code.identity == after.code.identity
    if before.is_generated != after.is_generated and not is_same:
        return ChangeKind.OTHER_CODE, _algorithms(before.first, after.first)
    if not (before.is_generated and after.is_generated):
        if not is_same:
            return ChangeKind.OTHER_ALGORITHM, _algorithms(before.first, after.first)
        what = "Same operator (dispatch overhead)" if after.is_dispatch else "Same library kernel"
    elif is_same or _is_same_but_for_choices(before, after):
        what = "Same code"
    elif before.code.is_recorded and after.code.is_recorded:
        return ChangeKind.OTHER_CODE, _other_code(before, after)
    else:
        what = "Its code was not recorded on both sides"
    chosen = _other_choices(before, after)
    if chosen:
        choices = ", ".join(f"{name} {one} -> {other}" for name, (one, other) in chosen.items())
        return ChangeKind.OTHER_CONFIG, f"{what}, other configuration: {choices}"
    old, new = (group.first.launch.get("registers") for group in (before, after))
    if old is not None and new is not None and old != new:
        what += f", compiled to {old} -> {counted(new, 'register')}"
    return None, what


def _inputs_clause(before: Group, after: Group) -> str:
    """Return the difference of the inputs as a clause, "" for none."""
    kernels = (*before.kernels, *after.kernels)
    has_operator = [not is_unattributed(kernel) for kernel in kernels]
    if any(has_operator) and not all(has_operator):
        return "some of its calls have no recorded operator, as in a replayed graph"
    has_shapes = [bool(kernel.shapes) for kernel in kernels]
    if any(has_shapes) and not all(has_shapes):
        return "some of its calls have no recorded shapes"
    is_same = has_same_inputs(before, after)
    if before.operators != after.operators:
        # Operators of two libraries list their inputs in another order.
        is_same = is_same or has_same_call(before, after)
    return "" if is_same else _OTHER_SHAPES


def _is_same_but_for_choices(before: Group, after: Group) -> bool:
    one, other = before.code.text, after.code.text
    return bool(one and other) and without_choices(one) == without_choices(other)


def _other_choices(before: Group, after: Group) -> dict[str, tuple[Any, Any]]:
    """Return the differing choices of the autotuner, without those of one side only."""
    pairs = [(before.first.config, after.first.config)]
    if before.code.identity != after.code.identity:
        pairs.append((choices_of(before.code.text), choices_of(after.code.text)))
    choices = {name: values for sides in pairs for name, values in _differing(*sides).items()}
    if not choices and before.first.shapes and before.first.shapes == after.first.shapes:
        launches = [
            {name: group.first.launch.get(name) for name in ("grid", "block")}
            for group in (before, after)
        ]
        choices = {
            name: values for name, values in _differing(*launches).items() if None not in values
        }
    return choices


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        name: (one[name], other[name])
        for name in sorted(one.keys() & other.keys())
        if one[name] != other[name]
    }


def _other_code(before: Group, after: Group) -> str:
    if not (before.code.text and after.code.text):
        return "Other code"
    return f"Other code, {100 * likeness(before.code.pairs, after.code.pairs):.0f} % alike"


def _algorithms(before: Kernel, after: Kernel) -> str:
    # Labels are readable, but may omit the difference of two algorithms.
    sides = (before.label, after.label)
    if before.label == after.label:
        sides = (before.name, after.name)
    names = " -> ".join(shortened(name, limit=_MAX_NAME) for name in sides)
    if before.library == after.library:
        return f"{before.library} chose another algorithm: {names}"
    return f"{before.library} before, {after.library} now: {names}"


def _time_clause(before: Group, after: Group, *, move: Move) -> str:
    times = f"{_us(before.mean_s)} -> {_us(after.mean_s)} us"
    if move.is_beyond_noise:
        return f"{_percent(before.mean_s, after.mean_s)}{times}"
    if move.why:
        return f"{times} a call, but {move.why}"
    return f"no change of time beyond noise, {times} a call"


def _wait_clause(before: Group, after: Group) -> str:
    fastest = f"{_us(before.fastest_s)} -> {_us(after.fastest_s)} us"
    waits = " -> ".join(_us(wait_s(group)) for group in (before, after))
    return (
        f"the fastest call took {fastest}, and all calls together waited {waits} us per iteration"
        " for other ranks"
    )


def _percent(before_s: float, after_s: float) -> str:
    return f"{signed_percent(after_s / before_s - 1, decimals=0)} a call, " if before_s else ""


def _sides(match: Match) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    return match.baseline, match.candidate


def _kernels(groups: Sequence[Group]) -> tuple[Kernel, ...]:
    return tuple(kernel for group in groups for kernel in group.kernels)


def _number(count: float) -> str:
    return f"{count:,.0f}" if count == round(count) else f"{count:,.1f}"


def _us(time_s: float) -> str:
    """Return the microseconds with three significant digits or all before the point."""
    time_us = 1e6 * time_s
    digits = 0 if abs(time_us) >= 100 else 1 if abs(time_us) >= 10 else 2
    return f"{time_us:,.{digits}f}"


def _signed_us(time_s: float) -> str:
    return f"{'+' if time_s >= 0 else ''}{_us(time_s)} us"


def _brief(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "library": kernel.library,
        "shapes": kernel.shapes,
        "module": kernel.module,
        "operators": list(kernel.operators),
        "count": kernel.count,
        "total_us": 1e6 * kernel.total_s,
        "mean_us": 1e6 * kernel.mean_s,
        "min_us": 1e6 * kernel.min_s,
        "source_hash": kernel.source_hash,
        "config": dict(kernel.config),
    }
