"""Measure a case and the same case with a remedy, with interleaved launches until it is decided."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from compile_hud.runner.bisect.commit_comparison import CaseChange, CaseTimer, pair_settings
from compile_hud.runner.bisect.kernel_evidence import kernel_diff
from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.events import Notify, PairLaunched
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.paired_launches import PairLimits, PairSide, measure_pair
from compile_hud.runner.planning.plan import PlannedCase
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.remedies.catalog import CaseRemedy
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialDependencies:
    """The collaborators of a trial that tests replace."""

    executor: Executor
    lock_dir: Path
    now: Callable[[], datetime]
    notify: Notify


def try_remedy(
    planned: PlannedCase,
    remedy: CaseRemedy,
    *,
    settings: MeasureSettings,
    limits: PairLimits,
    case_s: float,
    dependencies: TrialDependencies,
) -> CaseChange:
    """Return the change that `remedy` makes to a case, measured for at most `case_s` seconds.

    Waits for the lock of the device. Nothing is stored. Raises ExecutorError without a worker host,
    and RunInterrupted when it was stopped.
    """
    executor = dependencies.executor
    timer = CaseTimer(case_s, now=dependencies.now)

    def on_pair(number: int) -> None:
        timer.count(number)
        dependencies.notify(PairLaunched(case=remedy.planned.case, num_pairs=number))

    with (
        Interrupts() as interrupts,
        device_lock(
            planned.case.device, lock_dir=dependencies.lock_dir, notify=dependencies.notify
        ),
    ):
        try:
            executor.open()
            with interrupts.deferred(executor.cancel):
                pair = measure_pair(
                    *(
                        _side(item, executor=executor, settings=settings, case_s=case_s)
                        for item in (planned, remedy.planned)
                    ),
                    limits=limits,
                    on_pair=on_pair,
                    is_time_up=lambda _number: timer.is_up(),
                )
                # The results of a killed launch mean nothing.
                if interrupts.were_requested():
                    raise RunInterrupted("stopped; nothing of the trial is kept")
        finally:
            executor.close()
    return CaseChange(
        pair=pair, num_pairs=timer.num_pairs, took_s=timer.spent_s(), kernels=kernel_diff(pair)
    )


def _side(
    planned: PlannedCase, *, executor: Executor, settings: MeasureSettings, case_s: float
) -> PairSide:
    order = CaseOrder(
        run_id=uuid.uuid4().hex[:12],
        case=planned.case,
        workload=planned.workload,
        settings=pair_settings(settings, case_s=case_s),
    )
    return PairSide(executor=executor, order=order)
