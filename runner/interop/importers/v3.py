"""PyTorch's benchmark records, schema v3: one metric of one case of one job a record.

Only `metric` is required. docs/how-to/interop.md maps the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.db.records.results import (
    REFERENCE_FAMILY,
    Case,
    Dtype,
    Phase,
    contradicts_mode,
)
from compile_hud.models_zoo.catalog.variants import MODES
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.dynamo_name import parse_name
from compile_hud.runner.interop.importers.history import (
    HistoryRow,
    MissingValuePolicy,
    RowOrigin,
    Settings,
)
from compile_hud.runner.interop.importers.named_counts import (
    NamedCounts,
    location_name,
    unread_field,
    value_name,
)
from compile_hud.runner.interop.importers.record_runners import (
    arch_of,
    device_of,
    environment_facts,
    machine_type,
    runner_of,
)
from compile_hud.runner.interop.importers.record_shapes import (
    SHAPE_KEYS,
    RecordShapes,
    is_shape_list,
    shapes_of,
    with_shape,
)
from compile_hud.runner.interop.importers.record_times import time_s
from compile_hud.runner.interop.importers.vocabulary import (
    COMPILE_FLAGS,
    DTYPES,
    FALSE_WORDS,
    NO_NUMBER,
    NUMBER_RANGE,
    PHASES,
    TRUE_WORDS,
    UNKNOWN,
    as_number,
    clean_name,
    clean_part,
    failure_of,
    find_metric,
    has_unit,
    mode_of,
)

# These fields of `benchmark.extra_info` distinguish cases; most others are paths and defaults.
_SHAPE_KEYS = ("input_size", "seq_len", "input_len", "output_len", "request_rate")
# The number of devices that share the model; 1 equals a missing value.
_PARALLEL_KEYS = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"),
    *("expert_parallel_size", "tp_size", "pp_size", "dp_size", "ep_size", "world_size"),
)
_CASE_KEYS = frozenset(
    (
        *(*_SHAPE_KEYS, *_PARALLEL_KEYS, "batch_size", "quantization", "shape", "device"),
        *("backend", "compile_mode", "compiler", "variant", "is_dynamic", "dynamic_shapes"),
        "output",
    )
)
RUNNER_NAME, RUNNER_TYPE = "runners[0].name", "runners[0].type"
_EAGER_FLAG = "enforce_eager"
_LEVELS = ("compilation_config.mode", "compilation_config.level")
# Backends whose name adds nothing to whether torch.compile is in use.
_PLAIN_BACKENDS = ("", "inductor", "eager", "torch", "pytorch", "default")
# A longer text is a description, and one with a slash a path.
_MAX_SETTING_LENGTH = 32
_NO_QUANTIZATION = ("", "none", "noquant")
_NO_NUMBER_IN_RANGE = f"a metric without a number that a measurement can have ({NUMBER_RANGE})"

# The fields of a record and of its metric that are read, or that name no measurement.
_FIELDS = frozenset(
    (
        *("timestamp", "schema_version", "name", "repo", "head_branch", "head_sha", "workflow_id"),
        *("run_attempt", "job_id", "runners", "benchmark", "model", "metric", "dependencies"),
        *("inputs", *SHAPE_KEYS),
    )
)
_METRIC_FIELDS = frozenset(
    ("name", "benchmark_values", "extra_info", "unit", "direction", *SHAPE_KEYS)
)
# Statements about a metric, or about its values, that are no settings of the benchmark.
_STATEMENTS = frozenset(
    ("unit", "direction", "reason", "launches", "benchmark_values", *SHAPE_KEYS)
)
_NOTHING: tuple[Any, ...] = (None, "", 0, [], {})
_UNREAD_SHAPES = "a list of shapes of another length than the values, which are one case"


@dataclass(slots=True)
class V3Reader:
    """Read records; `skipped` has invalid records by the missing field, and single values."""

    missing_values: MissingValuePolicy
    skipped: NamedCounts = field(default_factory=NamedCounts)
    unread: NamedCounts = field(default_factory=lambda: NamedCounts(max_named=1))
    _origins: dict[str, RowOrigin] = field(default_factory=dict)
    _cases: dict[str, tuple[Case, Settings]] = field(default_factory=dict)

    def name_facts(self, name: str) -> tuple[str, ...]:
        """Return no facts: records have them all, and `name` adds none."""
        del name
        return ()

    def rows(self, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each record; raise ImportFailed naming the line that is wrong."""
        for line, record in source.objects():
            try:
                why = _what_is_missing(record)
                shapes = RecordShapes() if why else shapes_of(record)
                row = None if why else self._row(record, shapes=shapes)
            except RecordError as error:
                raise source.error(str(error), line) from error
            if row is None:
                self.skipped.add(why, name=location_name(line, _names(record)))
                continue
            self._count_unread(record, shapes=shapes, line=line)
            if shapes.parallel:
                yield from self._shape_rows(row, record, shapes=shapes.parallel, line=line)
            else:
                self._skip_values(record, num_valid=len(row.values), line=line)
                yield row

    def _count_unread(self, record: Mapping[str, Any], *, shapes: RecordShapes, line: int) -> None:
        """Count the fields of `record` whose values do not arrive in the store."""
        metric = get_mapping(record, "metric")
        names = [name for name in record if name not in _FIELDS and record[name] not in _NOTHING]
        names += [
            f"metric.{name}"
            for name in metric
            if name not in _METRIC_FIELDS and metric[name] not in _NOTHING
        ]
        reasons = [unread_field(name) for name in names]
        reasons += [_UNREAD_SHAPES] if shapes.is_unread else []
        for reason in reasons:
            self.unread.add(reason, name=location_name(line, _names(record)))

    def _shape_rows(
        self, row: HistoryRow, record: Mapping[str, Any], *, shapes: Sequence[str], line: int
    ) -> Iterator[HistoryRow]:
        """Yield a row of each shape of a record whose values are those of several shapes."""
        values = get_list(get_mapping(record, "metric"), "benchmark_values")
        for shape, value in zip(shapes, values, strict=True):
            case = replace(row.case, shape=with_shape(row.case.shape, shape))
            number = as_number(value)
            if number is not None:
                yield replace(row, case=case, values=(number,), launches=(), text="")
            elif isinstance(value, str) and failure_of(value) is not None:
                yield replace(row, case=case, values=(), launches=(), text=value)
            else:
                location = location_name(line, [*_names(record), shape])
                self.skipped.add(NO_NUMBER, name=value_name(location, value))

    def _skip_values(self, record: Mapping[str, Any], *, num_valid: int, line: int) -> None:
        """Count the values of a record that are no numbers."""
        values = get_list(get_mapping(record, "metric"), "benchmark_values")
        if not 0 < num_valid < len(values):
            return
        location = location_name(line, _names(record))
        for value in values:
            if as_number(value) is None:
                self.skipped.add(NO_NUMBER, name=value_name(location, value))

    def _row(self, record: Mapping[str, Any], *, shapes: RecordShapes) -> HistoryRow:
        metric = get_mapping(record, "metric")
        about = get_mapping(metric, "extra_info")
        values = _numbers(metric)
        case, settings = self._case(record)
        if shapes.common:
            case = replace(case, shape=with_shape(case.shape, shapes.common))
        return HistoryRow(
            origin=self._origin(record),
            at_s=time_s(record.get("timestamp")),
            case=case,
            settings=settings + _metric_settings(about) if about else settings,
            metric=find_metric(
                _metric_name(metric),
                unit=_stated(metric, "unit"),
                direction=_stated(metric, "direction"),
                device=case.device,
            ),
            values=values,
            launches=_launches(about, num_values=len(values)),
            text="" if values else _skip_text(_words(metric), reason=_text(about.get("reason"))),
        )

    def _origin(self, record: Mapping[str, Any]) -> RowOrigin:
        benchmark = get_mapping(record, "benchmark")
        names = ("repo", "head_branch", "head_sha", "workflow_id", "run_attempt", "name")
        parts = [_text(record.get(name)) for name in names]
        key = repr(
            (
                *(parts, benchmark.get("name"), arch_of(benchmark)),
                *(record.get("runners"), record.get("dependencies")),
            )
        )
        if key not in self._origins:
            self._origins[key] = self._make_origin(record, parts, benchmark=benchmark)
        return self._origins[key]

    def _make_origin(
        self, record: Mapping[str, Any], parts: list[str], *, benchmark: Mapping[str, Any]
    ) -> RowOrigin:
        repo, branch, revision, workflow, attempt, name = parts
        branch = branch.removeprefix("refs/heads/")
        runner = runner_of(record)
        given = self.missing_values.machine
        has_machine = given != UNKNOWN
        names = (machine_type(runner), _text(runner.get("name")), _text(runner.get("type")))
        texts = (given,) if has_machine else (*names, arch_of(benchmark), UNKNOWN)
        machine = next(filter(None, texts))
        facts = environment_facts(record, runner, machine=machine)
        run = clean_name(_text(get_mapping(runner, "extra_info").get("run")))
        about = {"format": "v3", "workflow": workflow, "attempt": attempt, "run": run}
        return RowOrigin(
            suite=clean_name(_text(benchmark.get("name")) or name or UNKNOWN),
            branch=clean_name("@".join(part for part in (repo, branch) if part)),
            revision=clean_name(revision or self.missing_values.revision),
            machine=clean_name(machine),
            # A database fills in 0 where there is no workflow.
            workflow=f"{workflow} {attempt}" if workflow not in ("", "0") else "",
            facts=json.dumps(facts, sort_keys=True),
            about=json.dumps({name: value for name, value in about.items() if value}),
            run=run,
            is_runner=not has_machine and any(names),
        )

    def _case(self, record: Mapping[str, Any]) -> tuple[Case, Settings]:
        benchmark, model = get_mapping(record, "benchmark"), get_mapping(record, "model")
        key = repr((benchmark, model, record.get("runners"), record.get("inputs")))
        if key not in self._cases:
            case = _make_case(
                record,
                benchmark=benchmark,
                model=model,
                has_machine=self.missing_values.machine != UNKNOWN,
            )
            settings = _settings(get_mapping(benchmark, "extra_info"))
            runner = runner_of(record)
            others = {
                RUNNER_NAME: _text(runner.get("name")),
                RUNNER_TYPE: _text(runner.get("type")),
                "model.extra_info": _text(model.get("extra_info")),
                "inputs": _text(record.get("inputs")),
            }
            more = tuple((name, text) for name, text in others.items() if text)
            self._cases[key] = (case, (*settings, *more))
        return self._cases[key]


