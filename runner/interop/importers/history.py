"""Rows of other tools, grouped into runs with their results.

Method: rows of one origin make one run. With a workflow id, a run is a day of the workflow; without
one, half an hour without rows ends a run. Values of one metric of a case in one run are launches;
duplicates count once.

Rows are stored as indices into tables of distinct values, about 50 bytes each: a file of hundreds
of megabytes has millions of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

import numpy as np

from compile_hud.db.records.imported import IMPORT_TRIGGER, IMPORTED_TOOLCHAIN
from compile_hud.db.records.results import Case, Run, RunDocument, RunState
from compile_hud.runner.execution.environment import fingerprint
from compile_hud.runner.interop.importers.case_evidence import CaseEvidence, result_of, split
from compile_hud.runner.interop.importers.named_counts import NamedCounts
from compile_hud.runner.interop.importers.series_units import SeriesUnits
from compile_hud.runner.interop.importers.vocabulary import UNKNOWN, ImportedMetric, clean_name
from compile_hud.runner.interop.runner_spans import RunnerSpans

_DAY_S = 86_400
_GAP_S = 1_800
_DIGEST_LENGTH = 20
_IMPORTED_ID = re.compile(rf"{IMPORT_TRIGGER}-[0-9a-f]{{{_DIGEST_LENGTH}}}")
# Possible settings of a measurement, in the order of their names.
Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigin:
    """The origin of rows. `workflow` groups rows of one workflow, empty if unknown.

    `is_runner` means that the machine has the name or the type of its runner, which may be another
    host each night.

    `facts` are those of the environment, `about` is further information, both as JSON text. `run`
    is the id of an exported run in its original store, else empty.
    """

    suite: str
    branch: str
    revision: str
    machine: str
    workflow: str
    facts: str
    about: str
    run: str = ""
    is_runner: bool = False

    @property
    def toolchain(self) -> str:
        """Return the name of the toolchain, which no toolchain of this machine can have."""
        return f"{IMPORTED_TOOLCHAIN}:{self.branch or UNKNOWN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingValuePolicy:
    """The values for facts that a file lacks; `at` is None without a time on the command line."""

    revision: str = UNKNOWN
    machine: str = UNKNOWN
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One metric of one case at one time, in seconds since 1970; None if the file has no time.

    It has either `values`, in the metric's own unit, or `text`. `launches` are the numbers of
    values by launch; empty if one launch has all. `settings` are those outside of the case.
    """

    origin: RowOrigin
    at_s: float | None
    case: Case
    metric: ImportedMetric
    values: tuple[float, ...] = ()
    launches: tuple[int, ...] = ()
    text: str = ""
    settings: Settings = ()


@dataclass(slots=True)
class _NumberedTable:
    """Distinct objects with their numbers."""

    numbers: dict[Any, int] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)

    def number(self, item: Hashable) -> int:
        number = self.numbers.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
        return number


