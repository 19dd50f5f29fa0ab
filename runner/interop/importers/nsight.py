"""Kernel counters of NVIDIA's profilers, from their CSV output.

Three tables are read, by their headers: `nsys stats --report cuda_gpu_kern_sum --format csv`, a row
a kernel; `ncu --csv --page raw`, a row a call with a column for each metric and a row of units; and
`ncu --csv --page details`, a row for each metric of a call. Output of the program before a table,
and lines of the profiler itself (`==PROF==`), are skipped. The formats are those of NVIDIA's
documentation: https://docs.nvidia.com/nsight-compute/NsightComputeCli/ and
https://docs.nvidia.com/nsight-systems/UserGuide/. Until 2022 Nsight Systems called that report
gpukernsum and wrote words in full (`Average`); in 2020 it left the unit, nanoseconds, out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compile_hud.db.shared.text import counted
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.vocabulary import as_number

# More than a model launches, and more than Nsight Compute knows.
MAX_KERNELS = 10_000
MAX_COUNTERS = 5_000
_COMMAND_LINE = "Command line profiler metrics"
# A metric of Nsight Compute is named unit__what.how; `device__` metrics concern no kernel.
_METRIC = re.compile(r"(?!device__)\w+__.+")
# The names of all versions, in lower case without spaces.
_NSYS = {
    **dict.fromkeys(("totaltime", "total"), "nsys.total_s"),
    **dict.fromkeys(("avg", "average", "mean"), "nsys.mean_s"),
    **dict.fromkeys(("med", "median"), "nsys.median_s"),
    **dict.fromkeys(("min", "minimum"), "nsys.min_s"),
    **dict.fromkeys(("max", "maximum"), "nsys.max_s"),
    **dict.fromkeys(("stddev", "standarddeviation"), "nsys.stddev_s"),
}
_NSYS_COLUMN = re.compile(r"(?P<name>.+?)\s*(?:\((?P<unit>ns|us|ms|s|nsec|usec|msec|sec)\))?")
_NSYS_UNITS = {"nsec": "ns", "usec": "us", "msec": "ms", "sec": "s"}
# The share of all kernels follows from the totals.
_NSYS_OTHER = re.compile(r"Name|Instances|Time ?\(%\)")
_NUMBER = re.compile(r"-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DIGITS = re.compile(r"-?\d[\d.,]*")
_UNIT = re.compile(r"([numkKMGT]?)(byte|second|s|hz|Hz)(?:/(?:second|s))?")
_FACTORS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_FACTORS["T"] = 1e12
_BASES = {"byte": "byte", "second": "s", "s": "s", "hz": "Hz", "Hz": "Hz"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterMean:
    """The mean of one counter over `num_rows` rows; seconds, bytes and hertz are plain.

    A row of Nsight Compute is a call of the kernel, that of Nsight Systems is all its calls.
    """

    value: float
    unit: str
    num_rows: int


@dataclass(slots=True)
class _Sum:
    unit: str
    total: float = 0.0
    count: int = 0


@dataclass(slots=True)
class _NsightTable:
    """One table of a file; `take` reads a row of it."""

    source: Source
    header: list[str]
    take: Callable[[_NsightTable, dict[str, str], int], None]
    kernels: dict[str, dict[str, _Sum]]
    unread: dict[str, None]
    units: dict[str, str] = field(default_factory=dict)

    def row(self, cells: Sequence[str], line: int) -> None:
        """Read one row; raise ImportFailed if its length is not the header's, or it is cut off."""
        if len(cells) != len(self.header):
            raise self.source.error(
                f"the row has {counted(len(cells), 'cell')} and the header {len(self.header)}: the"
                " file is cut"
                " off, or no CSV of Nsight",
                line,
            )
        self.source.check_end(line)
        self.take(self, dict(zip(self.header, cells, strict=True)), line)

    def add(self, kernel: str, counter: str, value: tuple[float, str], *, line: int) -> None:
        """Add a value with its unit; raise ImportFailed if calls differ in their unit."""
        counters = self.kernels.setdefault(kernel, {})
        sums = counters.setdefault(counter, _Sum(unit=value[1]))
        if len(self.kernels) > MAX_KERNELS or len(counters) > MAX_COUNTERS:
            raise self.source.error("more kernels or counters than any profile has", line)
        if sums.unit != value[1]:
            raise self.source.error(
                f"{counter!r} is in {value[1]!r} here and in {sums.unit!r} above. Write the file"
                " with --print-units base",
                line,
            )
        sums.total += value[0]
        sums.count += 1

    def number(self, text: str, line: int) -> float | None:
        """Return the number in a cell, None where there is none; raise ImportFailed."""
        if _NUMBER.fullmatch(text):
            return as_number(float(text.replace(",", "")))
        if _DIGITS.fullmatch(text):
            raise self.source.error(
                f"{text!r} is a number of another locale; write the file with LC_ALL=C", line
            )
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterFile:
    """The counters of a file by kernel and counter, and the columns that were not read."""

    kernels: Mapping[str, Mapping[str, CounterMean]]
    unread_columns: tuple[str, ...] = ()