def _make_case(
    record: Mapping[str, Any],
    *,
    benchmark: Mapping[str, Any],
    model: Mapping[str, Any],
    has_machine: bool,
) -> Case:
    about = get_mapping(benchmark, "extra_info")
    phase_text, dtype_text = _text(benchmark.get("mode")), _text(benchmark.get("dtype"))
    mode = mode_of(_mode(about, model))
    is_dynamic = any(_text(about.get(key)) == "True" for key in ("is_dynamic", "dynamic_shapes"))
    variant = _text(about.get("variant")) or (f"{mode}-dynamic" if is_dynamic else mode)
    return Case(
        model=clean_name(_model_name(record)),
        family=_family(model),
        phase=PHASES.get(phase_text.lower(), Phase.OTHER),
        shape=clean_part(
            ("" if is_shape_list(about.get("shape")) else _text(about.get("shape")))
            or _shape(about, phase_text, dtype_text)
        ),
        dtype=DTYPES.get(dtype_text.lower(), Dtype.OTHER),
        mode=mode,
        variant=clean_part(variant),
        backend=clean_part(_text(about.get("backend")) or _text(model.get("backend"))),
        device=device_of(record, about, has_machine=has_machine),
    )


def _mode(about: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Return the mode that executes the model, from the most specific field present."""
    is_compiled = _is_compiled(about)
    if text := _text(about.get("compile_mode")):
        # Programs also write the default of this argument if they compile nothing.
        return "eager" if is_compiled is False and mode_of(text) in MODES else text
    if text := _text(about.get("compiler")):
        return text
    # The harness of PyTorch's nightly suite states it only in the name of its output file.
    if named := parse_name(PurePosixPath(_text(about.get("output"))).name):
        return named.mode
    backend = _text(about.get("backend")) or _text(model.get("backend"))
    if is_compiled is None:
        return backend or UNKNOWN
    mode = "default" if is_compiled else "eager"
    return mode if backend.lower() in _PLAIN_BACKENDS else f"{backend}-{mode}"


def _is_compiled(about: Mapping[str, Any]) -> bool | None:
    """Return whether torch.compile is in use, None where no field says so."""
    for key in COMPILE_FLAGS:
        text = _setting(about, key).lower()
        if text in TRUE_WORDS or text in FALSE_WORDS:
            return text in TRUE_WORDS
    # Without this flag an engine may compile or not.
    if _setting(about, _EAGER_FLAG).lower() in TRUE_WORDS:
        return False
    levels = [text for key in _LEVELS if (text := _setting(about, key)).isdecimal()]
    return bool(levels[0].strip("0")) if levels else None


def _shape(about: Mapping[str, Any], phase_text: str, dtype_text: str) -> str:
    """Return the other properties that distinguish the case, `default` without any."""
    parts = []
    batch = _text(about.get("batch_size"))
    if batch not in ("", "None", "0"):
        parts.append(f"bs{batch}")
    parts += [f"{key}={value}" for key in _SHAPE_KEYS if (value := _setting(about, key))]
    quantization = _text(about.get("quantization"))
    if quantization.lower() not in _NO_QUANTIZATION:
        parts.append(quantization)
    # A phase or dtype unknown here becomes part of the shape, so that two cases stay two.
    parts += [text for text in (phase_text,) if text and text.lower() not in PHASES]
    parts += [text for text in (dtype_text,) if text and text.lower() not in DTYPES]
    parts += [
        f"{key}={value}"
        for key in _PARALLEL_KEYS
        if (value := _setting(about, key)) not in ("", "None", "0", "1")
    ]
    return "-".join(parts) or "default"


def _setting(about: Mapping[str, Any], key: str) -> str:
    """Return the value of `key` in a record or among the arguments of its benchmark."""
    args = about.get("args")
    return _text(about.get(key)) or _text(args.get(key) if isinstance(args, dict) else None)


def _settings(about: Mapping[str, Any]) -> Settings:
    """Return the other possible settings of the benchmark, which are no part of the case."""
    args = about.get("args")
    fields = {**(args if isinstance(args, dict) else {}), **about}
    return tuple(
        (name, _text(value))
        for name, value in sorted(fields.items())
        if name not in _CASE_KEYS and _is_setting(value)
    )


def _metric_settings(about: Mapping[str, Any]) -> Settings:
    """Return the texts about a metric, such as its aggregation: other numbers are results."""
    return tuple(
        (f"metric.extra_info.{name}", value.strip())
        for name, value in about.items()
        if isinstance(value, str) and name not in _STATEMENTS and _is_setting(value)
    )


def _is_setting(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_SETTING_LENGTH and "/" not in value
    return isinstance(value, int | float)


def _family(model: Mapping[str, Any]) -> str:
    origins = [item for item in get_list(model, "origins") if isinstance(item, str) and item]
    family = clean_name(origins[0] if origins else _text(model.get("type")) or UNKNOWN)
    # An imported result is no reference for a machine here.
    return UNKNOWN if family == REFERENCE_FAMILY else family


def _model_name(record: Mapping[str, Any]) -> str:
    name = get_mapping(record, "model").get("name")
    return name.strip() if isinstance(name, str) else ""


def _skip_text(words: list[str], *, reason: str) -> str:
    return f"{words[0]}: {reason}" if reason else words[0]


def _what_is_missing(record: Mapping[str, Any]) -> str:
    """Return the reason why `record` is no measurement, empty if it is one."""
    if "metric" not in record:
        return "no metric"
    metric = get_mapping(record, "metric")
    if not _metric_name(metric):
        return "a metric without a name"
    if not _numbers(metric) and not _words(metric):
        values = get_list(metric, "benchmark_values")
        has_number = any(isinstance(value, int | float) for value in values)
        return _NO_NUMBER_IN_RANGE if has_number else "a metric without a number"
    if not _model_name(record):
        return "no model"
    unit = _stated(metric, "unit")
    benchmark, model = get_mapping(record, "benchmark"), get_mapping(record, "model")
    about = get_mapping(benchmark, "extra_info")
    variant = _text(about.get("variant"))
    if variant in MODES and contradicts_mode(variant, mode=mode_of(_mode(about, model))):
        return f"a variant that is another mode ({variant} in mode {mode_of(_mode(about, model))})"
    if not has_unit(_metric_name(metric), unit):
        return f"{clean_name(_metric_name(metric))} in {clean_name(unit)}, a unit it cannot have"
    return ""


def _names(record: Mapping[str, Any]) -> list[str]:
    """Return the model and the metric of a record in any form."""
    parts = [record.get("model"), record.get("metric")]
    names = [part.get("name") for part in parts if isinstance(part, dict)]
    return [name.strip() for name in names if isinstance(name, str)]


def _metric_name(metric: Mapping[str, Any]) -> str:
    name = metric.get("name")
    return name.strip() if isinstance(name, str) else ""


def _stated(metric: Mapping[str, Any], key: str) -> str:
    """Return a statement about a metric, from its further facts or from the metric itself."""
    return _text(get_mapping(metric, "extra_info").get(key)) or _text(metric.get(key))


def _numbers(metric: Mapping[str, Any]) -> tuple[float, ...]:
    numbers = [as_number(value) for value in get_list(metric, "benchmark_values")]
    return tuple(number for number in numbers if number is not None)


def _launches(about: Mapping[str, Any], *, num_values: int) -> tuple[int, ...]:
    """Return the number of values of each launch, where the record has it."""
    try:
        sizes = json.loads(_text(about.get("launches")) or "[]")
    except (ValueError, RecursionError):
        return ()
    if not isinstance(sizes, list) or not all(type(item) is int and item > 0 for item in sizes):
        return ()
    return tuple(sizes) if sum(sizes) == num_values else ()


def _words(metric: Mapping[str, Any]) -> list[str]:
    """Return the texts of a metric that is none in numbers, and those that replace a number."""
    about = get_mapping(metric, "extra_info")
    words = [word for word in get_list(about, "benchmark_values") if isinstance(word, str)]
    texts = [text for text in get_list(metric, "benchmark_values") if isinstance(text, str)]
    return words or [text for text in texts if failure_of(text) is not None]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
