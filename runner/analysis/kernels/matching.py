"""Match the kernels of one side to those of the other.

Method: rules from the most to the least certain (`MatchedBy` has them in this order), each over the
kernels that the rules before it left. Within a rule the pairs with the best total score are taken
(scipy's linear_sum_assignment; Crouse, On implementing 2D rectangular assignment algorithms, 2016).
Neither the order of the kernels nor the numbers in their names decide. If several kernels of one
side do the work of one of the other, fusion.py finds them.

Both sides are sorted into a canonical order first, and the side that precedes in it always is the
rows of the assignment. Swapped sides therefore give the same matches.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from compile_hud.runner.analysis.kernels.attention import find_attention
from compile_hud.runner.analysis.kernels.code_similarity import likeness, token_pairs
from compile_hud.runner.analysis.kernels.fusion import (
    MIN_SHARED,
    Fusion,
    find_calls,
    find_fusions,
    is_as_often,
    share_calls,
    shared_part,
)
from compile_hud.runner.analysis.kernels.grouping import (
    Group,
    KernelSide,
    MatchedBy,
    group_kernels,
    has_same_inputs,
)
from compile_hud.runner.analysis.kernels.operator_families import (
    PRODUCTS,
    families_of,
    input_sizes,
    list_settings,
)
from compile_hud.runner.analysis.kernels.replays import Replay, find_replays

# Two versions of one kernel are at least this alike. Two unrelated kernels of one small model are
# at 0.63 to 0.68, one with another activation is at 0.91.
MIN_LIKENESS = 0.75
# A rule compares at most this many kernels of each side, the longest ones: the work grows with the
# square of it, and likeness costs 70 us a pair.
MAX_COMPARED = 150
# A rule compares at most this many pairs in all.
MAX_PAIRS = MAX_COMPARED**2
# A library has several algorithms for these kinds, which take by far the most time.
_HEAVY = (*PRODUCTS, "attention")

_Pair = tuple[Group, Group]
# Groups with an equal key may belong together; those without one (None) may not.
_Key = Callable[[Group], Hashable]
_Rule = tuple[MatchedBy, _Key]
_Score = Callable[[Group, Group], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Groups that belong together; one side is empty where a kernel is new or vanished."""

    baseline: tuple[Group, ...]
    candidate: tuple[Group, ...]
    matched_by: MatchedBy


def match_kernels(baseline: KernelSide, *, candidate: KernelSide) -> list[Match]:
    """Return the matches; each kernel of both sides is in exactly one."""
    sources = {**baseline.sources, **candidate.sources}
    before, after = (group_kernels(side, sources=sources) for side in (baseline, candidate))
    if [group.order for group in after] < [group.order for group in before]:
        return [
            Match(baseline=match.candidate, candidate=match.baseline, matched_by=match.matched_by)
            for match in _match(after, others=before)
        ]
    return _match(before, others=after)


def _match(groups: list[Group], *, others: list[Group]) -> list[Match]:
    unmatched = _UnmatchedKernels(groups=groups, others=others)
    matches = unmatched.take_replays(find_replays(groups, others))
    matches += unmatched.take_keyed(_RULES)
    matches += unmatched.take_fusions(find_calls(*unmatched.heaviest()))
    matches += unmatched.take_keyed(_RULES_OF_OPERATORS)
    matches += unmatched.take_shares()
    matches += unmatched.take_fusions(find_fusions(*unmatched.heaviest()))
    matches += unmatched.take_fusions(find_attention(*unmatched.heaviest()))
    matches += unmatched.take_keyed([(MatchedBy.WORDS, _same_words)])
    matches += unmatched.take_pairs(
        _assigned(*unmatched.heaviest(), score=_likeness_score), MatchedBy.LIKENESS
    )
    nothing = MatchedBy.NOTHING
    matches += [
        Match(baseline=(item,), candidate=(), matched_by=nothing) for item in unmatched.groups
    ]
    matches += [
        Match(baseline=(), candidate=(item,), matched_by=nothing) for item in unmatched.others
    ]
    return matches


