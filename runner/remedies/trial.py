"""Measure a case and the same case with a remedy, with interleaved launches until it is decided."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from compile_hud.runner.bisect.commit_comparison import CaseChange, case_change, pair_settings
from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.events import Notify
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.paired_launches import PairLimits, PairSide, measure_timed_pair
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
    with (
        Interrupts() as interrupts,
        device_lock(
            planned.case.device, lock_dir=dependencies.lock_dir, notify=dependencies.notify
        ),
    ):
        try:
            executor.open()
            with interrupts.deferred(executor.cancel):
                timed = measure_timed_pair(
                    [
                        _side(item, executor=executor, settings=settings, case_s=case_s)
                        for item in (planned, remedy.planned)
                    ],
                    limits=limits,
                    limit_s=case_s,
                    now=dependencies.now,
                    notify=dependencies.notify,
                )
                # The results of a killed launch mean nothing.
                if interrupts.were_requested():
                    raise RunInterrupted("stopped; nothing of the trial is kept")
        finally:
            executor.close()
    return case_change(timed)


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
