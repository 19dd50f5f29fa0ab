"""Launch a bad build, the good one, and the bad one with kernels of the good one, in turn.

The first launch of each side compiles, records kernels and checks results; it gives no number. Then
each round launches every side once, in an order that alternates. A side whose launch fails leaves
the experiment with its reason. The device is locked throughout.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import Case, CaseResult, Outcome
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.analysis.comparison.cpu_clocks import CPU, WALL
from compile_hud.runner.analysis.comparison.paired import looks
from compile_hud.runner.analysis.kernels.diff import side_of
from compile_hud.runner.analysis.kernels.grouping import KernelSide
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.errors import BisectError, RunInterrupted
from compile_hud.runner.events import LogMessage, Notify, PairLaunched
from compile_hud.runner.execution.executor import CaseSession
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.protocol.messages import LaunchReport
from compile_hud.runner.protocol.transplants import TRANSPLANTS, KernelTransplant
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock
from compile_hud.runner.transplant.candidates import (
    Candidate,
    KernelRefusal,
    find_candidates,
    labels_of,
    refused,
)
from compile_hud.runner.transplant.interfaces import RefusalReason
from compile_hud.runner.transplant.shares import (
    LossShare,
    calm_rounds,
    judge_loss,
    loss_ratio,
    share_of_known_loss,
    share_of_loss,
)

# Fewer rounds could not show their own spread.
MIN_ROUNDS = 5
# Half of the width of an interval at which more rounds add nothing to the answer.
_TARGET_SHARE = 0.08
# An interval over the rounds needs two.
_LEAST_ROUNDS = 2
_STOPPED = "stopped; nothing of the transplants is kept"
_GOOD, _BAD, _TOGETHER = "good", "bad", "together"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBuild:
    """A good build that is not launched: its kernels, and the loss that was measured against it."""

    kernels: KernelSide
    loss: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class TransplantRequest:
    """A bad build, the good one, and the limits of the experiment.

    `floor` is the smallest loss that is looked at. The rounds end after `limit_s`. `known_code` are
    the hashes of kernels that the bad build had, empty if unknown.
    """

    bad: PairSide
    good: PairSide | KnownBuild
    known_code: frozenset[str] = frozenset()
    floor: float
    max_kernels: int
    max_rounds: int
    limit_s: float

    @property
    def case(self) -> Case:
        """Return the measured case."""
        return self.bad.order.case


@dataclass(frozen=True, slots=True, kw_only=True)
class TransplantDependencies:
    """The dependencies of an experiment; tests replace them. `cancel` ends the running launch."""

    lock_dir: Path
    now: Callable[[], datetime]
    notify: Notify
    cancel: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelGain:
    """A transplanted kernel and the share of the loss that is gone with it."""

    candidate: Candidate
    share: LossShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Transplantation:
    """The answer: the loss, the share of each kernel and of all together, and the refused ones.

    `loss` is the time of the bad build over that of the good one, in `metric`. `together` is None
    without a transplant that ran. `is_known` says that the loss is of earlier runs.
    """

    case: Case
    metric: str
    loss: Estimate
    is_known: bool
    verdict: BoundsVerdict
    gains: tuple[KernelGain, ...]
    refusals: tuple[KernelRefusal, ...]
    together: LossShare | None
    num_rounds: int


def transplant(
    request: TransplantRequest, *, dependencies: TransplantDependencies
) -> Transplantation:
    """Return the shares of a loss that kernels of the good build take back in the bad one.

    Raises BisectError if a build cannot be measured, ExecutorError if a worker host ends, and
    RunInterrupted after a stop.
    """
    case = request.case
    with (
        Interrupts(note=_STOPPED) as interrupts,
        device_lock(case.device, lock_dir=dependencies.lock_dir, notify=dependencies.notify),
        interrupts.deferred(dependencies.cancel),
        ExitStack() as stack,
    ):
        experiment = _Experiment(
            request, dependencies=dependencies, interrupts=interrupts, stack=stack
        )
        return experiment.run()


@dataclass(slots=True)
class _BuildLaunches:
    """One side: its session, and the time of each round so far in seconds, by clock."""

    session: CaseSession
    candidates: tuple[Candidate, ...] = ()
    times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def expected(self) -> list[dict[str, str]]:
        """Return the detail of a launch that used every transplant."""
        items = [candidate.transplant for candidate in self.candidates]
        return [{"name": item.name, "sha256": item.sha256} for item in items]


class _Experiment:
    """An experiment in progress."""

    def __init__(
        self,
        request: TransplantRequest,
        *,
        dependencies: TransplantDependencies,
        interrupts: Interrupts,
        stack: ExitStack,
    ) -> None:
        self._request = request
        self._dependencies = dependencies
        self._interrupts = interrupts
        self._stack = stack
        self._sides: dict[str, _BuildLaunches] = {}
        self._refusals: list[KernelRefusal] = []
        self._num_rounds = 0

    def run(self) -> Transplantation:
        """Compile both builds, then the transplants, then launch rounds."""
        request = self._request
        self._say("compiling the bad build")
        bad = self._first(_BAD, request.bad)
        self._check_code(bad)
        if isinstance(request.good, KnownBuild):
            good = request.good.kernels
        else:
            self._say("compiling the good build")
            good = side_of(self._first(_GOOD, request.good))
        candidates, refusals = find_candidates(
            good,
            side_of(bad),
            max_kernels=request.max_kernels,
            num_threads=request.bad.order.settings.num_threads,
        )
        self._refusals += refusals
        self._say(f"{counted(len(candidates), 'kernel')} to transplant, {len(refusals)} refused")
        working = [item for item in candidates if self._begin(_key(item), (item,))]
        if len(working) > 1:
            self._begin(_TOGETHER, tuple(working))
        self._launch_rounds()
        return self._answer(working)

    def _check_code(self, bad: CaseResult) -> None:
        """Raise BisectError if the bad build compiles to none of the kernels that it had."""
        known = self._request.known_code
        if known and known.isdisjoint(kernel.source_hash for kernel in bad.kernels):
            raise BisectError(
                f"{self._request.case.key} compiles to other kernels now than in the run of the bad"
                " build: its model or its toolchain has changed since",
                case=self._request.case.key,
            )

    def _first(self, name: str, side: PairSide) -> CaseResult:
        """Return the result of the first launch of a build; raise BisectError if it fails."""
        order = replace(side.order, settings=replace(side.order.settings, kernels=True))
        session = self._open(replace(side, order=order))
        self._launch(session)
        result = session.finish()
        if result.outcome is not Outcome.OK:
            raise BisectError(
                f"in the {name} build the case ends as {result.outcome}:"
                f" {result.reason.rstrip('.')}. Both builds must run it",
                outcome=result.outcome,
            )
        self._sides[name] = _BuildLaunches(session=session)
        return result

    def _begin(self, name: str, candidates: tuple[Candidate, ...]) -> bool:
        """Compile the bad build with kernels of the good one; return whether it works."""
        self._say(f"compiling the bad build with {labels_of(candidates)} of the good one")
        bad = self._request.bad
        transplants: tuple[KernelTransplant, ...] = tuple(item.transplant for item in candidates)
        order = replace(
            bad.order,
            workload=replace(bad.order.workload, transplants=transplants),
            settings=replace(bad.order.settings, kernels=False),
        )
        launches = _BuildLaunches(
            session=self._open(replace(bad, order=order)), candidates=candidates
        )
        problem = _problem(self._launch(launches.session), launches)
        if problem is None:
            self._sides[name] = launches
            return True
        self._refuse(name, candidates, *problem)
        return False

    def _refuse(
        self, name: str, candidates: Sequence[Candidate], reason: RefusalReason, text: str
    ) -> None:
        self._say(f"  refused: {text}")
        if name == _TOGETHER:
            text = f"all together: {text}"
        self._refusals += [refused(item, reason, text) for item in candidates]

    def _launch_rounds(self) -> None:
        """Launch rounds until the answer is narrow or the time is up."""
        limits = looks(min(MIN_ROUNDS, self._request.max_rounds), self._request.max_rounds)
        started_at = self._dependencies.now()
        while self._num_rounds < limits[-1]:
            if not all(side.session.has_time for side in self._sides.values()):
                break
            self._launch_round()
            spent_s = (self._dependencies.now() - started_at).total_seconds()
            is_late = spent_s * (self._num_rounds + 1) / self._num_rounds > self._request.limit_s
            if self._num_rounds >= limits[0] and (is_late or self._is_clear()):
                return
        if self._num_rounds < _LEAST_ROUNDS:
            raise BisectError(
                f"{counted(self._num_rounds, 'round')} fitted into the time limit, and an interval"
                f" needs {_LEAST_ROUNDS}: raise --step-minutes, or [run] timeout_s in hud.toml",
                outcome=Outcome.TIMEOUT,
            )

    def _launch_round(self) -> None:
        names = list(self._sides)
        ordered = names[::-1] if self._num_rounds % 2 else names
        for name in ordered:
            side = self._sides.get(name)
            if side is None:
                continue
            report = self._launch(side.session)
            problem = _problem(report, side)
            if problem is not None:
                self._drop(name, side, problem)
                continue
            for clock in (CPU, WALL):
                if clock in report.metrics:
                    level = statistics.median(report.metrics[clock].samples)
                    side.times.setdefault(clock, []).append(level)
        self._num_rounds += 1
        case = self._request.case
        self._dependencies.notify(PairLaunched(case=case, num_pairs=self._num_rounds))

    def _drop(self, name: str, side: _BuildLaunches, problem: tuple[RefusalReason, str]) -> None:
        """Let a side leave; raise BisectError for a build itself."""
        if not side.candidates:
            raise BisectError(
                f"in the {name} build a later launch failed: {problem[1]}", outcome=Outcome.FAILED
            )
        del self._sides[name]
        self._refuse(name, side.candidates, *problem)

    def _is_clear(self) -> bool:
        verdict = judge_loss(self._loss(), floor=self._request.floor)
        if verdict is not BoundsVerdict.DIFFER:
            return verdict is BoundsVerdict.SAME
        mixtures = [name for name, side in self._sides.items() if side.candidates]
        return all(self._share(name).half_width < _TARGET_SHARE for name in mixtures)

    @property
    def _clock(self) -> str:
        """Return the clock that decides: CPU time where every launch has it, else wall time."""
        sides = self._sides.values()
        has_cpu = all(len(side.times.get(CPU, ())) == self._num_rounds for side in sides)
        return CPU if has_cpu else WALL

    def _times(self, *names: str) -> list[list[float]]:
        """Return the times of some sides in the calm rounds."""
        rows = {name: side.times.get(self._clock, []) for name, side in self._sides.items()}
        calm = calm_rounds(*rows.values())
        return [[rows[name][number] for number in calm] for name in names]

    def _loss(self) -> Estimate:
        if isinstance(self._request.good, KnownBuild):
            return self._request.good.loss
        good, bad = self._times(_GOOD, _BAD)
        return loss_ratio(good, bad)

    def _share(self, name: str) -> LossShare:
        if isinstance(self._request.good, KnownBuild):
            mixture, bad = self._times(name, _BAD)
            return share_of_known_loss(mixture, bad=bad, loss=self._request.good.loss)
        mixture, good, bad = self._times(name, _GOOD, _BAD)
        return share_of_loss(mixture, good=good, bad=bad)

    def _answer(self, working: Sequence[Candidate]) -> Transplantation:
        loss = self._loss()
        gains = [
            KernelGain(candidate=item, share=self._share(_key(item)))
            for item in working
            if _key(item) in self._sides
        ]
        together = None
        if _TOGETHER in self._sides:
            together = self._share(_TOGETHER)
        elif len(working) == 1 and gains:
            together = gains[0].share
        return Transplantation(
            case=self._request.case,
            metric=self._clock,
            loss=loss,
            is_known=isinstance(self._request.good, KnownBuild),
            verdict=judge_loss(loss, floor=self._request.floor),
            gains=tuple(sorted(gains, key=lambda gain: -gain.share.share)),
            refusals=tuple(self._refusals),
            together=together,
            num_rounds=self._num_rounds,
        )

    def _open(self, side: PairSide) -> CaseSession:
        session = side.executor.begin(side.order)
        self._stack.callback(session.close)
        return session

    def _launch(self, session: CaseSession) -> LaunchReport:
        report = session.launch()
        # The report of a killed launch means nothing.
        if self._interrupts.were_requested():
            raise RunInterrupted(_STOPPED)
        return report

    def _say(self, text: str) -> None:
        self._dependencies.notify(LogMessage(text=text))


def _key(candidate: Candidate) -> str:
    return candidate.transplant.sha256


def _problem(report: LaunchReport, side: _BuildLaunches) -> tuple[RefusalReason, str] | None:
    """Return the reason why a launch has no number, None if it has one."""
    if report.outcome is Outcome.INACCURATE:
        return RefusalReason.RESULTS, report.reason
    if report.outcome is not Outcome.OK:
        return RefusalReason.FAILED, f"the launch ends as {report.outcome}: {report.reason}"
    used: Any = report.details.get(TRANSPLANTS)
    if side.candidates and used != side.expected:
        return RefusalReason.FAILED, "the launch does not confirm that it used the other code"
    return None


def as_mapping(answer: Transplantation) -> Mapping[str, Any]:
    """Return the answer as a JSON object."""
    together = answer.together
    return {
        "case": answer.case.to_json(),
        "metric": answer.metric,
        "loss": {
            "verdict": str(answer.verdict),
            "ratio": answer.loss.value,
            "low": answer.loss.low,
            "high": answer.loss.high,
            "is_known": answer.is_known,
        },
        "kernels": [
            {
                "label": gain.candidate.label,
                "name": gain.candidate.transplant.name,
                "sha256": gain.candidate.transplant.sha256,
                "contribution_us": 1e6 * gain.candidate.contribution_s,
                **_percent(gain.share),
            }
            for gain in answer.gains
        ],
        "together": None if together is None else _percent(together),
        "rest": None if together is None else _percent(together.rest),
        "refused": [item.to_json() for item in answer.refusals],
        "num_rounds": answer.num_rounds,
    }


def _percent(share: LossShare) -> dict[str, Any]:
    bounds = [share.low, share.high]
    is_clear = None not in bounds
    return {
        "share_pct": 100 * share.share if math.isfinite(share.share) else None,
        "interval_pct": [100 * bound for bound in bounds if bound is not None]
        if is_clear
        else None,
    }
