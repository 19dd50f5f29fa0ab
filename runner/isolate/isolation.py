"""Measure mixtures of two environments until the differences that explain a change are known.

Each mixture is measured against the first environment, with launches in turn. The device is locked
while launches run, and free while a mixture is built. The state is stored after each measurement;
a search that continues is replayed over the stored answers.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.bisection import (
    BoundsVerdict,
    Reading,
    judge_bounds,
    read_pair,
)
from compile_hud.runner.analysis.comparison.runs import OUTCOME
from compile_hud.runner.bisect.paired_steps import PairedSteps, search_limits
from compile_hud.runner.bisect.report import change_text
from compile_hud.runner.errors import (
    BisectError,
    ExecutorError,
    RevisionUnusable,
    RunInterrupted,
)
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.paired_launches import PairResult, PairSide
from compile_hud.runner.isolate.continuation import changed_text, continued_text, stopped_text
from compile_hud.runner.isolate.environments import (
    Difference,
    DifferenceKind,
    Environment,
    Package,
    describe,
    differences,
    is_movable,
    package_key,
)
from compile_hud.runner.isolate.fingerprints import (
    EnvironmentFingerprint,
    changes_of,
    fingerprints,
)
from compile_hud.runner.isolate.mixtures import build_mixture
from compile_hud.runner.isolate.record import MeasuredEnds, MixtureAnswer, StoredIsolation
from compile_hud.runner.isolate.shares import FoundShare, Position, ShareSearch
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.toolchains.installer import own_environment

# Half of the width of a position's interval at which more launches add nothing to the answer.
_TARGET_SHARE = 0.1
# A position is clear once its interval is nearer to 0 than the first, or beyond the second.
_NOTHING, _EVERYTHING = 0.2, 0.8
# The detail of a launch with the folders of packages that it has loaded.
LOADED = "loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateRequest:
    """The search to begin or continue, its case, and the interpreters of both toolchains."""

    known: StoredIsolation
    order: CaseOrder
    before: Path
    after: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateDependencies:
    """The dependencies of an isolation; tests replace them.

    `keep` gets the state after each measurement. Mixtures are built in `folder`.
    """

    keep: Callable[[StoredIsolation], None]
    make_executor: Callable[[Path], Executor]
    folder: Path
    lock_dir: Path
    now: Callable[[], datetime]
    notify: Notify


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """Differences that could not be combined with the rest, and why."""

    differences: tuple[Difference, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The change of the ends, the differences behind it, and what could not be combined.

    `unloaded` differences are in packages that no launch loads. `shares` is None if the ends do not
    differ. `rest` is the position of everything but the named differences. `is_cut` says whether
    the limit of toolchains ended the search.
    """

    known: StoredIsolation
    ends: Reading
    verdict: BoundsVerdict
    differences: tuple[Difference, ...]
    unloaded: tuple[Difference, ...]
    unmovable: tuple[Difference, ...]
    shares: tuple[FoundShare, ...] | None
    rest: Position | None
    unusable: tuple[Unusable, ...]
    num_mixtures: int
    is_cut: bool

    def named(self, share: FoundShare) -> tuple[Difference, ...]:
        """Return the differences of a share."""
        return tuple(self.differences[number] for number in share.numbers)


def isolate(request: IsolateRequest, *, dependencies: IsolateDependencies) -> Isolation:
    """Return the differences of the two environments that explain the change of the case.

    Raises BisectError if an end cannot be measured or an environment has changed, ExecutorError if
    a worker host ends, and RunInterrupted after a stop. The measurements up to then are stored.
    """
    with Interrupts() as interrupts:
        measurement = _MixtureMeasurement(request, dependencies=dependencies, interrupts=interrupts)
        try:
            return measurement.run()
        except RunInterrupted as error:
            raise RunInterrupted(stopped_text(measurement.known)) from error
        finally:
            measurement.close()


