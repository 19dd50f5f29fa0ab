"""CSV files of PyTorch's `benchmarks/dynamo`: a case a row, a metric a column.

The file name carries the configuration (dynamo_name.py). A case that failed has zeros, which become
its outcome and no number; early versions of the suite left its row short. Any other short row was
cut off. Blank lines and lines that begin with `#` are skipped. The instruction counts of
`pr_time_benchmarks` are read as well: without a header, `name,metric,value[,noise]`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.db.shared.text import counted
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.case_evidence import ACCURACY, NEVER_ZERO
from compile_hud.runner.interop.importers.dynamo_name import DynamoName, parse_name
from compile_hud.runner.interop.importers.history import HistoryRow, MissingValuePolicy, RowOrigin
from compile_hud.runner.interop.importers.named_counts import NamedCounts, location_name
from compile_hud.runner.interop.importers.vocabulary import (
    DEVICES,
    DTYPES,
    PHASES,
    UNKNOWN,
    as_number,
    clean_name,
    clean_part,
    failure_of,
    find_metric,
    mode_of,
)

_NAME, _DEVICE, _BATCH, _TAG = "name", "dev", "batch_size", "tag"
_NOT_METRICS = (_NAME, _DEVICE, _BATCH, _TAG)
_BACKENDS = ("aot_inductor", "aot_eager", "dynamo_eager", "inductor", "eager", "export")
_NOTHING = DynamoName(mode="", suite="", dtype="", phase="", device="")


@dataclass(slots=True)
class CsvReader:
    """Read rows; `skipped` are the cells that are no numbers."""

    missing_values: MissingValuePolicy
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=lambda: NamedCounts(max_named=1))

    def name_facts(self, name: str) -> tuple[str, ...]:
        """Return the facts that the file `name` adds to its content."""
        named = parse_name(name)
        return (_stem(name),) if named is None else dataclasses.astuple(named)

    def rows(self, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each cell; raise ImportFailed naming the line that is wrong."""
        named = parse_name(source.path.name) or _NOTHING
        header: Sequence[str] | None = None
        for line, text in source.lines():
            if not text.strip() or text.lstrip().startswith("#"):
                continue
            cells = source.cells(line, text)
            if _NAME in cells:
                header = cells
            elif header is not None:
                yield from self._case_rows(cells, header, named=named, source=source, line=line)
            else:
                yield self._count_row(cells, named=named, source=source, line=line)

    def _case_rows(
        self,
        cells: Sequence[str],
        header: Sequence[str],
        *,
        named: DynamoName,
        source: Source,
        line: int,
    ) -> Iterator[HistoryRow]:
        values = dict(zip(header, cells, strict=False))
        is_short = len(cells) < len(header) and not _is_failed(values)
        if is_short or len(cells) > len(header):
            what = f"{counted(len(cells), 'cell')} under a header of {len(header)}"
            raise source.error(f"{what}: the file is cut off" if is_short else what, line)
        source.check_end(line)
        if not values.get(_NAME):
            raise source.error("a row without a name", line)
        case = _case(values, named)
        origin = self._origin(named, source=source, device=case.device)
        for name, text in values.items():
            if name in _NOT_METRICS or not text:
                continue
            number = _number(text)
            if number is None and (name == ACCURACY or failure_of(text) is not None):
                yield _row(origin, case, name, text=text)
            elif number is None:
                why = f"{clean_name(name)} is no number"
                self.skipped.add(why, name=location_name(line, (values[_NAME],)))
            else:
                yield _row(origin, case, name, values=(number,))

    def _count_row(
        self, cells: Sequence[str], *, named: DynamoName, source: Source, line: int
    ) -> HistoryRow:
        number = _number(cells[2]) if len(cells) in (3, 4) else None
        if number is None or not cells[0]:
            what = "this is neither a header with a column `name` nor `name,metric,value`"
            raise source.error(what, line)
        source.check_end(line)
        case = _case({_NAME: cells[0]}, named)
        origin = self._origin(named, source=source, device=case.device)
        return _row(origin, case, cells[1], values=(number,))

    def _origin(self, named: DynamoName, *, source: Source, device: str) -> RowOrigin:
        given = self.missing_values.machine
        machine = given if given != UNKNOWN else "_".join(filter(None, (device, named.hardware)))
        return RowOrigin(
            suite=named.suite or clean_name(_stem(source.path.name)),
            branch="",
            revision=clean_name(self.missing_values.revision),
            machine=clean_name(machine),
            workflow="",
            facts=json.dumps({"device_name": clean_name(machine)}),
            about=json.dumps({"format": "dynamo-csv"}),
        )


def _row(
    origin: RowOrigin, case: Case, name: str, *, values: tuple[float, ...] = (), text: str = ""
) -> HistoryRow:
    return HistoryRow(
        origin=origin,
        at_s=None,
        case=case,
        metric=find_metric(name, device=case.device),
        values=values,
        text=text,
    )


def _case(values: dict[str, str], named: DynamoName) -> Case:
    mode = mode_of(named.mode or UNKNOWN)
    parts = [f"bs{values[_BATCH]}"] if values.get(_BATCH) else []
    parts += [values[_TAG]] if values.get(_TAG) else []
    device = values.get(_DEVICE, "").lower() or named.device
    return Case(
        model=clean_name(values[_NAME]),
        family=named.suite or UNKNOWN,
        phase=PHASES.get(named.phase, Phase.OTHER),
        shape=clean_part("-".join(parts) or "default"),
        dtype=DTYPES.get(named.dtype, Dtype.OTHER),
        mode=mode,
        variant=mode,
        backend=next((name for name in _BACKENDS if name in named.mode), ""),
        device=device if device in DEVICES else clean_part(device or UNKNOWN),
    )


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _is_failed(values: dict[str, str]) -> bool:
    """Return whether a row has only zeros, one of them in a column that a successful case fills."""
    numbers = {
        find_metric(name).name: _number(text)
        for name, text in values.items()
        if name not in _NOT_METRICS
    }
    return set(numbers.values()) == {0.0} and not numbers.keys().isdisjoint(NEVER_ZERO)


def _number(text: str) -> float | None:
    try:
        return as_number(float(text))
    except ValueError:
        return None
