"""Calls and times of every kind of trace, compared with a count that shares no code with ours.

The count below is slow and plain: it looks at each event with each other one. The traces are made
for this test, and those of tests/fixtures/traces/public. If HUD_PUBLIC_TRACES names a folder, its
traces are compared as well.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import KernelReport, read_kernels
from tests.support.nightly import daily_first
from tests.support.records.trace_kinds import KINDS
from tests.support.records.traces import Json, write_trace

FOLDERS = (
    Path(__file__).parents[2] / "fixtures" / "traces" / "public",
    *map(Path, filter(None, [os.environ.get("HUD_PUBLIC_TRACES")])),
)
PUBLIC = [path for folder in FOLDERS for path in sorted(folder.glob("**/*.json*"))]
ON_DEVICE = re.compile(r"kernel|gpu_memcpy|gpu_memset|memcpy|memset", re.IGNORECASE)
LAUNCHES = re.compile(r"(\w+_(runtime|driver)|runtime)", re.IGNORECASE)
OPERATORS = ("cpu_op", "Operator")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Calls and nanoseconds of each name, and the nanoseconds in which anything ran, in a trace."""

    calls: Mapping[str, int]
    times: Mapping[str, int]
    busy_ns: int
    num_iterations: int


def nanoseconds(value: Any) -> int:
    """Return microseconds, a number or text, in whole nanoseconds: halves are rounded up."""
    exact = Fraction(value) * 1000 if isinstance(value, str) else Fraction(value * 1000)
    return int(exact + Fraction(1, 2))


def span_of(event: Json) -> Span:
    start = nanoseconds(event["ts"])
    return start, start + nanoseconds(event.get("dur", 0))


def complete(events: Iterable[Json]) -> list[Json]:
    return [event for event in events if event.get("ph") == "X"]


def iterations(events: Sequence[Json]) -> list[Span]:
    marks = [event for event in events if event.get("cat") == "user_annotation"]
    own = [span_of(event) for event in marks if event["name"] == "hud/iteration"]
    steps = [event for event in marks if re.fullmatch(r"ProfilerStep#\d+", event["name"])]
    return sorted(own or map(span_of, steps))


def is_in(moment: int, spans: Sequence[Span]) -> bool:
    return not spans or any(start <= moment < end for start, end in spans)


def covered_ns(spans: Iterable[Span]) -> int:
    total, reach = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def totals_of_device(events: Sequence[Json]) -> Totals:
    """Count the work that was launched in an iteration, as a reader of the trace would."""
    spans = iterations(events)
    launched: dict[int, int] = {}
    for event in events:
        correlation = event.get("args", {}).get("correlation")
        if LAUNCHES.fullmatch(event.get("cat", "")) and isinstance(correlation, int):
            launched.setdefault(correlation, span_of(event)[0])
    calls: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    inside = []
    for event in events:
        if not ON_DEVICE.fullmatch(event.get("cat", "")):
            continue
        start, end = span_of(event)
        begun = launched.get(event.get("args", {}).get("correlation"))
        if begun is None and launched:
            # It was launched before the recording began.
            begun = -1
        if is_in(start if begun is None else begun, spans):
            calls[event["name"]] += 1
            times[event["name"]] += end - start
            inside.append((start, end))
    return Totals(
        calls=calls, times=times, busy_ns=covered_ns(inside), num_iterations=len(spans) or 1
    )


def totals_of_host(events: Sequence[Json]) -> Totals:
    """Count the operators that began in an iteration, each without those that it called."""
    spans = iterations(events)
    by_thread: dict[Any, list[tuple[int, int, str]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in OPERATORS:
            start, end = span_of(event)
            by_thread[event["pid"], event["tid"]].append((start, end, event["name"]))
    calls: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    inside = []
    for operators in by_thread.values():
        operators.sort(key=lambda item: (item[0], -item[1]))
        starts = [start for start, _, _ in operators]
        for index, (start, end, name) in enumerate(operators):
            if not is_in(start, spans):
                continue
            after = operators[index + 1 : bisect_right(starts, end)]
            within = [(begin, min(stop, end)) for begin, stop, _ in after]
            calls[name] += 1
            times[name] += end - start - covered_ns(within)
            inside.append((start, end))
    return Totals(
        calls=calls, times=times, busy_ns=covered_ns(inside), num_iterations=len(spans) or 1
    )


def is_of_device(events: Iterable[Json]) -> bool:
    return any(ON_DEVICE.fullmatch(event.get("cat", "")) for event in events)


def reported(report: KernelReport) -> Totals:
    """Return the totals of our reader, of the whole trace."""
    number = report.profile.num_iterations
    calls: dict[str, float] = defaultdict(float)
    times: dict[str, float] = defaultdict(float)
    for kernel in report.kernels:
        calls[kernel.name] += kernel.count * number
        times[kernel.name] += kernel.total_s * number * 1e9
    idle_s = report.profile.components.get("idle", 0.0)
    busy_s = (report.profile.iteration_s - idle_s) * number
    return Totals(
        calls={name: round(count) for name, count in calls.items()},
        times={name: round(time) for name, time in times.items()},
        busy_ns=round(busy_s * 1e9),
        num_iterations=number,
    )


def check(path: Path, events: Sequence[Json]) -> None:
    """Compare our reader with the count."""
    report = read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})
    totals = reported(report)
    is_device = is_of_device(events)
    expected = totals_of_device(events) if is_device else totals_of_host(events)
    assert totals.num_iterations == expected.num_iterations
    assert totals.calls == {name: count for name, count in expected.calls.items() if count}
    assert totals.times == pytest.approx(expected.times, abs=1)
    if is_device:
        assert totals.busy_ns == pytest.approx(expected.busy_ns, abs=2)
        whole_ns = sum(totals.times.values())
        overlap_ns = report.profile.overlap_s * totals.num_iterations * 1e9
        assert whole_ns - overlap_ns == pytest.approx(expected.busy_ns, abs=2)
    components_s = sum(report.profile.components.values())
    assert components_s == pytest.approx(report.profile.iteration_s)


@pytest.mark.parametrize("seed", daily_first([3, 14, 159, 2653], num_daily=1))
@pytest.mark.parametrize("kind", KINDS)
def test_totals_are_those_of_a_plain_count(tmp_path: Path, kind: str, seed: int) -> None:
    events = KINDS[kind](seed)
    path = write_trace(tmp_path / ("trace.json.gz" if seed % 2 else "trace.json"), events)
    check(path, complete(events))
    # The order of the events in the file says nothing.
    events.reverse()
    path.write_text(json.dumps(events))
    check(path, complete(events))


def test_more_than_ten_kinds_of_made_and_of_public_traces_are_counted() -> None:
    assert min(len(KINDS), len(PUBLIC)) > 10


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.name)
def test_totals_of_a_public_trace_are_those_of_a_plain_count(path: Path) -> None:
    data = path.read_bytes()
    content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, strict=False)
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        pytest.skip("an execution trace, or another file without events")
    check(path, complete(events))
