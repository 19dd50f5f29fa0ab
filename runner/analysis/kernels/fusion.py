"""Find kernels of one side that together do the work of others: the compiler fused differently.

Method: a kernel computes graph nodes and operators. It was split if several kernels of the other
side compute nothing that it did not, and together at least MIN_SHARED of its work. All of them are
called as often as it, or from its module. Merged is the same in the other direction. The pieces may
overlap, since the compiler recomputes cheap operators in each kernel that needs them. Work of a
split kernel may have moved to a kernel that existed before: then both are one change, since one
saves what the other costs. Remaining kernels with common work are one change if all of them
together compute the same on both sides and they are few. Nodes come first: known nodes are certain,
since a fusion leaves the graph unchanged. Operators follow for graph breaks, and words of labels if
one side is eager or no operators were recorded. A kernel computes one product, so products with
other inputs are no parts of it. Neither is a kernel of a library, unless both are from one call.

One call of an operator may run several kernels: a product and its epilogue, or the transposes and
the product of a convolution. The kernels of a call are one change if their number differs.

Operator calls of an eager model: an operator whose words are all in the label of a generated kernel
of the other side may be part of it. Six layer norms may be in three kernels, so calls are assigned.
Equal numbers of calls come first. Then each kernel gets up to its number of calls, the busiest
first. The rest goes to a kernel with that number of calls or to the only one. A kernel whose label
the operators cover by less than MIN_SHARED returns them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from compile_hud.runner.analysis.kernels.grouping import Group, MatchedBy, calls_of
from compile_hud.runner.analysis.kernels.operator_families import (
    CONVOLUTION,
    PRODUCTS,
    families_of,
    has_same_call,
    input_sizes,
    list_settings,
)

# At least this share of the work of both sides must be the same.
MIN_SHARED = 0.75
# With more kernels, their correspondence would be a guess.
MAX_REGROUPED = 8
# Calls are counted over whole iterations; a trace that begins or ends within one is off by less.
_COUNT_TOLERANCE = 0.01

_Contents = Callable[[Group], frozenset[str]]
_NODES: _Contents = attrgetter("nodes")


_RULES: tuple[tuple[MatchedBy, _Contents], ...] = (
    (MatchedBy.NODES_OF_FUSION, _NODES),
    (MatchedBy.OPERATORS_OF_FUSION, attrgetter("operators")),
    (MatchedBy.WORDS_OF_FUSION, attrgetter("words")),
)
_Sides = tuple[list[Group], list[Group]]
# The operator of a call and Inductor's name of it differ: eager looks up an embedding like this.
_CALLED_BY = {frozenset(("index", "select")): frozenset(("embedding",))}
# Less than a call in a hundred iterations is none.
_MIN_CALLS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """Kernels of one side, `groups`, that together do the work of `others` of the other side."""

    groups: tuple[Group, ...]
    others: tuple[Group, ...]
    matched_by: MatchedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCalls:
    """The detected fusions, and the remaining groups of the operators, in order."""

    fusions: tuple[Fusion, ...]
    left: tuple[Group, ...]


def shared_part(one: frozenset[str], other: frozenset[str]) -> float:
    """Return Jaccard's index, the share of common elements; 0 for two empty sets."""
    union = one | other
    return len(one & other) / len(union) if union else 0.0


def is_as_often(one: Group, other: Group) -> bool:
    """Return whether both are called as often an iteration."""
    return is_same_count(one.count, other.count)


def is_same_count(one: float, other: float) -> bool:
    """Return whether both are the same number of calls an iteration."""
    return math.isclose(one, other, rel_tol=_COUNT_TOLERANCE)


def find_calls(groups: Sequence[Group], others: Sequence[Group]) -> list[Fusion]:
    """Return the calls of an operator that run another number of kernels on the other side."""
    ours, theirs = (_by_call(side) for side in (groups, others))
    return [
        Fusion(groups=tuple(ours[call]), others=tuple(theirs[call]), matched_by=MatchedBy.CALL)
        for call in ours
        if call in theirs and _are_of_one_call(ours[call], theirs[call])
    ]


