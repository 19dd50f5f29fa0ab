"""Which calls of a library's operators a generated kernel does: what an eager model calls is fused.

Method: an operator whose words are all in the label of a generated kernel of the other side may be
done by it. Six layer norms may be in three kernels, so it is calls that are shared out: first where
both are called as often, then to each kernel as many as it is called, the one that is called most
first, and what is left to a kernel that is called as often as that or is the only one. A kernel
whose label the operators cover by less than MIN_SHARED gives them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compile_hud.runner.analysis.kernels.fusion import MIN_SHARED, Fusion, is_as_often
from compile_hud.runner.analysis.kernels.grouping import Group, MatchedBy, calls_of

# What an operator calls and what Inductor names: eager PyTorch looks an embedding up so.
_CALLED_BY = {frozenset(("index", "select")): frozenset(("embedding",))}
# Less than a call in a hundred iterations is none.
_LEAST_CALLS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The fusions that were found, and what is left of the operators' groups, in order."""

    fusions: tuple[Fusion, ...]
    left: tuple[Group, ...]


def share_calls(operators: Sequence[Group], kernels: Sequence[Group]) -> Shared:
    """Return which calls of `operators` the generated ones of `kernels` do.

    Each fusion has operators as `groups` and one kernel as `others`.
    """
    wholes = [kernel for kernel in kernels if kernel.is_generated and kernel.words]
    while True:
        shares = _Shares(parts=[item for item in operators if _is_part(item)], wholes=wholes)
        shares.give()
        kept = [whole for place, whole in enumerate(wholes) if shares.is_covered(place)]
        if len(kept) == len(wholes):
            break
        wholes = kept
    left = [shares.left_of(group) for group in operators]
    return Shared(
        fusions=tuple(shares.fusion(place) for place in range(len(wholes))),
        left=tuple(group for group in left if group is not None),
    )


def _is_part(group: Group) -> bool:
    return not group.is_generated and not group.is_dispatch and bool(group.words)


def _words_in(part: Group, whole: Group) -> frozenset[str]:
    """Return the words of the label of `whole` that `part` stands for, none where it does not."""
    for words in (part.words, _CALLED_BY.get(part.words)):
        if words is not None and words <= whole.words:
            return words
    return frozenset()


@dataclass(slots=True)
class _Shares:
    """Calls of each part that each whole has, both by their places."""

    parts: list[Group]
    wholes: list[Group]
    given: dict[tuple[int, int], float] = field(default_factory=dict)
    remaining: list[float] = field(default_factory=list)

    def give(self) -> None:
        """Share all calls out, as far as a whole has the words for them."""
        self.remaining = [part.count for part in self.parts]
        choices = {place: self._choices(part) for place, part in enumerate(self.parts)}
        for place, numbers in choices.items():
            number = next((one for one in numbers if self._fits(place, one)), None)
            if number is not None:
                self._take(place, number, self.remaining[place])
        for place, numbers in choices.items():
            for number in numbers:
                wanted = self.wholes[number].count - self._has(place, number)
                self._take(place, number, min(wanted, self.remaining[place]))
        for place, numbers in choices.items():
            left = self.remaining[place]
            fits = [one for one in numbers if abs(self.wholes[one].count - left) <= _LEAST_CALLS]
            for number in (fits or (numbers if len(numbers) == 1 else []))[:1]:
                self._take(place, number, left)

    def is_covered(self, number: int) -> bool:
        """Return whether the parts of a whole make up most of its label."""
        whole = self.wholes[number]
        words = [_words_in(self.parts[place], whole) for place, one in self.given if one == number]
        return len(frozenset[str]().union(*words)) >= MIN_SHARED * len(whole.words)

    def fusion(self, number: int) -> Fusion:
        """Return what a whole does."""
        groups = tuple(
            calls_of(self.parts[place], count, after=self._given_before(place, number))
            for (place, one), count in sorted(self.given.items())
            if one == number
        )
        rule = MatchedBy.WORDS if len(groups) == 1 else MatchedBy.WORDS_OF_FUSION
        return Fusion(groups=groups, others=(self.wholes[number],), matched_by=rule)

    def left_of(self, group: Group) -> Group | None:
        """Return what is left of a group, all of it where it is no part."""
        place = next((at for at, part in enumerate(self.parts) if part is group), None)
        if place is None or self.remaining[place] == group.count:
            return group
        left = self.remaining[place]
        if left <= _LEAST_CALLS:
            return None
        return calls_of(group, left, after=group.count - left)

    def _given_before(self, place: int, number: int) -> float:
        """Return how many calls of a part the wholes before one have, so that none has them too."""
        return sum(count for (at, one), count in self.given.items() if at == place and one < number)

    def _choices(self, part: Group) -> list[int]:
        """Return the wholes that may do `part`: the most called, then those that do least else."""
        fits = [at for at, whole in enumerate(self.wholes) if _words_in(part, whole)]
        return sorted(fits, key=lambda at: (-self.wholes[at].count, len(self.wholes[at].words), at))

    def _fits(self, place: int, number: int) -> bool:
        is_free = self._has(place, number) == 0
        return is_free and is_as_often(self.parts[place], self.wholes[number])

    def _has(self, place: int, number: int) -> float:
        """Return how many calls a whole has of what does the same as a part."""
        words = self.parts[place].words
        return sum(
            count
            for (at, one), count in self.given.items()
            if one == number and self.parts[at].words == words
        )

    def _take(self, place: int, number: int, count: float) -> None:
        if count > _LEAST_CALLS:
            self.given[place, number] = self.given.get((place, number), 0.0) + count
            self.remaining[place] = max(0.0, self.remaining[place] - count)