def read_counters(path: Path) -> CounterFile:
    """Return the counters of the file at `path`.

    Raises ImportFailed with the line for any other kind of file.
    """
    source = Source(path)
    kernels: dict[str, dict[str, _Sum]] = {}
    unread: dict[str, None] = {}
    table: _NsightTable | None = None
    for line, text in source.lines():
        if not text.strip():
            table = None
        elif text.startswith("=="):
            continue
        elif table is None:
            table = _table_of(source, text, line=line, kernels=kernels, unread=unread)
        else:
            table.row(source.cells(line, text), line)
    if not kernels:
        raise source.error(
            "there is no kernel in a table of Nsight. Expected what `nsys stats --report"
            " cuda_gpu_kern_sum --format csv` or `ncu --csv --page raw` prints",
            1,
        )
    means = {
        kernel: {
            name: CounterMean(value=sums.total / sums.count, unit=sums.unit, num_rows=sums.count)
            for name, sums in counters.items()
        }
        for kernel, counters in kernels.items()
    }
    return CounterFile(kernels=means, unread_columns=tuple(unread))


def _table_of(
    source: Source,
    text: str,
    *,
    line: int,
    kernels: dict[str, dict[str, _Sum]],
    unread: dict[str, None],
) -> _NsightTable | None:
    """Return the table whose header is `text`, None when it is none."""
    # A line before the header may be no CSV.
    if "Name" not in text or not ("Instances" in text or "Kernel Name" in text):
        return None
    header = source.cells(line, text)
    takers = (
        ({"Kernel Name", "ID", "Metric Name", "Metric Unit", "Metric Value"}, _take_detail),
        ({"Kernel Name", "ID"}, _take_raw),
        ({"Name", "Instances"}, _take_summary),
    )
    take = next((take for needed, take in takers if needed <= set(header)), None)
    if take is None:
        return None
    if len(set(header)) < len(header):
        raise source.error("the header has a column twice", line)
    return _NsightTable(source, header, take, kernels, unread)


def _take_raw(table: _NsightTable, row: dict[str, str], line: int) -> None:
    if not row["ID"]:
        table.units = row
        return
    kernel = row["Kernel Name"]
    for name, text in row.items():
        if _METRIC.fullmatch(name) and (number := table.number(text, line)) is not None:
            table.add(kernel, name, _plain(number, table.units.get(name, "")), line=line)


def _take_detail(table: _NsightTable, row: dict[str, str], line: int) -> None:
    kernel, metric = row["Kernel Name"], row["Metric Name"]
    number = table.number(row["Metric Value"], line)
    # The advice of a rule about a kernel is in a row without a metric.
    if not metric or number is None or metric.startswith("device__"):
        return
    section = row.get("Section Name", _COMMAND_LINE)
    name = metric if section == _COMMAND_LINE else f"{section}: {metric}"
    table.add(kernel, name, _plain(number, row["Metric Unit"]), line=line)


def _take_summary(table: _NsightTable, row: dict[str, str], line: int) -> None:
    kernel = row["Name"]
    if kernel in table.kernels:
        raise table.source.error(
            f"{kernel!r:.100} has a row already; give the report cuda_gpu_kern_sum alone", line
        )
    calls = table.number(row["Instances"], line)
    if calls is None:
        raise table.source.error(f"Instances is {row['Instances']!r:.100}, not a number", line)
    table.add(kernel, "nsys.calls", (calls, "calls"), line=line)
    for column, text in row.items():
        counter, unit = _summary_column(column)
        if counter and (number := table.number(text, line)) is not None:
            table.add(kernel, counter, _plain(number, unit), line=line)
        elif not counter and not _NSYS_OTHER.fullmatch(column):
            table.unread[column] = None


def _summary_column(column: str) -> tuple[str, str]:
    """Return the counter in a column of a summary, empty for none, and its unit."""
    match = _NSYS_COLUMN.fullmatch(column)
    if match is None:
        return "", ""
    counter = _NSYS.get("".join(match["name"].split()).lower(), "")
    unit = match["unit"] or "ns"
    return counter, _NSYS_UNITS.get(unit, unit)


def _plain(number: float, unit: str) -> tuple[float, str]:
    """Return a value without the prefix of its unit; an unknown unit stays as it is."""
    match = _UNIT.fullmatch(unit)
    if match is None:
        return number, unit
    per_second = "/s" if "/" in unit else ""
    return number * _FACTORS[match[1]], f"{_BASES[match[2]]}{per_second}"


def match_names(recorded: Collection[str], *, kernel_names: Iterable[str]) -> dict[str, str]:
    """Return the recorded name of each of `kernel_names` that was recorded.

    Equal names match. Else the names of the functions are compared, without namespaces, template
    arguments and parameters; they match if each side has just one kernel of that function.
    """
    here, there = dict.fromkeys(kernel_names), dict.fromkeys(recorded)
    equal = {name: name for name in here if name in there}
    ours, theirs = (
        _by_function(name for name in names if name not in equal) for names in (here, there)
    )
    alike = {
        ours[function][0]: theirs[function][0]
        for function in ours
        if len(ours[function]) == len(theirs.get(function, ())) == 1
    }
    return equal | alike


def _by_function(names: Iterable[str]) -> Mapping[str, list[str]]:
    functions: dict[str, list[str]] = {}
    for name in names:
        functions.setdefault(_function_of(name), []).append(name)
    return functions


def _function_of(name: str) -> str:
    plain = name.replace("(anonymous namespace)::", "")
    before = re.split(r"[<(]", plain, maxsplit=1)[0]
    return before.split("::")[-1].split(" ")[-1]
