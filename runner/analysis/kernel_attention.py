"""Attention that one side computes in one kernel, and the other in its parts.

Method: a kernel of attention is scores = Q K', their softmax, and the softmax times V. Taken apart
that is a batched product, a softmax and another batched product (its gradient: the softmax's, and
four products), as often as attention was called. Where all that neither side has a counterpart for
adds up so, it is one change. Names of operators tell nothing here, since no two of these share one.
What is done to the scores besides, as masking, belongs to it as well: it gets what the softmax
gets. So do copies, conversions and scalings of as many elements as a product takes or gives, as
often as the softmax, where all of it is few kernels enough.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from runner.analysis.kernel_fusion import MAX_TOGETHER, Fusion, is_as_often, is_same_count
from runner.analysis.kernel_groups import Group, MatchedBy

# Of products, by the operators that are called for them.
_PRODUCTS: Final = frozenset(("bmm", "baddbmm", "matmul"))
# What a kernel that moves or converts does besides; moves themselves are no words.
_MOVING: Final = frozenset(("to", "mul", "div"))
# "float32 8x4, float64" are the inputs of a call as text.
_SIZES: Final = re.compile(r"(?<= )\d+(?:x\d+)*\b")
_PER_FORWARD, _PER_BACKWARD = 2, 4


def find_attention(groups: Sequence[Group], others: Sequence[Group]) -> list[Fusion]:
    """Return the attention of one side that the other one takes apart: one fusion, or none."""
    for wholes_of, parts_of in ((groups, others), (others, groups)):
        wholes = [group for group in wholes_of if group.first.kind == "attention"]
        parts = _parts(wholes, among=parts_of)
        most = MAX_TOGETHER - len(wholes)
        if 0 < len(parts) <= most:
            together = _with_moves(parts, among=parts_of)
            parts = together if len(together) <= most else parts
            before, after = (wholes, parts) if wholes_of is groups else (parts, wholes)
            return [
                Fusion(groups=tuple(before), others=tuple(after), matched_by=MatchedBy.ATTENTION)
            ]
    return []


def _parts(wholes: Sequence[Group], *, among: Sequence[Group]) -> list[Group]:
    """Return what does together what `wholes` did, in order; empty where that does not add up."""
    softmaxes = [group for group in among if _is_softmax(group)]
    products = [group for group in among if _is_product(group)]
    forward, backward = (
        [group for group in softmaxes if _is_backward(group) == is_backward]
        for is_backward in (False, True)
    )
    num_forward, num_backward = _count(forward), _count(backward)
    num_products = _PER_FORWARD * num_forward + _PER_BACKWARD * num_backward
    is_all = (
        bool(softmaxes)
        and is_same_count(num_forward, _num_calls(wholes, is_backward=False))
        and is_same_count(num_backward, _num_calls(wholes, is_backward=True))
        and is_same_count(num_products, _count(products))
    )
    if not is_all:
        return []
    scores = {_first_input(group) for group in softmaxes} - {""}
    found = {id(group) for group in (*softmaxes, *products)}
    return [
        group
        for group in among
        if id(group) in found or (not group.is_dispatch and _first_input(group) in scores)
    ]


def _with_moves(parts: Sequence[Group], *, among: Sequence[Group]) -> list[Group]:
    """Return `parts` and what prepares the inputs of their products, or copies what they give."""
    softmaxes = [group for group in parts if _is_softmax(group)]
    sizes = {size for group in parts if _is_product(group) for size in _sizes(group)}
    found = {id(group) for group in parts}
    return [
        group
        for group in among
        if id(group) in found
        or (
            not group.is_dispatch
            and group.words <= _MOVING
            and any(is_as_often(group, softmax) for softmax in softmaxes)
            and not sizes.isdisjoint(_sizes(group))
        )
    ]


def _sizes(group: Group) -> set[int]:
    """Return how many elements each tensor of `group` has; of numbers it knows none."""
    return {math.prod(map(int, text.split("x"))) for text in _SIZES.findall(group.first.shapes)}


def _num_calls(wholes: Sequence[Group], *, is_backward: bool) -> float:
    """Return how often attention was called: a call may launch several kernels."""
    by_input: dict[tuple[object, ...], list[Group]] = defaultdict(list)
    for group in wholes:
        if _is_backward(group) == is_backward:
            by_input[group.operators, group.first.shapes].append(group)
    return math.fsum(max(map(attrgetter("count"), found)) for found in by_input.values())


def _is_softmax(group: Group) -> bool:
    # That of a loss is of no attention.
    names = group.words | frozenset(word for name in group.operators for word in name.split("_"))
    return not group.is_dispatch and "softmax" in names and "log" not in names


def _is_product(group: Group) -> bool:
    return not group.is_dispatch and bool(group.operators & _PRODUCTS)


def _is_backward(group: Group) -> bool:
    return "backward" in group.words or any("backward" in name for name in group.operators)


def _first_input(group: Group) -> str:
    return group.first.shapes.partition(",")[0]


def _count(groups: Sequence[Group]) -> float:
    return math.fsum(group.count for group in groups)