class _MixtureMeasurement:
    """An isolation in progress."""

    def __init__(
        self,
        request: IsolateRequest,
        *,
        dependencies: IsolateDependencies,
        interrupts: Interrupts,
    ) -> None:
        self.known = request.known
        self._request = request
        self._dependencies = dependencies
        self._interrupts = interrupts
        self._executors: dict[str, Executor] = {}
        self._unusable: list[Unusable] = []
        # The number of each mixture, by its differences from the first toolchain.
        self._mixtures: dict[tuple[str, ...], int] = {}
        self._stored: dict[tuple[str, ...], deque[MixtureAnswer]] = defaultdict(deque)
        for answer in self.known.answers:
            self._stored[answer.differences].append(answer)
        limits = self.known.limits
        self._steps = PairedSteps(
            limits=search_limits(floor=limits.floor, max_launches=limits.max_launches),
            step_s=limits.step_s,
            lock_dir=dependencies.lock_dir,
            now=dependencies.now,
            notify=dependencies.notify,
            interrupts=interrupts,
            cancel=self._cancel,
        )

    def run(self) -> Isolation:
        """Measure the ends, then mixtures; what is stored is not measured again."""
        self._say("reading the packages of both toolchains")
        before, after = (describe(path) for path in (self._request.before, self._request.after))
        everything = differences(before, after)
        movable = [item for item in everything if is_movable(item, before=before, after=after)]
        unmovable = tuple(item for item in everything if item not in movable)
        ends = self._ends(before, after, num_differences=len(everything))
        loaded = frozenset(ends.loaded)
        searched, unloaded = _split(movable, before=before, after=after, loaded=loaded)
        verdict = judge_bounds(ends.reading, floor=self.known.limits.floor)
        search = None
        shares = None
        if verdict is BoundsVerdict.DIFFER and ends.reading.ratio and searched:
            search = ShareSearch(
                num_differences=len(searched),
                measure=lambda numbers: self._ask(
                    [searched[number] for number in sorted(numbers)],
                    changes=everything,
                    sides=(before, after),
                    ends=ends.reading,
                ),
                max_mixtures=self.known.limits.max_toolchains - 2,
                whole=_whole(ends.reading),
            )
            shares = search.run()
        is_cut = search is not None and search.is_cut
        # Larger limits continue a search that its limits ended.
        has_ended = not is_cut and verdict is not BoundsVerdict.UNCLEAR
        self._keep(replace(self.known, has_ended=has_ended))
        return Isolation(
            known=self.known,
            ends=ends.reading,
            verdict=verdict,
            differences=tuple(searched),
            unloaded=tuple(unloaded),
            unmovable=unmovable,
            shares=shares,
            rest=None if search is None else search.rest,
            unusable=tuple(self._unusable),
            num_mixtures=len(self._mixtures),
            is_cut=is_cut,
        )

    def close(self) -> None:
        """End every worker host."""
        for executor in self._executors.values():
            executor.close()
        self._executors.clear()

    def _ends(
        self, before: Environment, after: Environment, *, num_differences: int
    ) -> MeasuredEnds:
        """Return both toolchains as stored, if they have not changed, or as measured now."""
        present = fingerprints(before, after, inherited=own_environment())
        ends = self.known.ends
        if ends is None:
            ways = counted(num_differences, "way")
            self._say(f"measuring both toolchains, which differ in {ways}")
            reading, loaded = self._measure_ends()
            ends = MeasuredEnds(
                before=present[0], after=present[1], reading=reading, loaded=tuple(sorted(loaded))
            )
            self._keep(replace(self.known, ends=ends))
        else:
            self._check_unchanged(ends, *present)
            self._say(continued_text(self.known))
        reading = ends.reading
        self._say(f"  {metric_label(reading.metric)} {change_text(reading)}")
        return ends

    def _check_unchanged(
        self, ends: MeasuredEnds, before: EnvironmentFingerprint, after: EnvironmentFingerprint
    ) -> None:
        """Raise BisectError if an environment is not that of the stored measurements."""
        known = self.known
        for name, stored, present in (
            (known.baseline, ends.before, before),
            (known.candidate, ends.after, after),
        ):
            changes = list(changes_of(stored, present))
            if changes:
                raise BisectError(
                    changed_text(known, toolchain=name, changes=changes),
                    toolchain=name,
                    changes=changes,
                )

    def _measure_ends(self) -> tuple[Reading, frozenset[str]]:
        order = self._request.order
        order = replace(order, settings=replace(order.settings, loaded=True))
        sides = [
            self._side(name, path, order=order)
            for name, path in (("before", self._request.before), ("after", self._request.after))
        ]

        def is_clear(reading: Reading) -> bool:
            has_number = reading.metric == OUTCOME or reading.baseline is not None
            verdict = judge_bounds(reading, floor=self.known.limits.floor) if has_number else None
            is_narrow = _half_width(reading) < _TARGET_SHARE
            return verdict in (None, BoundsVerdict.SAME) or (
                verdict is BoundsVerdict.DIFFER and is_narrow
            )

        pair, reading = self._measure(sides[0], sides[1], is_clear=is_clear)
        for name, result in (("first", pair.baseline), ("second", pair.candidate)):
            if result.outcome is not Outcome.OK:
                raise BisectError(
                    f"under the {name} toolchain the case ends as {result.outcome}:"
                    f" {result.reason.rstrip('.')}. Both must run it",
                    outcome=result.outcome,
                )
        if reading.baseline is None:
            raise BisectError(
                f"the case has no {reading.metric}; see `hud list metrics`", metric=reading.metric
            )
        return reading, _loaded_by(pair.baseline, pair.candidate)

    def _ask(
        self,
        swapped: Sequence[Difference],
        *,
        changes: Sequence[Difference],
        sides: tuple[Environment, Environment],
        ends: Reading,
    ) -> Position | None:
        """Return the position of a mixture, None if it does not run."""
        keys = tuple(item.key for item in swapped)
        number = self._mixtures.setdefault(keys, 1 + len(self._mixtures))
        if self._stored[keys]:
            answer = self._stored[keys].popleft()
        else:
            answer = self._measure_mixture(
                swapped, number=number, changes=changes, sides=sides, ends=ends
            )
            if answer.position is None:
                # Ctrl-C also ends the processes of a mixture, which then looks unusable.
                self._interrupts.check()
            self._keep(replace(self.known, answers=(*self.known.answers, answer)))
        if answer.position is None:
            self._unusable.append(Unusable(differences=tuple(swapped), reason=answer.reason))
        return answer.position

    def _measure_mixture(
        self,
        swapped: Sequence[Difference],
        *,
        number: int,
        changes: Sequence[Difference],
        sides: tuple[Environment, Environment],
        ends: Reading,
    ) -> MixtureAnswer:
        keys = tuple(item.key for item in swapped)
        names = ", ".join(item.text for item in swapped)
        self._say(f"mixture {number}: the first toolchain with {names}")
        folder = self._dependencies.folder / f"mixture-{number}"
        try:
            python = build_mixture(
                folder, before=sides[0], after=sides[1], changes=changes, swapped=swapped
            )
            position = self._position(python, name=folder.name, ends=ends)
        except RevisionUnusable as error:
            self._say(f"  it cannot be combined: {error}")
            return MixtureAnswer(differences=keys, position=None, reason=str(error))
        finally:
            self._end(folder.name)
        self._say(f"  it has {percent(position.share)} % of the change")
        return MixtureAnswer(differences=keys, position=position)

    def _position(self, python: Path, *, name: str, ends: Reading) -> Position:
        before = self._side("before", self._request.before, order=self._request.order)
        try:
            candidate = self._side(name, python, order=self._request.order)
        except ExecutorError as error:
            raise RevisionUnusable(f"it does not start: {error}") from error

        def is_clear(reading: Reading) -> bool:
            if reading.candidate is None:
                return True
            position = _position_of(reading, ends=ends)
            is_narrow = position.high - position.low < 2 * _TARGET_SHARE
            is_nothing = position.low > -_NOTHING and position.high < _NOTHING
            return is_narrow or is_nothing or position.low > _EVERYTHING

        pair, reading = self._measure(before, candidate, is_clear=is_clear, metric=ends.metric)
        if pair.candidate.outcome is not Outcome.OK:
            raise RevisionUnusable(
                f"the case ends as {pair.candidate.outcome}: {pair.candidate.reason}"
            )
        if reading.candidate is None or reading.ratio is None:
            raise RevisionUnusable(f"it has no {ends.metric}")
        return _position_of(reading, ends=ends)

    def _measure(
        self,
        baseline: PairSide,
        candidate: PairSide,
        *,
        is_clear: Callable[[Reading], bool],
        metric: str | None = None,
    ) -> tuple[PairResult, Reading]:
        def read(pair: PairResult) -> Reading:
            name = metric or self.known.metric
            return read_pair(pair.baseline, pair.candidate, rows=pair.rows, metric=name)

        timed = self._steps.measure(baseline, candidate, is_clear=lambda pair: is_clear(read(pair)))
        return timed.pair, replace(read(timed.pair), num_pairs=timed.num_pairs)

    def _side(self, name: str, python: Path, *, order: CaseOrder) -> PairSide:
        """Return a toolchain, started; raise ExecutorError."""
        if name not in self._executors:
            executor = self._dependencies.make_executor(python)
            self._executors[name] = executor
            executor.open()
        return PairSide(executor=self._executors[name], order=order)

    def _end(self, name: str) -> None:
        executor = self._executors.pop(name, None)
        if executor is not None:
            executor.close()

    def _keep(self, known: StoredIsolation) -> None:
        self._dependencies.keep(known)
        self.known = known

    def _cancel(self) -> None:
        for executor in self._executors.values():
            executor.cancel()

    def _say(self, text: str) -> None:
        self._dependencies.notify(LogMessage(text=text))


