"""Find which of many differences explain a change, from few measured mixtures. Pure.

Method: the position of a mixture is log(mixture / before) over log(after / before): 0 is as before
and 1 as after. Halves of the differences are measured, and halves of the half that has the effect,
as in delta debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input,
2002). If neither half alone has the effect, both are needed: each is searched with the other one
present. Assumption: a half without an effect has no two members that cancel each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

# A smaller share of the change is neither searched nor named.
LEAST_SHARE = 0.2
# A larger share is no noise of one measurement.
CLEAR_SHARE = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a mixture between both ends, with its 95 % interval."""

    share: float
    low: float
    high: float


ORIGIN = Position(share=0.0, low=0.0, high=0.0)
# The position of a set of differences by their numbers, None if it cannot be combined.
MeasureMixture = Callable[[frozenset[int]], Position | None]


class ShareKind(StrEnum):
    """The relation between the differences of a share."""

    SINGLE = "single"
    # Each has the effect only with the others.
    TOGETHER = "together"
    # One of them has it: they cannot be combined apart, or too few mixtures were allowed.
    UNSEPARATED = "unseparated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundShare:
    """The part of the change that the differences `numbers` explain, with its interval."""

    numbers: tuple[int, ...]
    kind: ShareKind
    position: Position


@dataclass(slots=True)
class ShareSearch:
    """A search in the differences `0 .. num_differences - 1`, of at most `max_mixtures` mixtures.

    A mixture that looks odd is measured twice, which does not count.
    The last mixture has everything but the answer: `rest` is its position, None without one.
    `is_cut` says whether more mixtures were needed than allowed.
    Equal answers of `measure` give equal questions, so that a search can be replayed.
    """

    num_differences: int
    measure: MeasureMixture
    max_mixtures: int
    whole: Position
    rest: Position | None = None
    is_cut: bool = False
    _known: dict[frozenset[int], Position | None] = field(default_factory=dict)
    _repeated: dict[frozenset[int], Position] = field(default_factory=dict)
    _num_measured: int = 0

    def run(self) -> tuple[FoundShare, ...]:
        """Return the shares, the largest first."""
        everything = tuple(range(self.num_differences))
        self._known = {frozenset(): ORIGIN, frozenset(everything): self.whole}
        shares = self._explain(frozenset(), everything, ORIGIN, self.whole)
        self._measure_rest(shares)
        return tuple(sorted(shares, key=lambda item: -abs(item.position.share)))

    def _measure_rest(self, shares: Sequence[FoundShare]) -> None:
        named = {number for share in shares for number in share.numbers}
        others = frozenset(range(self.num_differences)) - named
        if not others:
            self.rest = ORIGIN
        elif named:
            # The search leaves one mixture for this.
            self.max_mixtures += 1
            self.rest = self._position(others)

    def _explain(
        self, context: frozenset[int], group: tuple[int, ...], without: Position, given: Position
    ) -> list[FoundShare]:
        """Return the shares of `group`, whose mixtures also have `context`.

        `without` is the position of the context alone, `given` that of both.
        """
        if _is_small(_difference(given, without)):
            # Noise looks like a small share, so both ends of it are measured twice.
            without, given = self._again(context, without), self._again(context | set(group), given)
        gain = _difference(given, without)
        if not is_effect(gain):
            return []
        if len(group) == 1:
            return [FoundShare(numbers=group, kind=ShareKind.SINGLE, position=gain)]
        return self._explain_halves(context, group, without, given)

    def _explain_halves(
        self, context: frozenset[int], group: tuple[int, ...], without: Position, given: Position
    ) -> list[FoundShare]:
        halves = self._combinable_halves(context, group)
        if halves is None:
            kind = ShareKind.UNSEPARATED
            return [FoundShare(numbers=group, kind=kind, position=_difference(given, without))]
        first, second, at_first = halves
        if not is_effect(_difference(given, at_first)):
            return self._explain(context, first, without, at_first)
        at_second = self._position(context | set(second))
        if at_second is None:
            return self._one_after_other(context, (first, second), (without, at_first, given))
        if not _adds_up(without, at_first, at_second, given):
            # A disturbed measurement looks like an interaction.
            at_first = self._again(context | set(first), at_first)
            at_second = self._again(context | set(second), at_second)
        has_first, has_second = (
            is_effect(_difference(position, without)) for position in (at_first, at_second)
        )
        if has_first and has_second:
            return [
                *self._explain(context, first, without, at_first),
                *self._explain(context, second, without, at_second),
            ]
        if has_second:
            return self._one_after_other(context, (second, first), (without, at_second, given))
        if has_first:
            return self._one_after_other(context, (first, second), (without, at_first, given))
        return self._explain_both(context, first, second, without, given)

    def _one_after_other(
        self,
        context: frozenset[int],
        halves: tuple[tuple[int, ...], tuple[int, ...]],
        positions: tuple[Position, Position, Position],
    ) -> list[FoundShare]:
        """Return the shares of the first half, and what the second one adds to it.

        The positions are those of the context, with the first half, and with both.
        """
        without, at_first, given = positions
        first, second = halves
        of_first = self._explain(context, first, without, at_first)
        numbers = {number for share in of_first for number in share.numbers}
        of_second = self._explain(context | set(first), second, at_first, given)
        return [*of_first, *(_with_others(share, numbers) for share in of_second)]

    def _explain_both(
        self,
        context: frozenset[int],
        first: tuple[int, ...],
        second: tuple[int, ...],
        without: Position,
        given: Position,
    ) -> list[FoundShare]:
        """Return the share of both halves, each searched with the other one present."""
        of_first = self._explain(context | set(second), first, without, given)
        numbers = {number for share in of_first for number in share.numbers}
        of_second = self._explain(context | numbers, second, without, given)
        kinds = {share.kind for share in (*of_first, *of_second)}
        is_cut = ShareKind.UNSEPARATED in kinds
        together = (*numbers, *(number for share in of_second for number in share.numbers))
        return [
            FoundShare(
                numbers=tuple(sorted(together)),
                kind=ShareKind.UNSEPARATED if is_cut else ShareKind.TOGETHER,
                position=_difference(given, without),
            )
        ]

    def _combinable_halves(
        self, context: frozenset[int], group: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...], Position] | None:
        """Return two parts of `group` and the position of the first one, None if none starts."""
        middle = (len(group) + 1) // 2
        for cut in dict.fromkeys((middle, 1, len(group) - 1)):
            first, second = group[:cut], group[cut:]
            position = self._position(context | set(first))
            if position is not None:
                return first, second, position
            position = self._position(context | set(second))
            if position is not None:
                return second, first, position
        return None

    def _again(self, numbers: frozenset[int], known: Position) -> Position:
        """Return the mean of a mixture's position and of a second measurement of it."""
        is_end = len(numbers) in (0, self.num_differences)
        if is_end or numbers in self._repeated:
            return self._repeated.get(numbers, known)
        again = self.measure(numbers)
        self._repeated[numbers] = known if again is None else _mean(known, again)
        return self._repeated[numbers]

    def _position(self, numbers: frozenset[int]) -> Position | None:
        """Return the position of a mixture, None if it does not run or would exceed the limit."""
        if numbers not in self._known:
            # One mixture remains for the check of the answer.
            if self._num_measured >= self.max_mixtures - 1:
                self.is_cut = True
                return None
            self._num_measured += 1
            self._known[numbers] = self.measure(numbers)
        return self._known[numbers]


