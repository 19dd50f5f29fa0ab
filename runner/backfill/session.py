"""Measure a history where its curve is uncertain, revision after revision against the anchor.

The state is stored after each revision, so that the end of this process costs at most one. The
device is locked while launches run, and free while a revision is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from compile_hud.db.records.results import CaseResult, Outcome, Run
from compile_hud.runner.analysis.comparison.backfill import is_precise
from compile_hud.runner.analysis.comparison.bisection import Reading, read_pair
from compile_hud.runner.backfill.record import ANCHOR_INDEX, Backfill, BackfillPoint, CasePoint
from compile_hud.runner.backfill.stored_points import (
    factor_of,
    normalised,
    run_id_of,
    run_of,
    times_of,
)
from compile_hud.runner.bisect.paired_steps import PairedSteps, resumable, search_limits
from compile_hud.runner.bisect.report import change_text, revision_text
from compile_hud.runner.bisect.revisions import Revisions, checkout_order, model_revision
from compile_hud.runner.errors import BisectError, RevisionUnusable
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairResult, PairSide
from compile_hud.runner.system.interrupts import Interrupts


class PointStore(Protocol):
    """The destination of the points."""

    def write_all(self, run: Run, results: Sequence[CaseResult]) -> None:
        """Store a run with its results; raise SpoolFull."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillDependencies:
    """The dependencies of a backfill; tests replace them. `keep` gets the state after each step."""

    keep: Callable[[Backfill], None]
    points: PointStore
    lock_dir: Path
    machine: str
    now: Callable[[], datetime]
    notify: Notify


@dataclass(frozen=True, slots=True)
class _CaseAtRevision:
    """A case at a revision and at the anchor, by launches in turn."""

    point: CasePoint
    anchor: CaseResult
    candidate: CaseResult
    factors: Mapping[str, float]


def measure_history(
    backfill: Backfill,
    *,
    orders: Sequence[CaseOrder],
    revisions: Revisions,
    budget: timedelta | None,
    dependencies: BackfillDependencies,
) -> Backfill:
    """Continue `backfill` until every segment is known or the budget is used up; return it.

    `orders` are those of its cases. Raises BisectError if the anchor cannot be measured,
    ExecutorError if no worker host can be started, and RunInterrupted after a stop.
    """
    command = f"hud backfill --resume {backfill.id}"
    with resumable(command, revisions=revisions) as interrupts:
        session = _HistoryMeasurement(
            backfill,
            orders=orders,
            revisions=revisions,
            dependencies=dependencies,
            interrupts=interrupts,
        )
        return session.run(budget)


