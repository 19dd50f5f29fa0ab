"""JSON of hyperfine (`--export-json`): commands with the time of each of their runs.

A file has neither time nor revision nor machine. The format is that of
https://github.com/sharkdp/hyperfine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.benchmark_tools.tool_case import (
    THINNED,
    parameter_texts,
    thinned,
    tool_case,
)
from compile_hud.runner.interop.importers.case_evidence import ACCURACY
from compile_hud.runner.interop.importers.history import HistoryRow, MissingValuePolicy, RowOrigin
from compile_hud.runner.interop.importers.named_counts import (
    NamedCounts,
    location_name,
    unread_field,
    value_name,
)
from compile_hud.runner.interop.importers.vocabulary import (
    NO_NUMBER,
    ImportedMetric,
    as_number,
    clean_name,
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
class HyperfineReader:
    """Read commands; `skipped` are runs that failed, and single values that are no numbers."""

    missing_values: MissingValuePolicy
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=lambda: NamedCounts(max_named=1))

    def name_facts(self, name: str) -> tuple[str, ...]:
        """Return no facts: `name` adds none."""
        del name
        return ()

    def rows(self, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each metric of a command; raise ImportFailed naming the line."""
        machine = clean_name(self.missing_values.machine)
        origin = RowOrigin(
            suite=TOOL,
            branch="",
            revision=clean_name(self.missing_values.revision),
            machine=machine,
            workflow="",
            facts=json.dumps({"device_name": machine}),
            about=json.dumps({"format": TOOL}),
        )
        for line, document in source.documents():
            try:
                for name in sorted(document.keys() - {"results"}):
                    self.unread.add(unread_field(name), name=location_name(line, ()))
                for command in get_list(document, "results"):
                    yield from self._command_rows(command, origin=origin)
            except RecordError as error:
                raise source.error(str(error), line) from error

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
        times = self._valid(get_list(command, "times"), name=name, without=failed)
        median = as_number(command.get("median"))
        if not times and not failed and median is not None:
            self.unread.add(_WITHOUT_TIMES, name=name)
            times = (median,)
        if times:
            numbers.append((find_metric("latency_s"), times))
        peaks = self._valid(get_list(command, "memory_usage_byte"), name=name, without=failed)
        if peaks:
            numbers.append((find_metric("peak_bytes"), peaks))
        # These means include the failed runs.
        for key in _MEANS if not failed else ():
            if (mean_s := as_number(command.get(key))) is not None:
                numbers.append((find_metric(f"{key}_s", unit="s"), (mean_s,)))
        return numbers, ""

    def _valid(self, values: Sequence[Any], *, name: str, without: set[int]) -> tuple[float, ...]:
        numbers = []
        for index, value in enumerate(values):
            number = as_number(value)
            if number is None:
                self.skipped.add(NO_NUMBER, name=value_name(name, value))
            elif index not in without:
                numbers.append(number)
        return thinned(numbers, count=lambda: self.unread.add(THINNED, name=name))


def _exit_text(codes: Sequence[Any]) -> str:
    """Return exit codes as text; hyperfine has none of a process that a signal ended."""
    texts = dict.fromkeys("a signal" if code is None else f"exit code {code}" for code in codes)
    count = f" in all {len(codes)} runs" if len(codes) > 1 else ""
    return f"the command ended with {', '.join(texts)}{count}" if count else ", ".join(texts)