def _position_of(reading: Reading, *, ends: Reading) -> Position:
    """Return the position of the candidate between the ends on the scale of logarithms."""
    assert ends.ratio is not None
    assert reading.ratio is not None
    whole = math.log(ends.ratio)
    bounds = (reading.low or reading.ratio, reading.high or reading.ratio)
    low, high = sorted(math.log(bound) / whole for bound in bounds)
    return Position(share=math.log(reading.ratio) / whole, low=low, high=high)


def _whole(ends: Reading) -> Position:
    return _position_of(ends, ends=ends)


def _half_width(reading: Reading) -> float:
    if not reading.ratio or reading.ratio == 1 or not reading.low or not reading.high:
        return math.inf
    return abs(math.log(reading.high / reading.low) / math.log(reading.ratio)) / 2


def _loaded_by(*results: CaseResult) -> frozenset[str]:
    return frozenset(folder for result in results for folder in result.details.get(LOADED, ()))


def _split(
    candidates: Iterable[Difference],
    *,
    before: Environment,
    after: Environment,
    loaded: frozenset[str],
) -> tuple[list[Difference], list[Difference]]:
    """Return the differences that a launch can notice, and those in packages that none loads."""
    noticed: list[Difference] = []
    others: list[Difference] = []
    for item in candidates:
        packages = [side.packages.get(package_key(item)) for side in (before, after)]
        is_package = item.kind is DifferenceKind.PACKAGE
        is_loaded = any(package and _is_loaded(package, loaded) for package in packages)
        (noticed if is_loaded or not is_package or not loaded else others).append(item)
    return noticed, others


def _is_loaded(package: Package, loaded: frozenset[str]) -> bool:
    # Python executes the lines of these at each start.
    if any(name.endswith(".pth") and "/" not in name for name in package.files):
        return True
    return any(_folder_of(name) in loaded for name in package.files)


@functools.lru_cache(maxsize=200_000)
def _folder_of(name: str) -> str:
    """Return the first two parts of a path, as `loaded_folders` of the worker does."""
    return "/".join(name.split("/")[:2])


def percent(share: float) -> str:
    """Return a share in whole percent, without a sign at zero."""
    return f"{round(100 * share)}"
