"""TorchBench's userbenchmark files: one JSON object with `name`, `environ` and `metrics`.

The name of a metric contains its case, in one of three ways, or that of an operator in one of
TritonBench's; any other name stays unchanged. The file name contains the time,
`metrics-20260131023000.json`, taken as UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import get_mapping
from compile_hud.db.records.results import Case, Dtype, Phase
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.case_evidence import ACCURACY
from compile_hud.runner.interop.importers.history import HistoryRow, MissingValuePolicy, RowOrigin
from compile_hud.runner.interop.importers.named_counts import (
    NamedCounts,
    location_name,
    unread_field,
    value_name,
)
from compile_hud.runner.interop.importers.vocabulary import (
    DEVICES,
    DTYPES,
    NO_NUMBER,
    PHASES,
    UNKNOWN,
    ImportedMetric,
    as_number,
    clean_name,
    clean_part,
    failure_of,
    find_metric,
    mode_of,
)

# The passes of TritonBench; one that is no phase here becomes part of the shape.
PASSES: Mapping[str, Phase] = {
    "fwd_no_grad": Phase.OTHER,
    "fwd_bwd": Phase.TRAINING,
    "fwd": Phase.INFERENCE,
    "bwd": Phase.OTHER,
}
_FIELDS = frozenset(("name", "environ", "env", "metrics"))
_TIME = re.compile(r"metrics-(\d{14})\.json(?:\.gz)?")
_PHASE = "|".join(PHASES)
_NAMES = (
    # test_eval[resnet50-cuda-eager]_latency
    re.compile(
        rf"test_(?P<phase>{_PHASE})\[(?P<model>.+)-(?P<device>{'|'.join(DEVICES)})-(?P<mode>[^\]-]+)\]"
        r"_(?P<metric>\w+)"
    ),
    # model=resnet50, test=eval, device=cuda, bs=None, extra_args=[], metric=latencies
    re.compile(
        rf"model=(?P<model>.+), test=(?P<phase>{_PHASE}), device=(?P<device>[^,]+),"
        r" bs=(?P<batch>[^,]+), extra_args=(?P<mode>.*), metric=(?P<metric>\w+)"
    ),
    # resnet50-eval_latency
    re.compile(rf"(?P<model>.+)-(?P<phase>{_PHASE})_(?P<metric>\w+)"),
)
# The names of TritonBench: of one input, of all inputs of a backend such as
# `tritonbench_gemm_fwd[aten_matmul]-speedup`, and of an operator (`tritonbench_gemm_fwd-pass`).
_OPERATOR = rf"tritonbench_(?P<model>\w+?)_(?P<pass>{'|'.join(PASSES)})"
_OPERATOR_NAMES = (
    # tritonbench_gemm_fwd[x_(256, 256, 256)-aten_matmul]_latency
    re.compile(rf"{_OPERATOR}\[x_(?P<input>.*)-(?P<mode>[^\]-]+)\]_(?P<metric>.+)"),
    re.compile(rf"{_OPERATOR}\[(?P<mode>[^\]-]+)\]-(?P<metric>.+)"),
    re.compile(rf"{_OPERATOR}-(?P<metric>.+)"),
)
_MAX_NAME_LENGTH = 2000
# TorchBench's name of a metric -> our name and the factor between the units: ms and GB.
METRICS: Mapping[str, tuple[str, float]] = {
    "latency": ("latency_s", 1e-3),
    "latencies": ("latency_s", 1e-3),
    "iter_latencies": ("latency_s", 1e-3),
    "throughput": ("throughput_samples_per_s", 1.0),
    "throughputs": ("throughput_samples_per_s", 1.0),
    "iter_throughputs": ("throughput_samples_per_s", 1.0),
    "gmem": ("peak_bytes", 1e9),
    "gpu_peak_mem": ("peak_bytes", 1e9),
}
# The memory of the process: psutil's percentage, 0 to 100, times the memory of the host in GB.
_HOST_MEMORY = "cpu_peak_mem"
_OUT_OF_MEMORY = "out of memory"
_SKIPS = ("skip", "skip_by_dryrun", "not_implemented")


@dataclass(slots=True)
class TorchBenchReader:
    """Read metrics; `skipped` are those without a number, and single values that are none."""

    missing_values: MissingValuePolicy
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=lambda: NamedCounts(max_named=1))

    def name_facts(self, name: str) -> tuple[str, ...]:
        """Return the facts that the file `name` adds to its content: its time."""
        at_s = self._at_s(name)
        return () if at_s is None else (str(at_s),)

    def rows(self, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each metric; raise ImportFailed naming the line that is wrong."""
        at_s = self._at_s(source.path.name)
        for line, document in source.objects():
            try:
                origin = self._origin(document)
                metrics = get_mapping(document, "metrics")
            except RecordError as error:
                raise source.error(str(error), line) from error
            for field_name in sorted(document.keys() - _FIELDS):
                self.unread.add(unread_field(field_name), name=location_name(line, ()))
            for name, value in metrics.items():
                row = self._row(name, value, origin=origin, at_s=at_s)
                if row is None:
                    is_text = isinstance(value, str)
                    shown = value_name(name, value) if is_text else name
                    self.skipped.add("a metric without a number", name=shown)
                else:
                    yield row

    def _at_s(self, name: str) -> float | None:
        match = _TIME.fullmatch(name)
        if match is None or self.missing_values.at is not None:
            return None
        try:
            moment = datetime.strptime(match[1], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
        except ValueError:
            return None
        return moment.timestamp()

    def _origin(self, document: Mapping[str, Any]) -> RowOrigin:
        environ = get_mapping(document, "environ")
        machine = environ.get("device") or self.missing_values.machine
        if machine == UNKNOWN:
            # TritonBench writes its environment under another name.
            machine = get_mapping(document, "env").get("device") or UNKNOWN
        revision = environ.get("pytorch_git_version") or self.missing_values.revision
        version = environ.get("pytorch_version")
        return RowOrigin(
            suite=clean_name(str(document.get("name") or UNKNOWN)),
            branch="",
            revision=clean_name(f"{version}@{str(revision)[:10]}" if version else str(revision)),
            machine=clean_name(str(machine)),
            workflow="",
            facts=json.dumps({"device_name": clean_name(str(machine))}),
            about=json.dumps({"format": "torchbench"}),
        )

    def _row(
        self, name: str, value: Any, *, origin: RowOrigin, at_s: float | None
    ) -> HistoryRow | None:
        case, metric, is_model = _case(name, origin=origin)
        if isinstance(value, str):
            if is_model:
                metric, value = find_metric(ACCURACY), _accuracy_text(value)
            elif failure_of(value) is None:
                return None
            return HistoryRow(origin=origin, at_s=at_s, case=case, metric=metric, text=value)
        items = value if isinstance(value, list) else [value]
        values = tuple(number for item in items if (number := as_number(item)) is not None)
        if not values:
            return None
        for item in items if len(values) < len(items) else ():
            if as_number(item) is None:
                self.skipped.add(NO_NUMBER, name=value_name(name, item))
        return HistoryRow(origin=origin, at_s=at_s, case=case, metric=metric, values=values)


def _accuracy_text(value: str) -> str:
    """Return TorchBench's text, which replaces a number, as the word of an accuracy check."""
    if value in _SKIPS or value.startswith(("pass", "fail", "eager_")):
        return value
    if _OUT_OF_MEMORY in value.lower():
        return f"OOM: {value}"
    return f"fail_to_run: {value}"


def _parts(name: str, forms: Sequence[re.Pattern[str]]) -> dict[str, str]:
    # A longer name is free text, and matching it would take long.
    tries = (form.fullmatch(name) for form in forms if len(name) <= _MAX_NAME_LENGTH)
    match = next((match for match in tries if match is not None), None)
    return {} if match is None else {key: value or "" for key, value in match.groupdict().items()}


def _case(name: str, *, origin: RowOrigin) -> tuple[Case, ImportedMetric, bool]:
    """Return case and metric of `name`, and whether a text for it is the outcome of a model."""
    if operator := _parts(name, _OPERATOR_NAMES):
        return _operator_case(operator), _metric(operator["metric"]), False
    groups = _parts(name, _NAMES)
    metric = _metric(groups["metric"]) if groups else find_metric(name)
    mode = mode_of(groups.get("mode", "").strip("[]' ") or "eager")
    batch = groups.get("batch", "None")
    case = Case(
        model=clean_name(groups.get("model", "") or origin.suite),
        family="torchbench",
        phase=PHASES.get(groups.get("phase", ""), PHASES["eval"]),
        shape="default" if batch == "None" else clean_part(f"bs{batch}"),
        dtype=Dtype.OTHER,
        mode=mode,
        variant=mode,
        backend="" if mode == "eager" else mode,
        device=clean_part(groups.get("device", "") or UNKNOWN),
    )
    return case, metric, bool(groups)


def _operator_case(parts: Mapping[str, str]) -> Case:
    """Return the case of an operator; the prefix of its name may be a dtype: `bf16_gemm`."""
    phase = PASSES[parts["pass"]]
    shape = [parts["pass"]] if phase is Phase.OTHER else []
    shape += [parts["input"].strip()] if parts.get("input") else []
    prefix, _, rest = parts["model"].partition("_")
    dtype = DTYPES.get(prefix) if rest else None
    mode = mode_of(parts.get("mode") or UNKNOWN)
    return Case(
        model=clean_name(parts["model"] if dtype is None else rest),
        family="tritonbench",
        phase=phase,
        shape=clean_part("-".join(shape)) or "default",
        dtype=dtype or Dtype.OTHER,
        mode=mode,
        variant=mode,
        backend=mode,
        device=UNKNOWN,
    )


def _metric(name: str) -> ImportedMetric:
    if name == _HOST_MEMORY:
        return replace(find_metric(name, unit="GB"), scale=0.01)
    if name not in METRICS:
        return find_metric(name)
    ours, scale = METRICS[name]
    known = find_metric(ours)
    return ImportedMetric(name=known.name, unit=known.unit, direction=known.direction, scale=scale)