def _by_call(groups: Sequence[Group]) -> dict[Hashable, list[Group]]:
    by_call: dict[Hashable, list[Group]] = {}
    for group in groups:
        if not (group.is_dispatch or group.is_generated) and group.operators:
            call = (families_of(group), input_sizes(group), list_settings(group))
            by_call.setdefault(call, []).append(group)
    return by_call


def _are_of_one_call(groups: Sequence[Group], others: Sequence[Group]) -> bool:
    """Return whether both sides are kernels of one call, in another number.

    Each has the one product of the call. Only a convolution may have several, of its transforms:
    more products with the same inputs are rather more calls.
    """
    members = [*groups, *others]
    products = [[group for group in side if _is_product(group)] for side in (groups, others)]
    has_shapes = all(group.first.shapes for group in members)
    is_convolution = has_shapes and any(group.first.kind == CONVOLUTION for group in members)
    return (
        len(groups) != len(others)
        and len(members) <= MAX_REGROUPED
        and all(is_as_often(group, members[0]) for group in members)
        and all(len(side) == 1 or (is_convolution and side) for side in products)
    )


def _is_product(group: Group) -> bool:
    return group.first.kind in PRODUCTS


def find_fusions(groups: Sequence[Group], others: Sequence[Group]) -> list[Fusion]:
    """Return the fusions that changed, each kernel in one at most."""
    fusions: list[Fusion] = []
    for rule, contents in _RULES:
        taken = {id(group) for item in fusions for group in (*item.groups, *item.others)}
        ours, theirs = (
            [item for item in side if _may_be_fused(item, contents=contents, taken=taken)]
            for side in (groups, others)
        )
        for one, other in _fused_otherwise(ours, theirs, contents=contents):
            fusions.append(Fusion(groups=tuple(one), others=tuple(other), matched_by=rule))
    return fusions


def _may_be_fused(group: Group, *, contents: _Contents, taken: set[int]) -> bool:
    return bool(contents(group)) and not group.is_dispatch and id(group) not in taken


def _fused_otherwise(
    groups: Sequence[Group], others: Sequence[Group], *, contents: _Contents
) -> list[_Sides]:
    splits = [([whole], parts) for whole, parts in _find_wholes(groups, others, contents=contents)]
    merges = [(parts, [whole]) for whole, parts in _find_wholes(others, groups, contents=contents)]
    side_pairs: list[_Sides] = []
    taken: set[int] = set()
    # The largest first: it explains most.
    for sides in sorted([*splits, *merges], key=lambda item: -len(item[0]) - len(item[1])):
        members = {id(group) for side in sides for group in side}
        if not members & taken:
            taken |= members
            side_pairs.append(sides)
    ours, theirs = ([item for item in side if id(item) not in taken] for side in (groups, others))
    rests = _connected_sides(ours, theirs, contents=contents)
    for index, sides in enumerate(side_pairs):
        side_pairs[index], rests = _with_transfers(sides, rests, contents=contents)
    return [*side_pairs, *(rest for rest in rests if _is_regrouped(rest, contents=contents))]


def _find_wholes(
    wholes: Sequence[Group], parts: Sequence[Group], *, contents: _Contents
) -> list[tuple[Group, list[Group]]]:
    """Return the wholes that are made of several of the parts, with these."""
    choices = {
        index: _choices(part, wholes=wholes, contents=contents) for index, part in enumerate(parts)
    }
    wholes_with_parts: list[tuple[Group, list[Group]]] = []
    excluded: set[int] = set()
    while chosen := _chosen(choices, excluded=excluded):
        if contents is not _NODES:
            chosen = {
                number: _with_one_product(
                    wholes[number], {index: parts[index] for index in indices}
                )
                for number, indices in chosen.items()
            }
        covered = {
            number: _covered(
                wholes[number],
                [parts[index] for index in indices],
                rivals=wholes,
                contents=contents,
            )
            for number, indices in chosen.items()
        }
        ranked = sorted(chosen, key=lambda number: (-covered[number], number))
        # Parts that make up no whole are offered to the others in the next round.
        whole = ranked[0] if covered[ranked[0]] >= MIN_SHARED else ranked[-1]
        excluded.add(whole)
        if covered[whole] >= MIN_SHARED:
            wholes_with_parts.append((wholes[whole], [parts[index] for index in chosen[whole]]))
            for index in chosen[whole]:
                del choices[index]
    return wholes_with_parts


