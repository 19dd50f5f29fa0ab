"""One case while it is executed here: launch after launch, then its result.

Apart from the executor, so that the launches of two cases, or of one case under two toolchains, can
be interleaved.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from db.records import CaseResult
from runner.combine import Ending, combine, needs_launch, report_of_ending
from runner.executor_api import CaseOrder
from runner.host import WorkerHost, tail
from runner.protocol import LaunchReport, LaunchRequest, MeasureSettings

# The rest stays for the runner, the dashboard and the page cache.
MEMORY_LIMIT_SHARE = 0.8


class LocalSession:
    """A CaseSession on this machine; `folder` is its own and goes with `close`.

    The case's time limit counts the time in its launches, not what happens between them.
    """

    def __init__(
        self,
        order: CaseOrder,
        *,
        host: WorkerHost,
        folder: Path,
        now: Callable[[], datetime],
        is_cancelled: Callable[[], bool],
        amend: Callable[[CaseResult], CaseResult] = lambda result: result,
    ) -> None:
        self._order = order
        self._host = host
        self._folder = folder
        self._now = now
        self._is_cancelled = is_cancelled
        self._amend = amend
        self._started_at = now()
        self._left_s = order.settings.timeout_s
        self._reports: list[LaunchReport] = []

    @property
    def needs_launch(self) -> bool:
        """Return whether another launch is wanted, by what the launches so far have shown."""
        return needs_launch(self._reports, settings=self._order.settings)

    def launch(self) -> LaunchReport:
        """Run one fresh process of the case and return what it found."""
        report = self._launch(len(self._reports))
        self._reports.append(report)
        return report

    def finish(self) -> CaseResult:
        """Return the case result of all launches."""
        result = combine(
            self._order,
            self._reports,
            result_id=uuid.uuid4().hex,
            started_at=self._started_at,
            finished_at=self._now(),
            log_tail=tail(self._folder / "log.txt"),
        )
        return self._amend(result)

    def close(self) -> None:
        """Remove what the case left on the disk; may be called twice."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self, number: int) -> LaunchReport:
        limit_s = self._order.settings.timeout_s
        if self._is_cancelled() or self._left_s <= 0:
            ending = Ending(text="cancelled" if self._is_cancelled() else "timeout")
            return report_of_ending(ending, log_tail="", limit_s=limit_s)
        log = self._folder / "log.txt"
        request = LaunchRequest(
            case=self._order.case,
            workload=self._order.workload,
            settings=_with_memory_limit(self._order),
            launch=number,
            cache_dir=str(self._folder / "cache"),
            report_path=str(self._folder / f"report-{number}.json"),
            log_path=str(log),
        )
        started_s = time.monotonic()
        ending = self._host.ask(
            {"action": "launch", "request": request.to_json()}, log=log, timeout_s=self._left_s
        )
        self._left_s -= time.monotonic() - started_s
        try:
            text = Path(request.report_path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return report_of_ending(ending, log_tail=tail(log), limit_s=limit_s)
        return LaunchReport.from_json(json.loads(text))


def _with_memory_limit(order: CaseOrder) -> MeasureSettings:
    if order.settings.memory_limit_bytes is not None or order.case.device != "cpu":
        return order.settings
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return replace(order.settings, memory_limit_bytes=int(total * MEMORY_LIMIT_SHARE))