def is_effect(gain: Position) -> bool:
    """Return whether a gain is large enough to be named, and no noise."""
    return abs(gain.share) >= LEAST_SHARE and not gain.low <= 0 <= gain.high


def _adds_up(without: Position, at_first: Position, at_second: Position, given: Position) -> bool:
    """Return whether the gains of two halves are those of both together, within the noise."""
    parts = _difference(at_first, without).share + _difference(at_second, without).share
    return abs(parts - (given.share - without.share)) < LEAST_SHARE


def _is_small(gain: Position) -> bool:
    return is_effect(gain) and abs(gain.share) < CLEAR_SHARE


def _mean(first: Position, second: Position) -> Position:
    """Return the mean of two measurements; its interval has half of their distance at least."""
    share = (first.share + second.share) / 2
    distance = abs(first.share - second.share) / 2
    below = math.hypot(first.share - first.low, second.share - second.low) / 2
    above = math.hypot(first.high - first.share, second.high - second.share) / 2
    return Position(
        share=share, low=share - max(below, distance), high=share + max(above, distance)
    )


def _with_others(share: FoundShare, numbers: Iterable[int]) -> FoundShare:
    """Return a share that is there only while `numbers` are present."""
    kind = ShareKind.TOGETHER if share.kind is ShareKind.SINGLE else share.kind
    return replace(share, numbers=tuple(sorted({*share.numbers, *numbers})), kind=kind)


def _difference(position: Position, origin: Position) -> Position:
    """Return the way from `origin` to `position`, both measured by themselves."""
    share = position.share - origin.share
    below = math.hypot(position.share - position.low, origin.high - origin.share)
    above = math.hypot(position.high - position.share, origin.share - origin.low)
    return Position(share=share, low=share - below, high=share + above)