@dataclass(slots=True)
class _UnmatchedKernels:
    """The kernels that no rule has matched yet, in order."""

    groups: list[Group]
    others: list[Group]

    def heaviest(self) -> tuple[list[Group], list[Group]]:
        """Return the kernels of both sides that a rule compares, in order."""
        return _heaviest(self.groups), _heaviest(self.others)

    def take_keyed(self, rules: Sequence[_Rule]) -> list[Match]:
        """Return the pairs of all `rules` as matches, and leave the others."""
        return [
            match
            for rule, key in rules
            for match in self.take_pairs(
                _keyed_pairs(self.groups, self.others, key=key, score=_SCORES.get(rule, _nearness)),
                rule,
            )
        ]

    def take_pairs(self, pairs: Sequence[_Pair], rule: MatchedBy) -> list[Match]:
        """Return the pairs as matches, and leave the others."""
        matches = [
            Match(baseline=(one,), candidate=(other,), matched_by=rule) for one, other in pairs
        ]
        return self._take(matches)

    def take_replays(self, replays: Sequence[Replay]) -> list[Match]:
        """Return the replays as matches, and leave the kernels of no replay."""
        taken = {id(group) for replay in replays for group in replay.members}
        self.groups = [group for group in self.groups if id(group) not in taken]
        self.others = [group for group in self.others if id(group) not in taken]
        return [
            Match(baseline=(item.group,), candidate=(item.other,), matched_by=MatchedBy.REPLAY)
            for item in replays
        ]

    def take_fusions(self, fusions: Sequence[Fusion]) -> list[Match]:
        """Return the fusions as matches, and leave the others."""
        matches = [
            Match(baseline=item.groups, candidate=item.others, matched_by=item.matched_by)
            for item in fusions
        ]
        return self._take(matches)

    def take_shares(self) -> list[Match]:
        """Return the matches of generated kernels with operators of the other side."""
        ours, theirs = self.heaviest()
        merged = share_calls(ours, theirs)
        self.groups = _replaced(self.groups, ours, merged.left)
        matches = self.take_fusions(merged.fusions)
        ours, theirs = self.heaviest()
        split = share_calls(theirs, ours)
        self.others = _replaced(self.others, theirs, split.left)
        swapped = [replace(item, groups=item.others, others=item.groups) for item in split.fusions]
        return matches + self.take_fusions(swapped)

    def _take(self, matches: list[Match]) -> list[Match]:
        taken = {id(group) for match in matches for group in (*match.baseline, *match.candidate)}
        self.groups = [group for group in self.groups if id(group) not in taken]
        self.others = [group for group in self.others if id(group) not in taken]
        return matches


def _replaced(
    groups: list[Group], looked_at: list[Group], unmatched: Sequence[Group]
) -> list[Group]:
    """Return `groups` with the remainders of the compared ones, in order."""
    others = _without(groups, looked_at)
    return sorted([*others, *unmatched], key=attrgetter("order"))


def _same_code_and_shapes(group: Group) -> Hashable:
    code = _same_code(group)
    return None if code is None else (code, group.first.shapes)


def _same_code(group: Group) -> Hashable:
    if not group.code.identity:
        return None
    # One library kernel serves many operators.
    return group.code.identity, None if group.is_generated else group.operators


def _same_name_and_shapes(group: Group) -> Hashable:
    return _same_name(group), group.first.shapes


def _same_name(group: Group) -> Hashable:
    # The label of a generated kernel names its operators, also where none were recorded.
    return group.first.label, None if group.is_generated else group.operators


def _same_operators_and_shapes(group: Group) -> Hashable:
    if not group.operators:
        return None
    return group.operators, group.first.kind, group.first.shapes


def _same_operators(group: Group) -> Hashable:
    is_heavy = group.first.kind in _HEAVY
    return (group.operators, group.first.kind) if is_heavy and group.operators else None


def _same_words(group: Group) -> Hashable:
    # The compiler replaced a library operator, with as many calls as before.
    if group.is_dispatch or not group.words:
        return None
    return group.words, round(group.count, 1)


def _same_function(group: Group) -> Hashable:
    if group.is_dispatch or group.is_generated or not group.operators or not group.first.shapes:
        return None
    return families_of(group), input_sizes(group)


_RULES: tuple[_Rule, ...] = (
    (MatchedBy.CODE_AND_SHAPES, _same_code_and_shapes),
    (MatchedBy.NAME_AND_SHAPES, _same_name_and_shapes),
    (MatchedBy.NAME, _same_name),
    (MatchedBy.CODE, _same_code),
)
_RULES_OF_OPERATORS: tuple[_Rule, ...] = (
    (MatchedBy.OPERATORS_AND_SHAPES, _same_operators_and_shapes),
    (MatchedBy.OTHER_LIBRARY, _same_function),
    (MatchedBy.OPERATORS, _same_operators),
)


def _keyed_pairs(
    groups: list[Group], others: list[Group], *, key: _Key, score: _Score
) -> list[_Pair]:
    """Return the best pairs of groups with an equal key, in the order of `groups`."""
    pairs: list[_Pair] = []
    num_unmatched = MAX_PAIRS
    named = _by_key(others, key=key)
    shared = [
        (ours, named[name]) for name, ours in _by_key(groups, key=key).items() if name in named
    ]
    for ours, theirs in sorted(shared, key=lambda sides: -_total_s(*sides)):
        close = _heaviest(ours), _heaviest(theirs)
        num_pairs = len(close[0]) * len(close[1])
        if num_pairs == 1 or num_pairs <= num_unmatched:
            num_unmatched -= num_pairs
            pairs += _assigned(*close, score=score)
        else:
            close = [], []
        pairs += _by_time(_without(ours, close[0]), _without(theirs, close[1]))
    return pairs


def _by_key(groups: list[Group], *, key: _Key) -> dict[Hashable, list[Group]]:
    groups_by_key: dict[Hashable, list[Group]] = defaultdict(list)
    for group in groups:
        if (name := key(group)) is not None:
            groups_by_key[name].append(group)
    return groups_by_key