def _chosen(choices: Mapping[int, list[int]], *, excluded: set[int]) -> dict[int, list[int]]:
    """Return the parts that choose each whole, by its index."""
    chosen: dict[int, list[int]] = {}
    for index, ranked in choices.items():
        best = next((number for number in ranked if number not in excluded), None)
        if best is not None:
            chosen.setdefault(best, []).append(index)
    return chosen


def _with_one_product(whole: Group, parts: Mapping[int, Group]) -> list[int]:
    """Return the indices of the parts, with the nearest product only.

    Several remain if all are of the call of `whole`, and in attention, which has two of them.
    """
    products = [index for index, part in parts.items() if _is_product(part)]
    is_one_call = all(has_same_call(parts[index], whole) for index in products)
    if is_one_call or whole.first.kind == "attention":
        return [*parts]
    nearest = max(
        products,
        key=lambda index: (_fit(parts[index], whole), -abs(parts[index].total_s - whole.total_s)),
    )
    return [index for index in parts if index == nearest or index not in products]


def _choices(part: Group, *, wholes: Sequence[Group], contents: _Contents) -> list[int]:
    """Return the indices of the wholes that `part` may belong to, the likeliest first."""
    fits = {
        index: _fit(part, whole)
        for index, whole in enumerate(wholes)
        if contents(part) <= contents(whole)
        and _is_related(part, whole)
        and (contents is _NODES or _may_be_one(part, whole))
    }
    return sorted(fits, key=lambda index: (-fits[index], len(contents(wholes[index])), index))


def _may_be_one(one: Group, other: Group) -> bool:
    """Return whether both may compute the same: kernels of libraries do in equal calls only."""
    return one.is_generated or other.is_generated or has_same_call(one, other)


def _fit(part: Group, whole: Group) -> int:
    return (
        2 * is_as_often(part, whole)
        + _is_in_module(part, whole)
        + (part.first.shapes == whole.first.shapes)
    )


def _covered(
    whole: Group, parts: Sequence[Group], *, rivals: Sequence[Group], contents: _Contents
) -> float:
    """Return the share of `whole` that the parts compute.

    It is 0 for a single part, and if each part equals the whole and so could be one of the
    `rivals`.
    """
    equal = [rival for rival in rivals if contents(rival) == contents(whole)]
    if len(parts) <= len(equal) and all(contents(part) == contents(whole) for part in parts):
        return 0.0
    union = _union(parts, contents=contents)
    return len(union) / len(contents(whole)) if len(parts) > 1 else 0.0


def _with_transfers(
    sides: _Sides, rests: list[_Sides], *, contents: _Contents
) -> tuple[_Sides, list[_Sides]]:
    """Return `sides` with the `rests` to which some of their contents moved, and the other rests.

    No rest joins `sides` if it explains no more, or if there would be too many kernels.
    """
    removed, gained = _transferred(sides, contents=contents)
    near: list[_Sides] = []
    far: list[_Sides] = []
    for rest in rests:
        removed_elsewhere, gained_elsewhere = _transferred(rest, contents=contents)
        has_transfer = removed & gained_elsewhere or gained & removed_elsewhere
        (near if has_transfer and _are_related(sides, rest) else far).append(rest)
    members = (
        [group for item in (sides, *near) for group in item[0]],
        [group for item in (sides, *near) for group in item[1]],
    )
    is_better = _shared(members, contents=contents) > _shared(sides, contents=contents)
    is_too_much = len(members[0]) + len(members[1]) > MAX_REGROUPED
    return (members, far) if is_better and not is_too_much else (sides, rests)


def _transferred(sides: _Sides, *, contents: _Contents) -> tuple[frozenset[str], frozenset[str]]:
    """Return the contents of the first side alone, and of the second side alone."""
    before, after = (_union(side, contents=contents) for side in sides)
    return before - after, after - before