class _HistoryMeasurement:
    """A backfill in progress."""

    def __init__(
        self,
        backfill: Backfill,
        *,
        orders: Sequence[CaseOrder],
        revisions: Revisions,
        dependencies: BackfillDependencies,
        interrupts: Interrupts,
    ) -> None:
        self._known = backfill
        self._orders = orders
        self._revisions = revisions
        self._dependencies = dependencies
        limits = backfill.limits
        self._steps = PairedSteps(
            limits=search_limits(floor=limits.floor, max_launches=limits.max_launches),
            step_s=limits.step_s,
            lock_dir=dependencies.lock_dir,
            now=dependencies.now,
            notify=dependencies.notify,
            interrupts=interrupts,
            cancel=revisions.cancel,
        )

    def run(self, budget: timedelta | None) -> Backfill:
        """Measure revisions until none is left or the time is over."""
        dependencies = self._dependencies
        end = None if budget is None else dependencies.now() + budget
        dependencies.keep(self._known)
        while (index := self._known.next_index) is not None:
            if end is not None and dependencies.now() >= end:
                self._say("the budget is used up; --resume continues")
                break
            self._measure_revision(index)
        return self._known

    def _measure_revision(self, index: int) -> None:
        started_at = self._dependencies.now()
        number = len(self._known.points) + 1
        self._say(f"revision {number}: {self._name(index)}")
        try:
            anchor = self._revisions.side(ANCHOR_INDEX)
        except RevisionUnusable as error:
            raise BisectError(
                f"{self._name(ANCHOR_INDEX)}, which all are compared with: {error}",
                reason=str(error),
            ) from error
        try:
            candidate = self._revisions.side(index)
        except RevisionUnusable as error:
            self._keep(self._point(index, (), reason=str(error), since=started_at))
            return
        measured = [
            self._measure_case(order, anchor=anchor, candidate=candidate) for order in self._orders
        ]
        is_usable = any(not item.point.reason for item in measured)
        if is_usable:
            if not any(not point.reason for point in self._known.points):
                self._store(ANCHOR_INDEX, [item.anchor for item in measured], [{}] * len(measured))
            self._store(
                index,
                [item.candidate for item in measured],
                [item.factors for item in measured],
            )
        points = [item.point for item in measured] if is_usable else []
        reason = "" if is_usable else measured[0].point.reason
        self._keep(self._point(index, points, reason=reason, since=started_at))
        # The search needs no revision twice, except the anchor.
        self._revisions.keep_only((ANCHOR_INDEX,))

    def _measure_case(
        self, order: CaseOrder, *, anchor: PairSide, candidate: PairSide
    ) -> _CaseAtRevision:
        case, floor = order.case, self._known.limits.floor

        def is_clear(pair: PairResult) -> bool:
            reading = _read(pair)
            if reading.low is None or reading.high is None:
                return True
            return reading.low > 0 and is_precise(reading.low, reading.high, floor=floor)

        timed = self._steps.measure(
            _of_case(anchor, order), _of_case(candidate, order), is_clear=is_clear
        )
        pair = timed.pair
        if pair.baseline.outcome is not Outcome.OK:
            raise BisectError(
                f"{case.key} does not run at {self._name(ANCHOR_INDEX)}, which all revisions are"
                f" compared with: {pair.baseline.reason or pair.baseline.outcome}",
                case=case.key,
            )
        reading = replace(_read(pair), num_pairs=timed.num_pairs)
        self._remember_anchor(case.key, pair.baseline)
        factors = factor_of(pair.baseline, reference=self._known.anchor_s[case.key])
        reason = "" if reading.ratio else _reason(pair.candidate)
        self._say(f"  {case.key}: {reason or change_text(reading)}")
        point = CasePoint(
            case_key=case.key,
            reading=reading,
            factor=factors.get(reading.metric, 1.0),
            reason=reason,
        )
        return _CaseAtRevision(point, pair.baseline, pair.candidate, factors)

    def _remember_anchor(self, case_key: str, result: CaseResult) -> None:
        if case_key not in self._known.anchor_s:
            known = {**self._known.anchor_s, case_key: times_of(result)}
            self._known = replace(self._known, anchor_s=known)

    def _store(
        self, index: int, results: Sequence[CaseResult], factors: Sequence[Mapping[str, float]]
    ) -> None:
        run = run_of(
            self._known,
            index,
            facts=self._revisions.facts(index),
            machine=self._dependencies.machine,
            commits=self._commits(index),
        )
        anchor = self._known.revisions[ANCHOR_INDEX].name
        self._dependencies.points.write_all(
            run,
            [
                normalised(result, factors=item, run_id=run.id, anchor=anchor)
                for result, item in zip(results, factors, strict=True)
            ],
        )

    def _commits(self, index: int) -> dict[str, str]:
        side = self._revisions.side(index)
        texts = {
            order.case.model: model_revision(_of_case(side, order).order) for order in self._orders
        }
        return {model: text for model, text in texts.items() if text}

    def _point(
        self, index: int, cases: Sequence[CasePoint], *, reason: str, since: datetime
    ) -> BackfillPoint:
        if reason:
            self._say(f"  skipped: {reason}")
        return BackfillPoint(
            index=index,
            run_id="" if reason else run_id_of(self._known, index),
            cases=tuple(cases),
            reason=reason,
            took_s=(self._dependencies.now() - since).total_seconds(),
        )

    def _keep(self, point: BackfillPoint) -> None:
        known = replace(self._known, points=(*self._known.points, point))
        titled = tuple(
            replace(item, title=title) if (title := self._revisions.title(index)) else item
            for index, item in enumerate(known.revisions)
        )
        self._known = replace(known, revisions=titled)
        self._dependencies.keep(self._known)

    def _name(self, index: int) -> str:
        return revision_text(self._known.revisions[index])

    def _say(self, text: str) -> None:
        self._dependencies.notify(LogMessage(text=text))


def _of_case(side: PairSide, order: CaseOrder) -> PairSide:
    """Return the side for another case, from the same checkout if there is one."""
    checkout = side.order.workload.checkout
    if checkout is None:
        return replace(side, order=order)
    moved: Any = checkout_order(
        order, repository=Path(checkout.repository), folder=Path(checkout.folder)
    )
    return replace(side, order=moved)


def _read(pair: PairResult) -> Reading:
    return read_pair(pair.baseline, pair.candidate, rows=pair.rows)


def _reason(result: CaseResult) -> str:
    return result.reason or f"its outcome is {result.outcome}"