def _by_time(groups: list[Group], others: list[Group]) -> list[_Pair]:
    """Return the groups in pairs, the longest with the longest: too many for a comparison."""
    sides = [sorted(side, key=lambda group: -group.total_s) for side in (groups, others)]
    return list(zip(*sides, strict=False))


def _without(groups: list[Group], taken: list[Group]) -> list[Group]:
    ids = {id(group) for group in taken}
    return [group for group in groups if id(group) not in ids]


def _total_s(*sides: list[Group]) -> float:
    return math.fsum(group.total_s for side in sides for group in side)


def _assigned(groups: list[Group], others: list[Group], *, score: _Score) -> list[_Pair]:
    """Return the pairs with the best total score; a pair with a score of 0 is none."""
    if len(groups) == len(others) == 1:
        return [(groups[0], others[0])] if score(groups[0], others[0]) > 0 else []
    if not groups or not others:
        return []
    # scipy.optimize loads 250 modules that no other command needs.
    from scipy.optimize import linear_sum_assignment

    scores = np.array([[score(one, other) for other in others] for one in groups], ndmin=2)
    rows, columns = linear_sum_assignment(scores, maximize=True)
    return [
        (groups[row], others[column])
        for row, column in zip(rows, columns, strict=True)
        if scores[row, column] > 0
    ]


def _heaviest(groups: list[Group]) -> list[Group]:
    if len(groups) <= MAX_COMPARED:
        return groups
    heaviest = sorted(groups, key=lambda group: -group.total_s)[:MAX_COMPARED]
    return sorted(heaviest, key=attrgetter("order"))


def _nearness(one: Group, other: Group) -> float:
    """Return the score that both are one kernel; above 0, code counts most."""
    first, second = one.first, other.first
    return (
        8.0 * (bool(one.code.identity) and one.code.identity == other.code.identity)
        + 4.0 * _likeness_of_codes(one, other)
        + 2.0 * has_same_inputs(one, other)
        + 2.0 * shared_part(one.operators, other.operators)
        + 1.0 * ((first.library, first.kind) == (second.library, second.kind))
        + 1.0 * (first.module == second.module)
        + 1.0 * shared_part(one.nodes, other.nodes)
        + 1.0 * (first.config == second.config)
        + 0.5 * _ratio(one.count, other.count)
        + 0.5 * _ratio(one.mean_s, other.mean_s)
    )


def _nearness_of_libraries(one: Group, other: Group) -> float:
    """Return the nearness of kernels of two libraries, 0 for kernels of one operator.

    The product of a convolution is no version of its transposes.
    """
    is_product = [group.first.kind in PRODUCTS for group in (one, other)]
    if one.operators == other.operators or is_product[0] != is_product[1]:
        return 0.0
    return _nearness(one, other) + 2.0 * (list_settings(one) == list_settings(other))


def _nearness_of_words(one: Group, other: Group) -> float:
    return _nearness(one, other) if _may_be_versions(one, other) else 0.0


def _may_be_versions(one: Group, other: Group) -> bool:
    """Return whether both may do the same: a product of a library is no version of its epilogue."""
    return one.is_generated or other.is_generated or one.first.kind == other.first.kind


_SCORES: Mapping[MatchedBy, _Score] = {
    MatchedBy.OTHER_LIBRARY: _nearness_of_libraries,
    MatchedBy.WORDS: _nearness_of_words,
}


def _likeness_score(one: Group, other: Group) -> float:
    """Return the nearness of two kernels that may be versions of one, 0 if they are not."""
    if _have_in_common(one, other):
        return _nearness(one, other)
    if not one.is_generated and not other.is_generated:
        is_one = (
            one.first.kind == other.first.kind
            and one.first.kind in _HEAVY
            and is_as_often(one, other)
            and input_sizes(one) == input_sizes(other)
        )
        return _nearness(one, other) + _likeness_of_names(one, other) if is_one else 0.0
    are_alike = (
        one.first.kind == other.first.kind
        and one.first.shapes == other.first.shapes
        and _likeness_of_codes(one, other) >= MIN_LIKENESS
    )
    return _nearness(one, other) if are_alike else 0.0


def _have_in_common(one: Group, other: Group) -> bool:
    """Return whether most operators are the same; labels of generated kernels name them too."""
    if not _may_be_versions(one, other):
        return False
    shared = shared_part(one.operators, other.operators)
    if one.is_generated and other.is_generated and not (one.operators and other.operators):
        shared = shared_part(one.words, other.words)
    return shared >= MIN_SHARED


def _likeness_of_codes(one: Group, other: Group) -> float:
    if not (one.code.text and other.code.text):
        return 0.0
    if one.code.text == other.code.text:
        return 1.0
    return likeness(one.code.pairs, other.code.pairs)


def _likeness_of_names(one: Group, other: Group) -> float:
    pairs = [token_pairs(group.first.name.replace("_", " ")) for group in (one, other)]
    return likeness(*pairs)


def _ratio(one: float, other: float) -> float:
    """Return the smaller over the larger; 1 for two zeros."""
    return min(one, other) / max(one, other) if one != other else 1.0
