"""Progress of a run as log records, for machines that collect them."""

from __future__ import annotations

import logging
from types import TracebackType

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.db.shared.text import counted, first_line
from compile_hud.runner.events import (
    CaseFinished,
    CaseSampling,
    CasesCompiling,
    CaseStarted,
    Event,
    LogMessage,
    RunEnded,
    RunStarted,
)
from compile_hud.runner.format import metric

# The name is the program's and not the module's: log collectors filter by it.
logger = logging.getLogger("hud")


class LogProgress:
    """Write each event as a log record; messages during a run carry the run and the case."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._fields = {}

    def __call__(self, event: Event) -> None:
        """Log `event`."""
        match event:
            case LogMessage():
                level = logging.WARNING if event.is_warning else logging.INFO
                logger.log(level, "%s", event.text, extra=self._fields)
            case RunStarted():
                self._fields = {"run_id": event.run.id}
                cases = counted(len(event.run.plan), "case")
                text = "run started: %s, torch %s"
                logger.info(text, cases, event.run.revision, extra=self._fields)
            case CaseStarted():
                self._fields = {**self._fields, "case": event.case.key}
            case CasesCompiling():
                # A message belongs to none of several cases.
                self._fields = {name: text for name, text in self._fields.items() if name != "case"}
            case CaseSampling():
                self._fields = {**self._fields, "case": event.case.key}
            case CaseFinished():
                self._log_result(event.result)
            case RunEnded():
                fields = {"run_id": event.run.id}
                logger.info("run %s", event.run.state, extra=fields)
                self._fields = {}

    def _log_result(self, result: CaseResult) -> None:
        self._fields = {"run_id": result.run_id}
        fields = {**self._fields, "case": result.case.key, "outcome": str(result.outcome)}
        if result.outcome is Outcome.OK:
            logger.info("case measured: %s", metric(result, "latency_s"), extra=fields)
        elif result.outcome.is_expected:
            logger.info("case not sampled: %s", first_line(result.reason), extra=fields)
        else:
            logger.warning("case not ok: %s", first_line(result.reason), extra=fields)
