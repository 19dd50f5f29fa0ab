"""JSON of hyperfine (`--export-json`): commands with the time of each of their runs.

A file has neither time nor revision nor machine. The format is that of
https://github.com/sharkdp/hyperfine.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.db.shared.text import counted
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.benchmark_tools.tool_case import (
    parameter_texts,
    tool_case,
)
from compile_hud.runner.interop.importers.benchmark_tools.tool_reader import ToolReader
from compile_hud.runner.interop.importers.case_evidence import ACCURACY
from compile_hud.runner.interop.importers.history import HistoryRow, RowOrigin
from compile_hud.runner.interop.importers.named_counts import (
    unread_field,
)
from compile_hud.runner.interop.importers.vocabulary import (
    ImportedMetric,
    as_number,
    find_metric,
)

TOOL = "hyperfine"
_FIELDS = frozenset(
    (
        *("command", "mean", "stddev", "median", "user", "system", "min", "max", "times"),
        *("memory_usage_byte", "exit_codes", "parameters"),
    )
)
# hyperfine has the mean of these only.
_MEANS = ("user", "system")
_FAILED_RUN = "a run of a command that did not end with exit code 0"
_WITHOUT_TIMES = "a command without the times of its runs: their median is its value"


@dataclass(slots=True)
class HyperfineReader(ToolReader):
    """Read commands; `skipped` are runs that failed, and single values that are no numbers."""

    FIELDS = frozenset(("results",))

    def document_rows(self, document: Mapping[str, Any], *, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each metric of a command."""
        del source
        facts = {"device_name": self.machine("")}
        origin = self.origin(suite=TOOL, facts=facts, about={"format": TOOL})
        for command in get_list(document, "results"):
            yield from self._command_rows(command, origin=origin)

    def _command_rows(self, command: Any, *, origin: RowOrigin) -> Iterator[HistoryRow]:
        parameters = parameter_texts(get_mapping(command, "parameters"))
        case = tool_case(str(command.get("command") or ""), tool=TOOL, parameters=parameters)
        for name in sorted(command.keys() - _FIELDS):
            self.unread.add(unread_field(name), name=case.model)
        numbers, failure = self._numbers(command, name=case.model)
        if failure:
            metric = find_metric(ACCURACY)
            yield HistoryRow(origin=origin, at_s=None, case=case, metric=metric, text=failure)
        elif not numbers:
            self.skipped.add("a command without a number", name=case.model)
        for metric, values in numbers:
            yield HistoryRow(origin=origin, at_s=None, case=case, metric=metric, values=values)

    def _numbers(
        self, command: Mapping[str, Any], *, name: str
    ) -> tuple[list[tuple[ImportedMetric, tuple[float, ...]]], str]:
        """Return the values of each metric, and the reason if every run of the command failed."""
        codes = get_list(command, "exit_codes")
        failed = {number for number, code in enumerate(codes) if code != 0}
        if codes and len(failed) == len(codes):
            return [], f"fail: {_exit_text(codes)}"
        for number in sorted(failed):
            self.skipped.add(_FAILED_RUN, name=f"{name} {_exit_text([codes[number]])}")
        numbers = []
        times = self.samples(_of_good_runs(command, "times", failed), name=name)
        median = as_number(command.get("median"))
        if not times and not failed and median is not None:
            self.unread.add(_WITHOUT_TIMES, name=name)
            times = (median,)
        if times:
            numbers.append((find_metric("latency_s"), times))
        peaks = self.samples(_of_good_runs(command, "memory_usage_byte", failed), name=name)
        if peaks:
            numbers.append((find_metric("peak_bytes"), peaks))
        # These means include the failed runs.
        for key in _MEANS if not failed else ():
            if (mean_s := as_number(command.get(key))) is not None:
                numbers.append((find_metric(f"{key}_s", unit="s"), (mean_s,)))
        return numbers, ""


def _of_good_runs(command: Mapping[str, Any], key: str, failed: Container[int]) -> list[Any]:
    """Return the values of the runs of a command that did not fail."""
    values = enumerate(get_list(command, key))
    return [value for number, value in values if number not in failed]


def _exit_text(codes: Sequence[Any]) -> str:
    """Return exit codes as text; hyperfine has none of a process that a signal ended."""
    texts = dict.fromkeys("a signal" if code is None else f"exit code {code}" for code in codes)
    count = f" in all {counted(len(codes), 'run')}" if len(codes) > 1 else ""
    return f"the command ended with {', '.join(texts)}{count}" if count else ", ".join(texts)
