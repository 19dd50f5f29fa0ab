"""Result files of asv (airspeed velocity), `results/MACHINE/COMMIT-ENVIRONMENT.json`.

A file has the results of one commit on one machine in one environment. Parameters of a benchmark
are combined, the last one fastest. `null` is a failure and NaN a combination that was skipped.
`results/benchmarks.json` has the units, the names of parameters, and the version of each benchmark;
a result of another version is of other code. The time is that of the commit, because people measure
old commits later. The format is that of
https://asv.readthedocs.io/en/latest/dev.html#benchmark-suite-layout-and-file-formats, version 2.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.benchmark_tools.tool_case import tool_case
from compile_hud.runner.interop.importers.benchmark_tools.tool_reader import ToolReader, text_of
from compile_hud.runner.interop.importers.case_evidence import ACCURACY
from compile_hud.runner.interop.importers.history import HistoryRow, RowOrigin
from compile_hud.runner.interop.importers.record_times import time_s
from compile_hud.runner.interop.importers.vocabulary import (
    UNKNOWN,
    ImportedMetric,
    find_metric,
)

TOOL = "asv"
API_VERSION = 2
# Files of a results folder that have no results.
MACHINE_FILE, BENCHMARKS_FILE = "machine.json", "benchmarks.json"
# asv's types of benchmarks, by the first word of a function's name -> our metric.
_TYPES = {
    "time": "time",
    "timeraw": "time",
    "mem": "memory",
    "peakmem": "peakmemory",
    "track": "track",
}
METRICS: Mapping[str, str] = {"time": "latency_s", "peakmemory": "peak_bytes", "memory": "mem"}
_COLUMNS = ("result", "params", "version", "samples")
_OTHER_VERSION = "a result of another version of its benchmark, which has other code"
_TOO_SHORT = "a combination of parameters without a result"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Description:
    """The description of a benchmark, from results/benchmarks.json; all empty without that file."""

    kind: str = ""
    unit: str = ""
    version: str = ""
    parameter_names: Sequence[str] = ()


_NOTHING = _Description()


@dataclass(slots=True)
class AsvReader(ToolReader):
    """Read results; `skipped` are those of another version, and values that are no numbers."""

    FIELDS = frozenset(
        (
            *("commit_hash", "env_name", "date", "params", "python", "requirements", "env_vars"),
            *("result_columns", "results", "durations", "version"),
        )
    )

    def document_rows(self, document: Mapping[str, Any], *, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each combination of parameters."""
        _check_version(document)
        described = _descriptions(source.path.parent.parent / BENCHMARKS_FILE)
        origin = self._origin(document)
        at_s = time_s(document.get("date"), name="date")
        columns = [str(name) for name in get_list(document, "result_columns")]
        for name, cells in get_mapping(document, "results").items():
            values = dict(zip(columns, get_list({name: cells}, name), strict=False))
            yield from self._benchmark_rows(
                name, values, described=described.get(name, _NOTHING), origin=origin, at_s=at_s
            )

    def _origin(self, document: Mapping[str, Any]) -> RowOrigin:
        runner = text_of(get_mapping(document, "params").get("machine"))
        return self.origin(
            suite=TOOL,
            branch=text_of(document.get("env_name")),
            revision=text_of(document.get("commit_hash")),
            runner=runner,
            facts=_facts(document, machine=self.machine(runner)),
            about={"format": TOOL},
        )

    def _benchmark_rows(
        self,
        name: str,
        cells: Mapping[str, Any],
        *,
        described: _Description,
        origin: RowOrigin,
        at_s: float | None,
    ) -> Iterator[HistoryRow]:
        if described.version and text_of(cells.get("version")) not in ("", described.version):
            self.skipped.add(_OTHER_VERSION, name=name)
            return
        metric = _metric(name, described=described)
        names = described.parameter_names
        params = [list(map(str, values)) for values in _lists(cells.get("params"))]
        combinations = list(itertools.product(*params))
        results = _padded(cells.get("result"), num=len(combinations))
        samples = _padded(cells.get("samples"), num=len(combinations))
        if len(results) < len(combinations):
            self.skipped.add(_TOO_SHORT, name=name)
        for combination, result, rounds in zip(combinations, results, samples, strict=False):
            parameters = {
                names[number] if number < len(names) else f"param{number + 1}": text
                for number, text in enumerate(combination)
            }
            case = tool_case(name, tool=TOOL, parameters=parameters)
            text = _failure(result)
            # asv writes samples only with --record-samples.
            numbers = rounds if isinstance(rounds, list) and rounds else [result]
            values = () if text else self.samples(numbers, name=f"{name} {case.shape}")
            if text or values:
                yield HistoryRow(
                    origin=origin,
                    at_s=at_s,
                    case=case,
                    metric=find_metric(ACCURACY) if text else metric,
                    values=values,
                    text=text,
                )


