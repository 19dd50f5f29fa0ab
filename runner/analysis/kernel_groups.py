"""One side of a kernel diff: its kernels as groups, and what is known of each.

Kernels that nothing but their place tells apart (the same code or library kernel, with the same
shapes and configuration) are one group, so that what is called from three places on one side and
from two on the other is "called less often" and nobody has to say which two of the three these are.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from db.errors import RecordError
from db.kernels import Kernel, Profile
from db.warning import RunWarning
from runner.analysis.kernel_code import Pairs, plain_code, token_pairs

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
            known += [profile.iteration_s, profile.overlap_s, *profile.parts.values()]
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
    pairs: Pairs = field(default_factory=Counter)
    is_recorded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kernels of one side that are the same but for their place, in an order of their own.

    `nodes` are those of the graph. `words` say what it does in the user's operators: Inductor
    takes `gelu` apart into `mul` and `erf`, and keeps it in the label.
    """

    kernels: tuple[Kernel, ...]
    code: Code
    operators: frozenset[str]
    nodes: frozenset[str]
    words: frozenset[str]

    @property
    def first(self) -> Kernel:
        """Return a kernel that stands for all of them."""
        return self.kernels[0]

    @property
    def is_dispatch(self) -> bool:
        """Return whether it is no kernel, but what an operator does outside of one."""
        return self.first.kind == "dispatch"

    @property
    def is_generated(self) -> bool:
        """Return whether the compiler wrote it."""
        return self.first.library in GENERATED

    @property
    def count(self) -> float:
        """Return the calls an iteration."""
        return math.fsum(kernel.count for kernel in self.kernels)

    @property
    def total_s(self) -> float:
        """Return the seconds an iteration."""
        return math.fsum(kernel.total_s for kernel in self.kernels)

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
    gathered: dict[str, list[Kernel]] = defaultdict(list)
    code_of: dict[str, Code] = {}
    for kernel in side.kernels:
        code = _code_of(kernel, sources=sources, known=codes)
        name = _group_name(kernel, code=code)
        gathered[name].append(kernel)
        code_of[name] = code
    groups = [_group(kernels, code=code_of[name]) for name, kernels in gathered.items()]
    return sorted(groups, key=order_of)


def order_of(group: Group) -> tuple[Any, ...]:
    """Return what groups are sorted by: equal only for groups that nothing tells apart.

    Times stand before names, so that a number given by the compiler decides as little as can be.
    """
    kernel = group.first
    times = (group.count, group.total_s)
    return (kernel.label, kernel.shapes, *times, *(_rank(item) for item in group.kernels))


def operator_name(text: str) -> str:
    """Return an operator without namespace and overload: `aten.add_.Tensor` is `add`."""
    name = text.removeprefix("torch.ops.").replace("::", ".")
    parts = name.split(".")
    bare = parts[1] if len(parts) > 1 and parts[1] else parts[0]
    return bare.strip("_").removeprefix("native_") or name


def told_operators(operators: Iterable[str]) -> frozenset[str]:
    """Return the operators that say what a kernel computes, moves only where there is no other."""
    names = frozenset(operator_name(text) for text in operators)
    return names - MOVES or names


def _group(kernels: Iterable[Kernel], *, code: Code) -> Group:
    ordered = tuple(sorted(kernels, key=_rank))
    operators = [name for kernel in ordered for name in kernel.operators]
    origins = [origin for kernel in ordered for origin in kernel.origins]
    return Group(
        kernels=ordered,
        code=code,
        operators=told_operators(operators or [item.target for item in origins if item.target]),
        nodes=frozenset(origin.node for origin in origins),
        words=_words(ordered[0]),
    )


def _words(kernel: Kernel) -> frozenset[str]:
    if kernel.library in GENERATED:
        names: Iterable[str] = [kernel.label.partition("fused_")[2]]
    else:
        names = told_operators(kernel.operators)
    words = frozenset(word for name in names for word in name.split("_"))
    return words - MOVES - {"", "native"}


def _rank(kernel: Kernel) -> tuple[Any, ...]:
    """Return what kernels are sorted by; numbers as such, so that another unit changes nothing."""
    document = kernel.to_json()
    times = [document.pop(name) for name in ("count", "total_s", "mean_s", "min_s", "share")]
    return (*times, json.dumps(document, sort_keys=True, default=str))


def _group_name(kernel: Kernel, *, code: Code) -> str:
    # What was generated and has no recorded code may be anything that shares the label.
    identity = code.identity or kernel.name
    operators = () if kernel.library in GENERATED else kernel.operators
    facts = [identity, kernel.library, kernel.kind, kernel.device, kernel.shapes, operators]
    return json.dumps([*facts, kernel.config], sort_keys=True, default=str)


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
            pairs=token_pairs(text),
            is_recorded=True,
        )
    return known[kernel.source_hash]