def _union(side: Sequence[Group], *, contents: _Contents) -> frozenset[str]:
    return frozenset[str]().union(*map(contents, side))


def _shared(sides: _Sides, *, contents: _Contents) -> float:
    return shared_part(*(_union(side, contents=contents) for side in sides))


def _are_related(sides: _Sides, others: _Sides) -> bool:
    return any(
        _is_related(one, other)
        for one in (*sides[0], *sides[1])
        for other in (*others[0], *others[1])
    )


def _connected_sides(
    groups: Sequence[Group], others: Sequence[Group], *, contents: _Contents
) -> list[_Sides]:
    """Return the groups of both sides, partitioned by common contents."""
    side_pairs: list[_Sides] = []
    unseen = [*groups, *others]
    our_ids = {id(group) for group in groups}
    while unseen:
        together = _connected(unseen, contents=contents)
        members = {id(group) for group in together}
        unseen = [group for group in unseen if id(group) not in members]
        ours = [group for group in together if id(group) in our_ids]
        theirs = [group for group in together if id(group) not in our_ids]
        side_pairs.append((ours, theirs))
    return side_pairs


def _is_regrouped(sides: _Sides, *, contents: _Contents) -> bool:
    """Return whether both sides together do the same, each kernel another part of it."""
    return (
        2 < len(sides[0]) + len(sides[1]) <= MAX_REGROUPED
        and not _is_alike(*sides, contents=contents)
        and (contents is _NODES or _has_same_products(*sides))
        and _shared(sides, contents=contents) >= MIN_SHARED
    )


def _has_same_products(groups: list[Group], others: list[Group]) -> bool:
    """Return whether both sides call as many products; attention has two of them inside."""
    if any(group.first.kind == "attention" for group in (*groups, *others)):
        return True
    counts = [
        math.fsum(group.count for group in side if _is_product(group)) for side in (groups, others)
    ]
    return is_same_count(*counts)


def _is_alike(groups: list[Group], others: list[Group], *, contents: _Contents) -> bool:
    """Return whether each kernel has an equal one on the other side, so that none was fused."""
    return Counter(map(contents, groups)) == Counter(map(contents, others))


def _connected(groups: Sequence[Group], *, contents: _Contents) -> list[Group]:
    """Return the first group and all that are connected with it, over others as well."""
    reached, waiting = [groups[0]], list(groups[1:])
    for one in reached:
        near = [
            other
            for other in waiting
            if contents(one) & contents(other)
            and _is_related(one, other)
            and (contents is _NODES or _may_be_one(one, other))
        ]
        reached += near
        near_ids = {id(other) for other in near}
        waiting = [other for other in waiting if id(other) not in near_ids]
    return reached


def _is_related(one: Group, other: Group) -> bool:
    return is_as_often(one, other) or _is_in_module(one, other)


def _is_in_module(one: Group, other: Group) -> bool:
    """Return whether both are in one module, or one of them in a module of the other's."""
    paths = [group.first.module for group in (one, other)]
    short, long = sorted(paths, key=len)
    return bool(short) and (long == short or long.startswith(f"{short}."))


def share_calls(operators: Sequence[Group], kernels: Sequence[Group]) -> SharedCalls:
    """Assign calls of `operators` to the generated ones among `kernels`.

    Each fusion has operators as `groups` and one kernel as `others`.
    """
    wholes = [kernel for kernel in kernels if kernel.is_generated and kernel.words]
    while True:
        shares = _Shares(parts=[item for item in operators if _is_part(item)], wholes=wholes)
        shares.give()
        covered = [whole for index, whole in enumerate(wholes) if shares.is_covered(index)]
        if len(covered) == len(wholes):
            break
        wholes = covered
    remaining = [shares.left_of(group) for group in operators]
    return SharedCalls(
        fusions=tuple(shares.fusion(index) for index in range(len(wholes))),
        left=tuple(group for group in remaining if group is not None),
    )


def _is_part(group: Group) -> bool:
    return not group.is_generated and not group.is_dispatch and bool(group.words)


