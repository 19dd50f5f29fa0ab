"""One side of a kernel diff: its kernels as groups, with their properties.

Kernels that differ only in their location (the same code or library kernel, with the same shapes
and configuration) are one group. Three calls on one side and two on the other are then "called less
often", without a guess which two of the three remain.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter, itemgetter
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.records.memory.peak import PeakHolders
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.kernels.code_similarity import Pairs, plain_code, token_pairs

# Kernels of these libraries are generated for the model; the others are chosen by a library.
GENERATED = ("triton", "inductor-cpp")
# Operators that only name other bytes or move them: fusions come and go with them.
MOVES = frozenset(
    ("as_strided", "clone", "copy", "detach", "empty", "expand", "permute", "reshape", "slice")
    + ("squeeze", "t", "to_copy", "transpose", "unsqueeze", "view")
)


# An iteration of twelve days, and a call in a million of them.
_MAX_TIME_S = 1e6
_MIN_COUNT, _MAX_COUNT = 1e-6, 1e9


class MatchedBy(StrEnum):
    """The rule that matched kernels of both sides, from the most to the least certain."""

    CODE_AND_SHAPES = "code and shapes"
    REPLAY = "name, with an operator or shapes on one side only"
    NAME_AND_SHAPES = "label, operators and shapes"
    NAME = "label and operators"
    CODE = "code"
    CALL = "operator and inputs of a call, in several kernels"
    OPERATORS_AND_SHAPES = "operators and shapes"
    OTHER_LIBRARY = "operator of another library, and its inputs"
    OPERATORS = "operators"
    NODES_OF_FUSION = "nodes of the graph, fused otherwise"
    OPERATORS_OF_FUSION = "operators, fused otherwise"
    WORDS_OF_FUSION = "words of the label, fused otherwise"
    ATTENTION = "attention and its parts"
    WORDS = "words of the label"
    LIKENESS = "likeness"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSide:
    """One of the two results: its kernels, with their code in `sources` by hash.

    `latency_s` is the median of samples without the profiler, None without such samples, as for a
    trace file; `deviation` is the standard deviation of their logarithms. `warnings` are those of
    the result. `memory` has the holders of memory at the peak, None if they were not recorded.
    """

    kernels: tuple[Kernel, ...]
    sources: Mapping[str, str]
    profile: Profile | None = None
    latency_s: float | None = None
    deviation: float = 0.0
    warnings: tuple[RunWarning, ...] = ()
    memory: PeakHolders | None = None

    def __post_init__(self) -> None:
        """Raise RecordError for a number that no profiler gives: sums of them would overflow."""
        for kernel in self.kernels:
            times_s = (kernel.total_s, kernel.mean_s, kernel.min_s)
            if not _are_times(times_s) or not (
                kernel.count == 0 or _MIN_COUNT <= kernel.count <= _MAX_COUNT
            ):
                raise RecordError(
                    f"kernel {kernel.name!r} has {kernel.count:g} calls of {kernel.mean_s:g} s an"
                    f" iteration, {kernel.total_s:g} s together, which no profiler gives. Record"
                    " the result again",
                    kernel=kernel.name,
                    problem="times",
                )
        profile, known = self.profile, [] if self.latency_s is None else [self.latency_s]
        if profile is not None:
            known += [profile.iteration_s, profile.overlap_s, *profile.components.values()]
        if not _are_times(known):
            raise RecordError(
                f"a latency or a part of it is not between 0 and {_MAX_TIME_S:g} s: {known}."
                " Record the result again",
                times_s=tuple(known),
                largest_s=_MAX_TIME_S,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code of a group: `text` without volatile parts, empty if only its hash is known.

    Equal `identity` is equal code. The identity of a library kernel is its name, that of a
    generated one without recorded code is Inductor's hash, else empty. If the code `is_recorded` on
    both sides, another identity is other code; Inductor's hash also differs for another name.
    """

    identity: str
    text: str = ""
    is_recorded: bool = False

    @property
    def pairs(self) -> Pairs:
        """Return the counts of adjacent tokens in the text."""
        return token_pairs(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kernels of one side that differ only in their location, in a canonical order.

    `count` is the calls an iteration, `total_s` their seconds. `order` is the sort key of groups,
    equal only for indistinguishable ones. Times precede names in it, so that a number assigned by
    the compiler rarely decides. `nodes` are those of the graph. `words` describe the work in the
    user's operators: Inductor splits `gelu` into `mul` and `erf`, but the label has it. `of_count`
    is the calls of the complete group if this is a part of one (`calls_of`), else `count`. With
    `is_pooled` its calls have several inputs, which not every row separates (replays.py).
    """

    kernels: tuple[Kernel, ...]
    code: Code
    operators: frozenset[str]
    nodes: frozenset[str]
    words: frozenset[str]
    count: float
    total_s: float
    order: tuple[Any, ...]
    of_count: float
    is_pooled: bool = False

    @property
    def first(self) -> Kernel:
        """Return a representative kernel of the group."""
        return self.kernels[0]

    @property
    def is_dispatch(self) -> bool:
        """Return whether the group is no kernel, but the overhead of an operator outside of one."""
        return self.first.is_dispatch

    @property
    def is_generated(self) -> bool:
        """Return whether the compiler generated it."""
        return self.first.library in GENERATED

    @property
    def mean_s(self) -> float:
        """Return the seconds of one call, 0 where there is none."""
        count = self.count
        return self.total_s / count if count else 0.0

    @property
    def fastest_s(self) -> float:
        """Return the seconds of a call if each kernel's were as long as its fastest.

        For a pooled group it is the fastest call of all: a row of several inputs has no other.
        """
        if self.is_pooled:
            return min(kernel.min_s for kernel in self.kernels)
        count = self.count
        total_s = math.fsum(kernel.count * kernel.min_s for kernel in self.kernels)
        return total_s / count if count else 0.0


def _are_times(times_s: Iterable[float]) -> bool:
    return all(0 <= time_s <= _MAX_TIME_S for time_s in times_s)


def group_kernels(side: KernelSide, *, sources: Mapping[str, str]) -> list[Group]:
    """Return the groups of `side` in an order that does not depend on that of its kernels."""
    codes: dict[str, Code] = {}
    gathered: dict[tuple[Any, ...], list[Kernel]] = defaultdict(list)
    code_of: dict[tuple[Any, ...], Code] = {}
    for kernel in side.kernels:
        code = _code_of(kernel, sources=sources, known=codes)
        name = _group_name(kernel, code=code)
        gathered[name].append(kernel)
        code_of[name] = code
    groups = [group_of(kernels, code=code_of[name]) for name, kernels in gathered.items()]
    return sorted(groups, key=attrgetter("order"))


def operator_name(text: str) -> str:
    """Return an operator without namespace and overload: `aten.add_.Tensor` is `add`."""
    name = text.removeprefix("torch.ops.").replace("::", ".")
    parts = name.split(".")
    bare = parts[1] if len(parts) > 1 and parts[1] else parts[0]
    return bare.strip("_").removeprefix("native_") or name


def reportable_operators(operators: Iterable[str]) -> frozenset[str]:
    """Return the operators of a kernel without moves, or the moves if it has no other."""
    names = frozenset(operator_name(text) for text in operators)
    return names - MOVES or names


def calls_of(group: Group, count: float, *, after: float = 0.0) -> Group:
    """Return `count` of the calls of `group`, those that follow its first `after`."""
    kernels: list[Kernel] = []
    for kernel in group.kernels:
        passed = min(after, kernel.count)
        taken = min(count, kernel.count - passed)
        after, count = after - passed, count - taken
        # Differences of fractions leave remainders that are no call.
        if taken > _MIN_COUNT:
            kernels.append(_share_of(kernel, taken / kernel.count))
    part = group_of(kernels, code=group.code)
    return replace(part, of_count=group.of_count)


def _share_of(kernel: Kernel, share: float) -> Kernel:
    return replace(
        kernel,
        count=share * kernel.count,
        total_s=share * kernel.total_s,
        share=share * kernel.share,
    )


def has_same_inputs(one: Group, other: Group) -> bool:
    """Return whether both get the same inputs; Inductor lists the tensor to write to as well."""
    shapes = one.first.shapes, other.first.shapes
    if shapes[0] == shapes[1]:
        return True
    (few, few_rest), (many, many_rest) = sorted(
        (_listed(text) for text in shapes), key=lambda item: len(item[0])
    )
    is_library = not one.is_generated and not other.is_generated
    return (
        is_library
        and bool(few)
        and len(many) == len(few) + 1
        and many[: len(few)] == few
        and few_rest == many_rest
    )


def _listed(shapes: str) -> tuple[list[str], str]:
    tensors, _, rest = shapes.partition(";")
    return [item for item in tensors.split(", ") if item], rest


def group_of(kernels: Iterable[Kernel], *, code: Code) -> Group:
    """Return the group of kernels with the same `code`."""
    ranked = sorted(((_rank(kernel), kernel) for kernel in kernels), key=itemgetter(0))
    ordered = tuple(kernel for _, kernel in ranked)
    times = (
        math.fsum(kernel.count for kernel in ordered),
        math.fsum(kernel.total_s for kernel in ordered),
    )
    operators = [name for kernel in ordered for name in kernel.operators]
    origins = [origin for kernel in ordered for origin in kernel.origins]
    return Group(
        kernels=ordered,
        code=code,
        operators=reportable_operators(
            operators or [item.target for item in origins if item.target]
        ),
        nodes=frozenset(origin.node for origin in origins),
        words=_words(ordered[0]),
        count=times[0],
        total_s=times[1],
        of_count=times[0],
        order=(ordered[0].label, ordered[0].shapes, *times, *(rank for rank, _ in ranked)),
    )


def _words(kernel: Kernel) -> frozenset[str]:
    if kernel.library in GENERATED:
        names: Iterable[str] = [kernel.label.partition("fused_")[2]]
    else:
        names = reportable_operators(kernel.operators)
    words = frozenset(word for name in names for word in name.split("_"))
    return words - MOVES - {"", "native"}


def _rank(kernel: Kernel) -> tuple[Any, ...]:
    """Return the sort key of kernels; it has numbers as such, independent of their unit."""
    times = (kernel.count, kernel.total_s, kernel.mean_s, kernel.min_s, kernel.share)
    maybe = (kernel.num_bytes, kernel.flops, kernel.roofline)
    return (
        *times,
        *(-1.0 if number is None else number for number in maybe),
        *(kernel.name, kernel.library, kernel.kind, kernel.device, kernel.module, kernel.shapes),
        *(kernel.operators, kernel.source_hash, _text(kernel.config), _text(kernel.launch)),
        tuple(tuple(origin.to_json().values()) for origin in kernel.origins),
    )


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, default=str) if values else ""


def _group_name(kernel: Kernel, *, code: Code) -> tuple[Any, ...]:
    # Generated kernels without recorded code may share a label and still differ.
    identity = code.identity or kernel.name
    operators = () if kernel.library in GENERATED else kernel.operators
    facts = (identity, kernel.library, kernel.kind, kernel.device, kernel.shapes, operators)
    return (*facts, _text(kernel.config))


def _code_of(kernel: Kernel, *, sources: Mapping[str, str], known: dict[str, Code]) -> Code:
    if not kernel.source_hash:
        if kernel.library in GENERATED:
            return Code(identity=str(kernel.launch.get("kernel_hash", "")))
        return Code(identity=f"{kernel.library} {kernel.name}")
    if kernel.source_hash not in known:
        text = plain_code(sources.get(kernel.source_hash, ""))
        known[kernel.source_hash] = Code(
            identity=text or kernel.source_hash,
            text=text,
            is_recorded=True,
        )
    return known[kernel.source_hash]