class HistoryBuilder:
    """Collect rows in any order, then return the runs, oldest first."""

    def __init__(self, *, untimed_at: datetime, has_exact_time: bool, units: SeriesUnits) -> None:
        """Use `untimed_at` for rows without a time; `has_exact_time` if the user gave it."""
        self._units = units
        self._aligned: dict[tuple[int, ImportedMetric], ImportedMetric] = {}
        self._untimed_s = untimed_at.timestamp()
        self._has_exact_time = has_exact_time
        self._origins, self._cases, self._metrics, self._texts = (
            _NumberedTable() for _ in range(4)
        )
        self._launches = _NumberedTable()
        self._case_numbers: dict[Case, int] = {}
        self._case_keys: dict[str, Case] = {}
        self._measured: set[int] = set()
        names = ("origin", "case", "metric", "text", "launches")
        self._columns = {name: array("i") for name in names}
        self._times = array("d")
        self._values = array("d")
        # One past the last value of each row.
        self._ends = array("q")
        self.num_untimed = 0
        # Rows that became launches of a result with other settings, by the names of these.
        self.mixed = NamedCounts(max_named=1)
        # The origin and the settings of the previous row, by case and metric.
        self._settings: dict[tuple[int, int], tuple[int, float | None, tuple[Case, Settings]]] = {}
        # Empty until all documents were made.
        self.runner_spans = RunnerSpans()

    @property
    def num_rows(self) -> int:
        return len(self._times)

    @property
    def newest_row_at(self) -> datetime | None:
        """Return the latest time of a row, None where no row has one."""
        last_s = max((at_s for at_s in self._times if not math.isnan(at_s)), default=None)
        return None if last_s is None else datetime.fromtimestamp(last_s, timezone.utc)

    @property
    def metrics(self) -> tuple[ImportedMetric, ...]:
        """Return every metric that has a number, by name; outcomes in words are none."""
        # The factor of a unit makes no other metric.
        numbers = sorted(self._measured)
        measured = dict.fromkeys(
            replace(self._metrics.items[number], scale=1.0) for number in numbers
        )
        return tuple(sorted(measured, key=lambda metric: str(metric.name)))

    def add(self, row: HistoryRow) -> None:
        columns = self._columns
        origin, case = self._origins.number(row.origin), self._case_number(row.case)
        columns["origin"].append(origin)
        columns["case"].append(case)
        imported = self._metric(row, case=case)
        metric = self._metrics.number(imported)
        columns["metric"].append(metric)
        if row.values:
            self._measured.add(metric)
            self._compare(row, origin=origin, key=(case, metric))
        columns["text"].append(self._texts.number(row.text))
        sizes = row.launches or ((len(row.values),) if row.values else ())
        columns["launches"].append(self._launches.number(sizes))
        self._times.append(math.nan if row.at_s is None else row.at_s)
        self.num_untimed += row.at_s is None
        self._values.extend(value * imported.scale for value in row.values)
        self._ends.append(len(self._values))

    def _case_number(self, case: Case) -> int:
        """Return the number of `case`; cases of one key are one, as in the store."""
        number = self._case_numbers.get(case)
        if number is None:
            first = self._case_keys.setdefault(case.key, case)
            number = self._case_numbers[case] = self._cases.number(first)
        return number

    def _metric(self, row: HistoryRow, *, case: int) -> ImportedMetric:
        """Return the metric of `row` in the unit of its series."""
        key = case, row.metric
        if key not in self._aligned:
            self._aligned[key] = self._units.aligned(row.case.key, row.metric)
        return self._aligned[key]

    def _compare(self, row: HistoryRow, *, origin: int, key: tuple[int, int]) -> None:
        """Count a row whose settings differ from its predecessor's of the same case and metric."""
        settings = row.case, row.settings
        last_origin, last_s, last = self._settings.get(key, (origin, row.at_s, settings))
        self._settings[key] = (origin, row.at_s, settings)
        if origin == last_origin and settings != last and _is_near(row.at_s, last_s):
            names = sorted({name for name, _ in _all_settings(*settings) ^ _all_settings(*last)})
            reason = ", ".join(clean_name(name) for name in names)
            self.mixed.add(reason, name=f"{row.case.model} {row.metric.name}")

    def documents(self) -> Iterator[RunDocument]:
        """Yield the runs with their results, oldest first; the same rows give the same runs."""
        if not self._times:
            return
        times = np.array(self._times)
        is_timed = ~np.isnan(times)
        times[~is_timed] = self._untimed_s
        origins = np.array(self._columns["origin"])
        order = np.lexsort((np.arange(times.size), times, origins))
        groups = np.split(order, self._borders(times[order], origins[order], is_timed[order]))
        for rows in sorted(groups, key=lambda rows: float(times[rows[0]])):
            origin = self._origins.items[origins[rows[0]]]
            is_day = self._is_daily(origin, bool(is_timed[rows[0]]))
            yield self._document(origin, rows, at_s=float(times[rows[0]]), is_day=is_day)

    def _is_daily(self, origin: RowOrigin, is_timed: bool) -> bool:
        return bool(origin.workflow) if is_timed else not self._has_exact_time

    def _borders(self, times: np.ndarray, origins: np.ndarray, is_timed: np.ndarray) -> np.ndarray:
        """Return the indices at which another run begins, of rows in order."""
        by_workflow = np.array([bool(origin.workflow) for origin in self._origins.items])
        is_daily = np.where(is_timed, by_workflow[origins], not self._has_exact_time)
        is_other_day = np.diff(times // _DAY_S) != 0
        is_gap = np.diff(times) > _GAP_S
        is_border = (
            (np.diff(origins) != 0)
            | (is_daily[1:] != is_daily[:-1])
            | np.where(is_daily[1:], is_other_day, is_gap)
        )
        return np.flatnonzero(is_border) + 1

    def _document(
        self, origin: RowOrigin, rows: np.ndarray, *, at_s: float, is_day: bool
    ) -> RunDocument:
        when = f"day {at_s // _DAY_S:.0f}" if is_day else f"second {at_s!r}"
        is_imported = _IMPORTED_ID.fullmatch(origin.run)
        run_id = origin.run if is_imported else f"{IMPORT_TRIGGER}-{_digest(origin, when)}"
        at = datetime.fromtimestamp(at_s, timezone.utc)
        if origin.is_runner:
            self.runner_spans.add(origin.machine, first_s=at_s, last_s=at_s)
        by_case: dict[int, CaseEvidence] = {}
        for row in rows.tolist():
            evidence = by_case.setdefault(self._columns["case"][row], CaseEvidence())
            self._add_to(evidence, row)
        cases: list[Case] = [self._cases.items[number] for number in by_case]
        results = [
            result_of(evidence, case=case, run_id=run_id, at=at)
            for case, evidence in zip(cases, by_case.values(), strict=True)
        ]
        return RunDocument(
            run=_run(run_id, origin=origin, at=at, plan=cases), results=tuple(results)
        )

    def _add_to(self, evidence: CaseEvidence, row: int) -> None:
        metric: ImportedMetric = self._metrics.items[self._columns["metric"][row]]
        sizes: tuple[int, ...] = self._launches.items[self._columns["launches"][row]]
        if sizes:
            end = self._ends[row]
            evidence.add_launches(metric, split(self._values[end - sum(sizes) : end], sizes))
        else:
            evidence.add_text(metric.name, self._texts.items[self._columns["text"][row]])


def _all_settings(case: Case, settings: Settings) -> set[tuple[str, str]]:
    """Return `settings` with the parts of a case that its key does not have."""
    return {
        *settings,
        ("backend", case.backend),
        ("family", case.family),
        ("mode", case.mode),
    }


def _is_near(at_s: float | None, last_s: float | None) -> bool:
    """Return whether two rows of one origin are of one run: without a workflow, nights are not."""
    return at_s is None or last_s is None or abs(at_s - last_s) < _DAY_S / 2


def exported_id(run: Run) -> str:
    """Return the id that an imported `run` had in the store of the export, empty without one."""
    about: Mapping[str, str] = run.environment[IMPORTED_TOOLCHAIN]
    return about.get("run", "")


def _digest(origin: RowOrigin, when: str) -> str:
    """Return the digest that names a run: the same for the same rows, on every machine."""
    parts = (origin.suite, origin.branch, origin.revision, origin.machine, origin.workflow)
    exported = [origin.run] if origin.run else []
    identity = json.dumps([*parts, origin.facts, when, *exported])
    return hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST_LENGTH]


def _run(run_id: str, *, origin: RowOrigin, at: datetime, plan: Sequence[Case]) -> Run:
    facts: Mapping[str, Any] = json.loads(origin.facts)
    return Run(
        id=run_id,
        started_at=at,
        finished_at=at,
        state=RunState.FINISHED,
        suite=origin.suite,
        toolchain=origin.toolchain,
        revision=origin.revision,
        machine=origin.machine,
        environment={**facts, IMPORTED_TOOLCHAIN: json.loads(origin.about)},
        fingerprint=fingerprint(facts),
        plan=tuple(plan),
        trigger=IMPORT_TRIGGER,
    )