def _check_version(document: Mapping[str, Any]) -> None:
    """Raise RecordError for results in another version of the format."""
    version = document.get("version")
    if version != API_VERSION:
        raise RecordError(
            f"results of asv in version {version!r} of the format; `asv update` writes version"
            f" {API_VERSION}",
            field="version",
            value=version,
            problem="version",
        )


def _descriptions(file: Path) -> Mapping[str, _Description]:
    """Return the descriptions of the benchmarks in `file`, none without it."""
    try:
        about = file.stat()
    except OSError:
        return {}
    return _read_descriptions(file, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=4)
def _read_descriptions(file: Path, mtime_ns: int, size: int) -> Mapping[str, _Description]:
    """Return the content of `file` in the state of this time and size, which its results share."""
    del mtime_ns, size
    try:
        return _described_by(read_json(file))
    except (OSError, RecordError):
        return {}


def _described_by(content: Any) -> dict[str, _Description]:
    """Return the descriptions of results/benchmarks.json; entries of another form are left out."""
    return {
        name: _Description(
            kind=text_of(entry.get("type")),
            unit=text_of(entry.get("unit")),
            version=text_of(entry.get("version")),
            parameter_names=[str(item) for item in entry.get("param_names") or ()],
        )
        for name, entry in (content if isinstance(content, dict) else {}).items()
        if isinstance(entry, dict) and isinstance(entry.get("param_names") or (), list | tuple)
    }


def _metric(name: str, *, described: _Description) -> ImportedMetric:
    """Return the metric of a benchmark: of its type, or of the first word of its function."""
    function = name.rpartition(".")[2]
    first, _, rest = function.partition("_")
    kind = described.kind or _TYPES.get(first.lower(), "")
    if kind in METRICS:
        return find_metric(METRICS[kind], unit="s" if kind == "time" else "B")
    # A tracked number has any meaning: its function names it.
    return find_metric(rest or function or UNKNOWN, unit="" if kind == "" else described.unit)


def _facts(document: Mapping[str, Any], *, machine: str) -> dict[str, Any]:
    """Return the facts of the environment, by our names."""
    params = get_mapping(document, "params")
    count = text_of(params.get("num_cpu"))
    flags = {
        "environment": text_of(document.get("env_name")),
        **get_mapping(document, "env_vars"),
    }
    facts = {
        "device_name": machine if machine != UNKNOWN else "",
        "cpu_model": text_of(params.get("cpu")),
        "num_cpus": int(count) if count.isdecimal() and len(count) < 8 else None,
        "ram": text_of(params.get("ram")),
        "platform": " ".join(filter(None, (text_of(params.get(key)) for key in ("os", "arch")))),
        "dependencies": dict(get_mapping(document, "requirements")),
        "flags": {name: value for name, value in flags.items() if value},
    }
    return {name: value for name, value in facts.items() if value}


def _failure(result: Any) -> str:
    """Return the word and the reason for a result without a number, empty if it has one."""
    if result is None:
        return "fail: asv has no result: the benchmark failed"
    if isinstance(result, float) and math.isnan(result):
        return "skip: asv has NaN: this combination of parameters was skipped"
    return ""


def _padded(values: Any, *, num: int) -> list[Any]:
    """Return the values of all combinations; one null stands for all of them."""
    return values if isinstance(values, list) else [values] * num


def _lists(value: Any) -> list[list[Any]]:
    """Return the values of each parameter."""
    return [item for item in value if isinstance(item, list)] if isinstance(value, list) else []