def _words_in(part: Group, whole: Group) -> frozenset[str]:
    """Return the words of the label of `whole` that `part` covers, none if it covers none."""
    for words in (part.words, _CALLED_BY.get(part.words)):
        if words is not None and words <= whole.words:
            return words
    return frozenset()


@dataclass(slots=True)
class _Shares:
    """The number of calls of each part in each whole, by their indices."""

    parts: list[Group]
    wholes: list[Group]
    assigned: dict[tuple[int, int], float] = field(default_factory=dict)
    remaining: list[float] = field(default_factory=list)

    def give(self) -> None:
        """Distribute all calls to the wholes whose labels have the words."""
        self.remaining = [part.count for part in self.parts]
        choices = {part_index: self._choices(part) for part_index, part in enumerate(self.parts)}
        for part_index, numbers in choices.items():
            number = next((one for one in numbers if self._fits(part_index, one)), None)
            if number is not None:
                self._take(part_index, number, self.remaining[part_index])
        for part_index, numbers in choices.items():
            for number in numbers:
                missing = self.wholes[number].count - self._has(part_index, number)
                self._take(part_index, number, min(missing, self.remaining[part_index]))
        for part_index, numbers in choices.items():
            if _is_product(self.parts[part_index]):
                # A call of a kernel computes one product, which has an owner by now.
                continue
            remaining_calls = self.remaining[part_index]
            fits = [
                one
                for one in numbers
                if abs(self.wholes[one].count - remaining_calls) <= _MIN_CALLS
            ]
            for number in (fits or (numbers if len(numbers) == 1 else []))[:1]:
                self._take(part_index, number, remaining_calls)

    def is_covered(self, number: int) -> bool:
        """Return whether the parts of a whole make up most of its label."""
        whole = self.wholes[number]
        words = [
            _words_in(self.parts[part_index], whole)
            for part_index, one in self.assigned
            if one == number
        ]
        return len(frozenset[str]().union(*words)) >= MIN_SHARED * len(whole.words)

    def fusion(self, number: int) -> Fusion:
        """Return the fusion of the parts that a whole replaces."""
        groups = tuple(
            calls_of(self.parts[part_index], count, after=self._assigned_before(part_index, number))
            for (part_index, one), count in sorted(self.assigned.items())
            if one == number
        )
        rule = MatchedBy.WORDS if len(groups) == 1 else MatchedBy.WORDS_OF_FUSION
        return Fusion(groups=groups, others=(self.wholes[number],), matched_by=rule)

    def left_of(self, group: Group) -> Group | None:
        """Return the unassigned calls of a group, all of it if it is no part."""
        part_index = next((at for at, part in enumerate(self.parts) if part is group), None)
        if part_index is None or self.remaining[part_index] == group.count:
            return group
        remaining_calls = self.remaining[part_index]
        if remaining_calls <= _MIN_CALLS:
            return None
        return calls_of(group, remaining_calls, after=group.count - remaining_calls)

    def _assigned_before(self, part_index: int, number: int) -> float:
        """Return the number of a part's calls in earlier wholes, so that none counts twice."""
        return sum(
            count for (at, one), count in self.assigned.items() if at == part_index and one < number
        )

    def _choices(self, part: Group) -> list[int]:
        """Return the wholes that may do `part`: the most called, then the least complex."""
        fits = [at for at, whole in enumerate(self.wholes) if _words_in(part, whole)]
        return sorted(fits, key=lambda at: (-self.wholes[at].count, len(self.wholes[at].words), at))

    def _fits(self, part_index: int, number: int) -> bool:
        is_free = self._has(part_index, number) == 0
        return is_free and is_as_often(self.parts[part_index], self.wholes[number])

    def _has(self, part_index: int, number: int) -> float:
        """Return the number of a whole's calls with the same words as a part."""
        words = self.parts[part_index].words
        return sum(
            count
            for (at, one), count in self.assigned.items()
            if one == number and self.parts[at].words == words
        )

    def _take(self, part_index: int, number: int, count: float) -> None:
        if count > _MIN_CALLS:
            self.assigned[part_index, number] = self.assigned.get((part_index, number), 0.0) + count
            self.remaining[part_index] = max(0.0, self.remaining[part_index] - count)
