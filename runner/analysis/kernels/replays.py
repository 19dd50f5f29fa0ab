"""Match kernels that one side recorded without their operator or shapes, as in a replayed graph.

A replay of a CUDA or HIP graph has one launch on the host for all of its kernels. These kernels
have neither operator nor shapes, so one row has all calls of a name. Kernels that are launched one
by one are a row for each operator and its shapes. A trace without shapes differs likewise from one
with them.

Method: of the kernels with one name, those with the same operators, shapes and number of calls on
both sides are matched by other rules. The remaining ones are one match if one side has more calls
without an operator, and the other side has rows with one. So a partial replay matches as well.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.fusion import is_as_often, is_same_count
from compile_hud.runner.analysis.kernels.grouping import Code, Group, group_of

# Inductor numbers its kernels by order, so a name may stand for another kernel of the other side.
_NUMBERED = re.compile(r"(?:graph_\d+_)?(?:cpp|triton)_\w+")
_Key = Callable[[Group], Hashable]
_IsUnknown = Callable[[Group], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Kernels of one name: both sides as one group each, and the groups that these consist of."""

    group: Group
    other: Group
    members: tuple[Group, ...]


def find_replays(groups: Sequence[Group], others: Sequence[Group]) -> list[Replay]:
    """Return the kernels that only one side recorded with all of their operators or shapes."""
    replays: list[Replay] = []
    are_without = [all(map(_has_no_shapes, side)) for side in (groups, others)]
    levels = _LEVELS if are_without[0] != are_without[1] else _LEVELS[1:]
    for key, is_unknown in levels:
        taken = {id(group) for item in replays for group in item.members}
        ours, theirs = (
            _by_key((group for group in side if id(group) not in taken), key=key)
            for side in (groups, others)
        )
        for name in [name for name in ours if name in theirs]:
            replay = _replay(ours[name], theirs[name], is_unknown=is_unknown)
            if replay is not None:
                replays.append(replay)
    return replays


def _name_and_operators(group: Group) -> Hashable:
    return (group.first.name, group.operators) if _is_named(group) and group.operators else None


def _name(group: Group) -> Hashable:
    return group.first.name if _is_named(group) else None


def _is_named(group: Group) -> bool:
    return not group.is_dispatch and _NUMBERED.fullmatch(group.first.name) is None


def _has_no_shapes(group: Group) -> bool:
    return not group.first.shapes


def _has_no_operator(group: Group) -> bool:
    return is_unattributed(group.first)


_LEVELS: tuple[tuple[_Key, _IsUnknown], ...] = (
    (_name_and_operators, _has_no_shapes),
    (_name, _has_no_operator),
)


def is_unattributed(kernel: Kernel) -> bool:
    """Return whether neither an operator nor inputs of the kernel were recorded."""
    return not kernel.operators and not kernel.shapes


def _by_key(groups: Iterable[Group], *, key: _Key) -> dict[Hashable, list[Group]]:
    by_key: dict[Hashable, list[Group]] = defaultdict(list)
    for group in groups:
        if (name := key(group)) is not None:
            by_key[name].append(group)
    return by_key


def _replay(groups: list[Group], others: list[Group], *, is_unknown: _IsUnknown) -> Replay | None:
    counts = [
        math.fsum(group.count for group in side if is_unknown(group)) for side in (groups, others)
    ]
    with_fewer = groups if counts[0] < counts[1] else others
    if is_same_count(*counts) or all(map(is_unknown, with_fewer)):
        return None
    ours, theirs = _without_pairs(groups, others)
    if not ours or not theirs:
        ours, theirs = groups, others
    known = max(
        (group for group in (*ours, *theirs) if not is_unknown(group)),
        key=lambda group: (group.total_s, group.order),
        default=None,
    )
    if known is None:
        return None
    is_pooled = max(len({_inputs(group) for group in side}) for side in (ours, theirs)) > 1
    return Replay(
        group=_pool(ours, like=known.first, is_pooled=is_pooled),
        other=_pool(theirs, like=known.first, is_pooled=is_pooled),
        members=(*ours, *theirs),
    )


def _without_pairs(
    groups: Sequence[Group], others: Sequence[Group]
) -> tuple[list[Group], list[Group]]:
    """Return the groups of both sides without those that are equal on both."""
    ours, theirs = list(groups), list(others)
    for group in groups:
        equal = next(
            (
                other
                for other in theirs
                if group.first.shapes
                and _inputs(group) == _inputs(other)
                and is_as_often(group, other)
            ),
            None,
        )
        if equal is not None:
            ours = [item for item in ours if item is not group]
            theirs = [item for item in theirs if item is not equal]
    return ours, theirs


def _inputs(group: Group) -> tuple[frozenset[str], str]:
    return group.operators, group.first.shapes


def _pool(groups: Iterable[Group], *, like: Kernel, is_pooled: bool) -> Group:
    """Return the groups as one, with the code of `like`: without an operator it is not certain."""
    kernels = [kernel for group in groups for kernel in group.kernels]
    pool = group_of(kernels, code=Code(identity=f"{like.library} {like.name}"))
    return replace(pool, is_pooled=is_pooled)
