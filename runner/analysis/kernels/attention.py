"""Attention that is one kernel on one side, and several kernels on the other.

Method: an attention kernel is scores = Q K', their softmax, and the softmax times V. Its
decomposition is a batched product that gives the scores, a softmax of them, and a product that
takes them. Each is called as often as attention. Its gradient is that of the softmax, and four
products that take or give scores. If the unmatched kernels add up to this, they are one change,
although no two of these kernels share an operator.

Other kernels on the scores that run as often as the softmax belong to it, such as masking. So do
copies, conversions and scalings of the products' inputs and outputs. If both sides still have
unmatched attention, one is rather a version of the other. A trace without shapes has no scores.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from compile_hud.runner.analysis.kernels.fusion import Fusion, is_as_often, is_same_count
from compile_hud.runner.analysis.kernels.grouping import Group, MatchedBy

# The operators of matrix products.
_PRODUCTS: Final = frozenset(("bmm", "baddbmm", "matmul"))
# `log_softmax` belongs to a loss and not to attention.
_SOFTMAX: Final = re.compile(r"(?<!log_)softmax")
# Further words of kernels that move or convert; moves themselves have no words.
_MOVING: Final = frozenset(("to", "mul", "div"))
# "float32 8x4, float64" are the inputs of a call as text.
_SIZES: Final = re.compile(r"(?<= )\d+(?:x\d+)+\b")
_PER_FORWARD, _PER_BACKWARD = 2, 4
# Counts and shapes decide, so a row may have more kernels than one of a fusion: those of the
# attention of an encoder and a decoder, with gradients, are 19.
_MAX_KERNELS: Final = 24

# The number of elements of a tensor, and its last two sizes: rows and columns of its matrices, the
# smaller one first, since a product may take either of them transposed.
_Matrices = tuple[int, int, int]


def find_attention(groups: Sequence[Group], others: Sequence[Group]) -> list[Fusion]:
    """Return the attention of one side that the other one takes apart: one fusion, or none."""
    for wholes_of, parts_of in ((groups, others), (others, groups)):
        wholes = _attention_in(wholes_of)
        if not wholes or _attention_in(parts_of):
            continue
        # The operator's other calls are excluded, such as clearing memory.
        operators = frozenset[str]().union(*(group.operators for group in wholes))
        wholes = [
            group
            for group in wholes_of
            if group.first.kind == "attention"
            or (not group.is_dispatch and group.operators & operators)
        ]
        kernels = [group for group in parts_of if not group.is_dispatch]
        if parts := _parts(wholes, among=kernels, most=_MAX_KERNELS - len(wholes)):
            before, after = (wholes, parts) if wholes_of is groups else (parts, wholes)
            return [
                Fusion(groups=tuple(before), others=tuple(after), matched_by=MatchedBy.ATTENTION)
            ]
    return []


def _attention_in(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if group.first.kind == "attention"]


def _parts(wholes: Sequence[Group], *, among: Sequence[Group], most: int) -> list[Group]:
    """Return the kernels that together do the work of `wholes`, in order; empty without any.

    They are at most `most`: auxiliary kernels are left out first.
    """
    products = [group for group in among if group.operators & _PRODUCTS]
    of_products = _matrices_of(products)
    softmaxes = [group for group in among if _is_softmax(group)]
    scores = _matrices_of(softmaxes) & of_products
    softmaxes = [group for group in softmaxes if _matrices(group) & scores]
    products = [group for group in products if _matrices(group) & scores]
    forward, backward = (
        _count(group for group in softmaxes if _is_backward(group) == is_backward)
        for is_backward in (False, True)
    )
    num_forward, num_backward = _num_forward(wholes), _num_backward(wholes)
    num_products = _PER_FORWARD * num_forward + _PER_BACKWARD * num_backward
    if not (
        _is_once_or_twice(forward, num_forward)
        and _is_once_or_twice(backward, num_backward)
        and is_same_count(_count(products), num_products)
    ):
        return []
    inputs = _matrices_of(products)
    auxiliary = [
        group
        for group in among
        if any(is_as_often(group, softmax) for softmax in softmaxes)
        and _is_auxiliary(group, scores=scores, inputs=inputs)
    ]
    for members in ([*softmaxes, *products, *auxiliary], [*softmaxes, *products]):
        ids = {id(group) for group in members}
        if len(ids) <= most:
            return [group for group in among if id(group) in ids]
    return []


def _is_auxiliary(group: Group, *, scores: set[_Matrices], inputs: set[_Matrices]) -> bool:
    """Return whether `group` works on scores, or moves inputs or outputs of the products."""
    # Without recorded operators, the work of a kernel is unknown.
    if not group.operators or group.first.kind == "gemm":
        return False
    matrices = _matrices(group)
    return bool(matrices & scores) or (group.words <= _MOVING and bool(matrices & inputs))


def _num_forward(wholes: Sequence[Group]) -> float:
    """Return the number of attention calls; a combine kernel merges the splits of one call."""
    return _count(
        group
        for group in _attention_in(wholes)
        if not _is_backward(group) and "combine" not in group.first.name.lower()
    )


def _num_backward(wholes: Sequence[Group]) -> float:
    """Return the number of gradient calls: each is several kernels with the same count."""
    counts: dict[tuple[object, ...], float] = defaultdict(float)
    for group in _attention_in(wholes):
        if _is_backward(group):
            key = (group.operators, group.first.shapes)
            counts[key] = max(counts[key], group.count)
    return math.fsum(counts.values())


def _is_once_or_twice(count: float, num_calls: float) -> bool:
    """Return whether a softmax has this count or twice of it: long rows need two kernels."""
    return is_same_count(count, num_calls) or is_same_count(count, 2 * num_calls)


def _is_softmax(group: Group) -> bool:
    return any(_SOFTMAX.search(name) for name in (group.first.label, *group.operators))


def _is_backward(group: Group) -> bool:
    return any("backward" in name for name in (group.first.label, *group.operators))


def _matrices_of(groups: Iterable[Group]) -> set[_Matrices]:
    return {matrices for group in groups for matrices in _matrices(group)}


def _matrices(group: Group) -> set[_Matrices]:
    """Return the matrices of `group`'s inputs and outputs; an eager product lists its inputs."""
    sizes = [[*map(int, text.split("x"))] for text in _SIZES.findall(group.first.shapes)]
    if group.operators & _PRODUCTS:
        sizes += [
            [*one[:-1], other[-1]]
            for one, other in zip(sizes, sizes[1:], strict=False)
            if one[:-2] == other[:-2] and one[-1] == other[-2]
        ]
    return {(math.prod(size), min(size[-2:]), max(size[-2:])) for size in sizes}


def _count(groups: Iterable[Group]) -> float:
    return math.fsum(group.count for group in groups)
