"""Logs of TORCH_TRACE: the compilations of one process, with graph breaks and cache results.

An entry is a line in the form of glog with a JSON object; the lines of its payload begin with a
tab. Most of a log are graphs and code, which are skipped unread: a log of any size is read line by
line. tlparse reads the same logs. The form is that of torch/_logging/_internal.py.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compile_hud.runner.errors import TraceError
from compile_hud.runner.files.stream_reader import open_unpacked

# 1: first version.
SCHEMA_VERSION = 1
_ENTRY = re.compile(
    rb"(?:\[rank(?P<rank>\d+)\]:)?"
    rb"[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^\]\t]*:\d+\] (?P<json>\{.*)"
)
_RANK_IN_NAME = re.compile(r"rank_?(\d+)")
_METRICS, _BACKWARD_METRICS, _START = (
    "compilation_metrics",
    "bwd_compilation_metrics",
    "dynamo_start",
)
_FX_CACHE, _AOT_CACHE = "fx_graph_cache_", "aotautograd_cache_"
RESULTS = ("hit", "miss", "bypass")
_BREAK, _RECOMPILE, _VERSION = "dynamo_graph_break_reason", "recompile_reasons", "torch_version"
_NAMES = frozenset(
    (
        *(_BREAK, _RECOMPILE, _VERSION),
        *(f"{cache}{result}" for cache in (_FX_CACHE, _AOT_CACHE) for result in RESULTS),
    )
)
# Parsing is for these entries alone; graphs, code and events are most of a log.
_WORDS = tuple(
    f'"{word}"'.encode() for word in (*_NAMES, _METRICS, _BACKWARD_METRICS, _START, "str")
)
# No entry that is read, and no reason, is longer; a payload with the code of a graph is.
_MAX_ENTRY_BYTES = 8 << 20
_MAX_PAYLOAD_BYTES = 1 << 18
_MAX_TEXT = 500
_BREAK_AT = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_BYPASS = re.compile(r'"cache_bypass_reason": "((?:[^"\\]|\\.)*)"')
_MARKS = ("Graph Break Reason:", "Graph break in user code", "Encountered graph break")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """A graph break of one compilation; `location` is `file:line` of the user's code."""

    compile_id: str
    location: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompile:
    """A guard of an earlier compilation that failed, for which `compile_id` was compiled."""

    compile_id: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Compilation:
    """One compilation of a frame: its times in seconds, None where the log has none.

    `num_attempts` counts the restarts of Dynamo, too. A compilation without a `duration_s` has no
    end in the log.
    """

    compile_id: str
    function: str = ""
    location: str = ""
    num_attempts: int = 1
    duration_s: float | None = None
    backend_s: float | None = None
    inductor_s: float | None = None
    backward_s: float | None = None
    num_ops: int | None = None
    num_guards: int | None = None
    failure: str = ""
    fx_cache: Counter[str] = field(default_factory=Counter)
    aot_cache: Counter[str] = field(default_factory=Counter)
    bypass_reasons: list[str] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        """Return whether the log has the end of the compilation."""
        return self.duration_s is not None or bool(self.failure)

    @property
    def is_recompile(self) -> bool:
        """Return whether the frame had been compiled before."""
        return not self.compile_id.endswith("/0")

    @property
    def total_s(self) -> float:
        """Return the time of forward and backward."""
        return (self.duration_s or 0.0) + (self.backward_s or 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the compilation as a JSON object."""
        return {
            "compile_id": self.compile_id,
            "function": self.function,
            "location": self.location,
            "num_attempts": self.num_attempts,
            "is_finished": self.is_finished,
            "is_recompile": self.is_recompile,
            "duration_s": self.duration_s,
            "backend_s": self.backend_s,
            "inductor_s": self.inductor_s,
            "backward_s": self.backward_s,
            "num_ops": self.num_ops,
            "num_guards": self.num_guards,
            "failure": self.failure,
            "fx_graph_cache": {name: self.fx_cache[name] for name in RESULTS},
            "aot_autograd_cache": {name: self.aot_cache[name] for name in RESULTS},
            "bypass_reasons": self.bypass_reasons,
        }


@dataclass(slots=True, kw_only=True)
class CompileLog:
    """The content of one log.

    `is_cut` means that the last entry is not whole; `num_broken` counts other broken entries.
    """

    path: Path
    rank: int | None = None
    torch_version: str = ""
    compilations: list[Compilation] = field(default_factory=list)
    graph_breaks: list[GraphBreak] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    is_cut: bool = False
    num_broken: int = 0

    @property
    def total_s(self) -> float:
        """Return the time of all compilations."""
        return sum(item.total_s for item in self.compilations)

    @property
    def num_unfinished(self) -> int:
        """Return the number of compilations without an end in the log."""
        return sum(not item.is_finished for item in self.compilations)

    def cache_results(self, name: str) -> Counter[str]:
        """Return the sums of a cache, `fx_cache` or `aot_cache`."""
        total: Counter[str] = Counter()
        for item in self.compilations:
            total.update(getattr(item, name))
        return total

    def to_json(self) -> dict[str, Any]:
        """Return the log as a JSON object."""
        fx, aot = self.cache_results("fx_cache"), self.cache_results("aot_cache")
        return {
            "file": str(self.path),
            "rank": self.rank,
            "torch_version": self.torch_version,
            "is_cut": self.is_cut,
            "num_broken": self.num_broken,
            "num_compilations": len(self.compilations),
            "num_unfinished": self.num_unfinished,
            "total_s": self.total_s,
            "fx_graph_cache": {name: fx[name] for name in RESULTS},
            "aot_autograd_cache": {name: aot[name] for name in RESULTS},
            "compilations": [item.to_json() for item in self.compilations],
            "graph_breaks": [
                {"compile_id": item.compile_id, "location": item.location, "reason": item.reason}
                for item in self.graph_breaks
            ],
            "recompiles": [
                {"compile_id": item.compile_id, "reason": item.reason} for item in self.recompiles
            ],
        }


def read_log(path: Path) -> CompileLog:
    """Return the compilations in the log at `path`, packed with gzip or not.

    Raises TraceError if it cannot be read, or has no entry of TORCH_TRACE.
    """
    reader = _LogReader(path)
    try:
        with open_unpacked(path) as file:
            reader.read(file)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        # A process that was killed leaves a gzip file without its end as well.
        reader.log.is_cut = True
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}", path=path) from error
    if not reader.num_entries:
        raise TraceError(
            f"{path} has no entry of TORCH_TRACE. Expected a file such as"
            " dedicated_log_torch_trace_*.log, which torch writes to the folder in TORCH_TRACE",
            path=path,
        )
    return reader.log


class _LogReader:
    """The state of reading one log."""

    def __init__(self, path: Path) -> None:
        named = _RANK_IN_NAME.search(path.name)
        self.log = CompileLog(path=path, rank=int(named[1]) if named else None)
        self.num_entries = 0
        self._by_id: dict[str, Compilation] = {}
        # Names of files, by the numbers that stand for them.
        self._strings: dict[int, str] = {}

    def read(self, file: Any) -> None:
        """Read all entries of `file`, each with its payload."""
        entry: dict[str, Any] = {}
        payload: list[bytes] = []
        size = 0
        for line in _lines(file):
            # A process that was killed leaves half of a line.
            self.log.is_cut = not line.endswith(b"\n") and len(line) < _MAX_ENTRY_BYTES
            if line[:1] == b"\t":
                if entry and size < _MAX_PAYLOAD_BYTES:
                    payload.append(line[1:])
                    size += len(line)
                continue
            self._take(entry, b"".join(payload))
            entry, payload, size = self._entry(line), [], 0
        self._take(entry, b"".join(payload))

    def _entry(self, line: bytes) -> dict[str, Any]:
        """Return the entry that begins on `line`, empty for one that says nothing here."""
        match = _ENTRY.match(line)
        if match is None:
            # A program may print between the entries.
            return {}
        self.num_entries += 1
        text = match["json"]
        if match["rank"] and self.log.rank is None:
            self.log.rank = int(match["rank"])
        is_whole = line.endswith(b"\n")
        if is_whole and (len(line) > _MAX_ENTRY_BYTES or not any(word in text for word in _WORDS)):
            return {}
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            self.log.num_broken += is_whole
            return {}
        return entry if isinstance(entry, dict) else {}

    def _take(self, entry: Mapping[str, Any], payload: bytes) -> None:
        if not entry:
            return
        if isinstance(entry.get("rank"), int):
            self.log.rank = entry["rank"]
        if isinstance(item := entry.get("str"), list) and len(item) == 2:
            self._strings[item[1]] = str(item[0])
            return
        name = _artifact_name(entry)
        if name == _VERSION:
            self.log.torch_version = _version(payload)
            return
        compilation = self._compilation(entry)
        if compilation is None:
            return
        for key in (_METRICS, _BACKWARD_METRICS):
            if isinstance(metrics := entry.get(key), dict):
                _add_metrics(compilation, metrics, is_backward=key == _BACKWARD_METRICS)
                if key == _METRICS and not self.log.torch_version:
                    self.log.torch_version = _text(metrics.get("pytorch_version"))
        if name in _NAMES:
            self._add_artifact(compilation, name, payload.decode("utf-8", "replace"))

    def _add_artifact(self, compilation: Compilation, name: str, text: str) -> None:
        compile_id = compilation.compile_id
        if name == _BREAK:
            self.log.graph_breaks.append(_graph_break(compile_id, text))
        elif name == _RECOMPILE:
            self.log.recompiles += [
                Recompile(compile_id=compile_id, reason=reason) for reason in _reasons(text)
            ]
        else:
            cache, _, result = name.rpartition("_")
            is_fx = f"{cache}_" == _FX_CACHE
            (compilation.fx_cache if is_fx else compilation.aot_cache)[result] += 1
            if result == "bypass" and (match := _BYPASS.search(text)):
                compilation.bypass_reasons.append(_short(match[1]))

    def _compilation(self, entry: Mapping[str, Any]) -> Compilation | None:
        """Return the compilation of an entry; None for an entry of the process."""
        metrics = entry.get(_METRICS) or entry.get(_BACKWARD_METRICS) or {}
        compile_id = _compile_id(entry) or _text(
            metrics.get("compile_id") if isinstance(metrics, dict) else ""
        )
        if not compile_id:
            return None
        known = self._by_id.get(compile_id)
        start, attempt = entry.get(_START), entry.get("attempt")
        # A process that compiles again after a reset counts from 0 again.
        is_new = known is None or (start is not None and not attempt and known.is_finished)
        if known is None or is_new:
            known = self._by_id[compile_id] = Compilation(compile_id=compile_id)
            self.log.compilations.append(known)
        if isinstance(attempt, int):
            known.num_attempts = max(known.num_attempts, attempt + 1)
        if isinstance(start, dict) and not known.location:
            known.function, known.location = self._frame(start)
        return known

    def _frame(self, start: Mapping[str, Any]) -> tuple[str, str]:
        """Return the function and the location of the frame that is compiled."""
        stack = start.get("stack")
        frame = stack[-1] if isinstance(stack, list) and stack else {}
        if not isinstance(frame, dict):
            return "", ""
        filename = frame.get("filename")
        path = self._strings.get(filename, "") if isinstance(filename, int) else _text(filename)
        return _text(frame.get("name")), f"{path}:{frame.get('line')}" if path else ""


def _lines(file: Any) -> Iterator[bytes]:
    """Yield the lines of `file`; of a line longer than any entry only its beginning."""
    is_rest = False
    while line := file.readline(_MAX_ENTRY_BYTES):
        if not is_rest:
            yield line
        is_rest = not line.endswith(b"\n") and len(line) == _MAX_ENTRY_BYTES


def _artifact_name(entry: Mapping[str, Any]) -> str:
    artifact = entry.get("artifact")
    return _text(artifact.get("name")) if isinstance(artifact, dict) else ""


def _compile_id(entry: Mapping[str, Any]) -> str:
    frame, number = entry.get("frame_id"), entry.get("frame_compile_id")
    if not isinstance(frame, int) or not isinstance(number, int):
        return ""
    autograd = entry.get("compiled_autograd_id")
    return f"!{autograd}/{frame}/{number}" if isinstance(autograd, int) else f"{frame}/{number}"


def _add_metrics(
    compilation: Compilation, metrics: Mapping[str, Any], *, is_backward: bool
) -> None:
    if is_backward:
        compilation.backward_s = (compilation.backward_s or 0.0) + (_duration_s(metrics) or 0.0)
        return
    compilation.duration_s = _duration_s(metrics)
    compilation.backend_s = _number(metrics.get("backend_compile_time_s"))
    compilation.inductor_s = _number(metrics.get("inductor_compile_time_s"))
    compilation.num_ops = _count(metrics.get("graph_op_count"))
    compilation.num_guards = _count(metrics.get("guard_count"))
    compilation.function = _text(metrics.get("co_name")) or compilation.function
    if file := _text(metrics.get("co_filename")):
        compilation.location = f"{file}:{metrics.get('co_firstlineno')}"
    if kind := _text(metrics.get("fail_type")):
        compilation.failure = _short(f"{kind}: {_text(metrics.get('fail_reason'))}")


def _duration_s(metrics: Mapping[str, Any]) -> float | None:
    """Return the time of a compilation, by the names of several versions of torch."""
    micros = _number(metrics.get("duration_us"))
    if micros is not None:
        return micros / 1e6
    names = ("entire_frame_compile_time_s", "inductor_compile_time_s")
    return next(
        (value for name in names if (value := _number(metrics.get(name))) is not None), None
    )


def _graph_break(compile_id: str, text: str) -> GraphBreak:
    at = _BREAK_AT.search(text) or next(iter(list(_FRAME.finditer(text))[-1:]), None)
    lines = [line.strip() for line in text.splitlines()]
    message = next((line for line in lines if line and not line.startswith(_MARKS)), "")
    reason = message or next((line for line in lines if line), "no reason in the log")
    return GraphBreak(
        compile_id=compile_id,
        location=f"{at['file']}:{at['line']}" if at else "",
        reason=_short(reason),
    )


def _reasons(text: str) -> list[str]:
    """Return the reasons of a recompilation: a JSON list of texts, or the text itself."""
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        items = [text]
    texts = [str(item) for item in (items if isinstance(items, list) else [items]) if item]
    # The stack repeats the location that the guard names.
    return [_short(item.partition("User stack trace:")[0]) for item in texts] or [
        "no reason in the log"
    ]


def _version(payload: bytes) -> str:
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        return ""
    return _text(content.get("pytorch_version")) if isinstance(content, dict) else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}..."


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e15 else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
