"""One side of a kernel diff: its kernels as groups, and what is known of each.

Kernels that nothing but their place tells apart (the same code or library kernel, with the same
shapes and configuration) are one group, so that what is called from three places on one side and
from two on the other is "called less often" and nobody has to say which two of the three these are.
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
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.kernels.code_similarity import Pairs, plain_code, token_pairs

# Whose kernels are generated for the model; the others come from libraries, which choose them.
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
    """The rule that brought kernels of both sides together, from the most to the least certain."""

    CODE_AND_SHAPES = "code and shapes"
    NAME_AND_SHAPES = "label, operators and shapes"
    NAME = "label and operators"
    CODE = "code"
    OPERATORS_AND_SHAPES = "operators and shapes"
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
    """What is known of one of the two results: `sources` is the code of its kernels by hash.

    `latency_s` is the median of samples that were taken without the profiler, None where there are
    none, as for a trace file; `deviation` is the standard deviation of their logarithms.
    `warnings` are those of the result.
    """

    kernels: tuple[Kernel, ...]
    sources: Mapping[str, str]
    profile: Profile | None = None
    latency_s: float | None = None
    deviation: float = 0.0
    warnings: tuple[RunWarning, ...] = ()

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
                    " the result again"
                )
        profile, known = self.profile, [] if self.latency_s is None else [self.latency_s]
        if profile is not None:
            known += [profile.iteration_s, profile.overlap_s, *profile.components.values()]
        if not _are_times(known):
            raise RecordError(
                f"a latency or a part of it is not between 0 and {_MAX_TIME_S:g} s: {known}."
                " Record the result again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code of a group: `text` without what is volatile, empty where only its hash is known.

    Equal `identity` is equal code; a library kernel is identified by its name, a generated one
    whose code nobody recorded by Inductor's hash, or else by nothing. Where code `is_recorded` on
    both sides another identity is other code; Inductor's hash is another one for another name.
    """

    identity: str
    text: str = ""
    is_recorded: bool = False

    @property
    def pairs(self) -> Pairs:
        """Return how often each two neighbouring tokens are in the text."""
        return token_pairs(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kernels of one side that are the same but for their place, in an order of their own.

    `count` is the calls an iteration, `total_s` their seconds. `order` is what groups are sorted
    by, equal only where nothing tells two apart: times stand before names, so that a number given
    by the compiler decides as little as can be. `nodes` are those of the graph. `words` say what it
    does in the user's operators: Inductor takes `gelu` apart into `mul` and `erf`, and keeps it in
    the label. `of_count` is the calls of all that this is a part of (`calls_of`), else `count`.
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

    @property
    def first(self) -> Kernel:
        """Return a kernel that stands for all of them."""
        return self.kernels[0]

    @property
    def is_dispatch(self) -> bool:
        """Return whether it is no kernel, but what an operator does outside of one."""
        return self.first.is_dispatch

    @property
    def is_generated(self) -> bool:
        """Return whether the compiler wrote it."""
        return self.first.library in GENERATED

    @property
    def mean_s(self) -> float:
        """Return the seconds of one call, 0 where there is none."""
        count = self.count
        return self.total_s / count if count else 0.0

    @property
    def fastest_s(self) -> float:
        """Return the seconds of a call if each kernel's were as long as its fastest."""
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
    groups = [_group(kernels, code=code_of[name]) for name, kernels in gathered.items()]
    return sorted(groups, key=attrgetter("order"))


def operator_name(text: str) -> str:
    """Return an operator without namespace and overload: `aten.add_.Tensor` is `add`."""
    name = text.removeprefix("torch.ops.").replace("::", ".")
    parts = name.split(".")
    bare = parts[1] if len(parts) > 1 and parts[1] else parts[0]
    return bare.strip("_").removeprefix("native_") or name


def reportable_operators(operators: Iterable[str]) -> frozenset[str]:
    """Return the operators that say what a kernel computes, moves only where there is no other."""
    names = frozenset(operator_name(text) for text in operators)
    return names - MOVES or names


def calls_of(group: Group, count: float, *, after: float = 0.0) -> Group:
    """Return `count` of the calls of `group`, those that follow its first `after`."""
    kernels: list[Kernel] = []
    for kernel in group.kernels:
        passed = min(after, kernel.count)
        taken = min(count, kernel.count - passed)
        after, count = after - passed, count - taken
        # Differences of fractions leave what is no call.
        if taken > _MIN_COUNT:
            kernels.append(_share_of(kernel, taken / kernel.count))
    part = _group(kernels, code=group.code)
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


def _group(kernels: Iterable[Kernel], *, code: Code) -> Group:
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
    """Return what kernels are sorted by; numbers as such, so that another unit changes nothing."""
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
    # What was generated and has no recorded code may be anything that shares the label.
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
