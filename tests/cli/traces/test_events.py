"""Reading the events of a Chrome trace piece by piece."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.errors import TraceError
from compile_hud.runner.traces import chrome_trace as events
from compile_hud.runner.traces import chrome_trace as stream
from compile_hud.runner.traces.chrome_trace import Header, TraceEvent, TraceReader, read_events
from tests.support.records.traces import annotation, operator, write_trace

ADD = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 10.5, "dur": 2}
ADD_EVENT = TraceEvent("X", "cpu_op", "aten::add", 1, 2, 10_500, 2_000, {})


def read(folder: Path, content: str | bytes) -> list[TraceEvent]:
    path = folder / "trace.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_events(path))


def failure(folder: Path, content: str | bytes) -> str:
    with pytest.raises(TraceError) as caught:
        read(folder, content)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"traceEvents": [ADD]}),
        json.dumps({"schemaVersion": 1, "traceEvents": [ADD], "INFO": ["one", {"two": []}]}),
        json.dumps([ADD], indent=4),
        f"  [\n{json.dumps(ADD)},\n]\n",
        "\ufeff" + json.dumps([ADD]),
    ],
)
def test_object_and_bare_list_give_the_same_events(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == [ADD_EVENT]


def test_packed_trace_is_read_whatever_its_name(tmp_path: Path) -> None:
    assert read(tmp_path, gzip.compress(json.dumps([ADD]).encode())) == [ADD_EVENT]


def test_times_are_whole_nanoseconds_however_long_the_machine_runs(tmp_path: Path) -> None:
    event = ADD | {"ts": 4476481779370.141, "dur": 0.001}
    (read_event,) = read(tmp_path, json.dumps([event]))
    assert (read_event.start_ns, read_event.end_ns) == (4476481779370141, 4476481779370142)
    (read_event,) = read(tmp_path, json.dumps([ADD | {"ts": 1661203463029566}]))
    assert read_event.start_ns == 1661203463029566000


def test_events_that_only_describe_need_no_times(tmp_path: Path) -> None:
    (event,) = read(tmp_path, '[{"ph": "M", "name": "process_name", "args": {"name": "python"}}]')
    assert (event.phase, event.start_ns, event.args) == ("M", 0, {"name": "python"})


def read_header(path: Path) -> Header:
    reader = TraceReader(path)
    assert list(reader.events()) == []
    return reader.header


def test_header_is_read_on_both_sides_of_the_events(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    before = '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]'
    after = '"baseTimeNanoseconds": 17, "distributedInfo": {"rank": 3, "world_size": 8}}'
    path.write_text(f'{before}, "traceEvents": [], {after}')
    assert read_header(path) == Header(base_ns=17, devices=("NVIDIA A100",), rank=3, world_size=8)


@given(
    names=st.lists(st.text(st.characters(codec="utf-8")), max_size=5),
    piece_bytes=st.integers(1, 200),
    is_ascii=st.booleans(),
)
def test_no_event_is_missing_where_pieces_meet(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], piece_bytes: int, is_ascii: bool
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    written = [annotation(name, 1, 2) for name in names]
    text = json.dumps({"traceEvents": written}, indent=1, ensure_ascii=is_ascii)
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_PIECE_BYTES", piece_bytes)
        assert [event.name for event in read_events(path)] == names


def test_raw_line_ends_in_names_are_accepted(tmp_path: Path) -> None:
    (event,) = read(tmp_path, '[{"ph": "M", "name": "one\ntwo"}]')
    assert event.name == "one\ntwo"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "byte 0: expected '{', got the end"),
        ("Not a trace", "byte 0: expected '{', got 'N'"),
        ("{}", "byte 0: the object has no list 'traceEvents'"),
        ('{"traceEvents": 3}', "byte 16: expected '[', got '3'"),
        ('{"schemaVersion" 1}', "byte 17: expected ':', got '1'"),
        ("[] []", "byte 3: the trace has ended, but '[' follows"),
        ("[1]", "byte 1: this event is damaged: expected an object, got a number"),
        ('[{"ph": "X", "name": 1}]', "byte 1: this event is damaged: 'ph', 'cat' and 'name'"),
        ('[{"pid": []}]', "'pid' and 'tid' must be whole numbers or text"),
        ('[{"args": []}]', "'args' must be an object, got a list"),
        ('[{"ph": "X", "dur": 1}]', "'ts' must be a number of microseconds, got null"),
        ('[{"ph": "X", "ts": 1}]', "'dur' must be a number of microseconds, got null"),
        ('[{"ph": "X", "ts": "1", "dur": 1}]', "'ts' must be a number"),
        ('[{"ph": "X", "ts": true, "dur": 1}]', "'ts' must be a number"),
        ('[{"ph": "X", "ts": 1, "dur": -1}]', "'dur' must be from 0 to 1e+12 microseconds, got -1"),
        ('[{"ph": "X", "ts": NaN, "dur": 1}]', "NaN is no number of JSON"),
        ('[{"ph": "X", "ts": 1e999, "dur": 1}]', "from 0 to 4e+15 microseconds, got inf"),
        ('[{"ph": "X", "ts": 1e17, "dur": 1}]', "from 0 to 4e+15 microseconds, got 1e+17"),
        (f'[{{"ts": {"9" * 5000}}}]', "a number has too many digits"),
        ("[" * 200_000, "the JSON is nested too deeply"),
        ('[{"name": "a}]', "the file is cut off in the middle of a value"),
        ('[{"name": "a"', "the file is cut off in the middle of a value"),
        ('[{"name": "a"}', "the list that begins at byte 0 has no end: the file is cut off"),
        ('{"traceEvents": []', "the file is cut off"),
        ('[{"name" "a"}]' + " " * 99, "byte 9: this is no JSON: Expecting ':' delimiter"),
        (b'[{"name": "\xff"}]', "byte 1: this is no UTF-8 text: invalid start byte"),
        (gzip.compress(json.dumps([ADD] * 99).encode())[:-20], "the gzip data is damaged or cut"),
        (b"\x1f\x8b no gzip at all", "the gzip data is damaged or cut off"),
    ],
)  # fmt: skip
def test_damage_is_one_error_with_file_position_and_a_way_out(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    message = failure(tmp_path, content)
    assert message.startswith(f"{tmp_path / 'trace.json'}: byte ")
    assert complaint in message
    assert "record or export it again" in message


@pytest.mark.parametrize(
    "field",
    [
        '"deviceProperties": {"id": 0}',
        '"deviceProperties": [1]',
        '"distributedInfo": [1]',
        '"baseTimeNanoseconds": "1"',
        '"distributedInfo": {"rank": true}',
        '"baseTimeNanoseconds": 1e999',
    ],
)
def test_damaged_header_is_an_error(tmp_path: Path, field: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{{field}, "traceEvents": []}}')
    with pytest.raises(TraceError, match="the header of the trace is damaged"):
        read_header(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read .*nowhere.json: No such file"):
        next(read_events(tmp_path / "nowhere.json"))


def test_limits_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = json.dumps([ADD | {"name": "x" * 3000}])
    monkeypatch.setattr(events, "MAX_EVENT_BYTES", 2000)
    assert "byte 1: the value that begins here is longer than 2000 bytes" in failure(tmp_path, long)
    monkeypatch.setattr(events, "MAX_EVENTS", 2)
    assert "the trace has more than 2 events" in failure(tmp_path, json.dumps([ADD] * 3))
    assert len(read(tmp_path, json.dumps([ADD] * 2))) == 2
    monkeypatch.setattr(stream, "MAX_UNPACKED_BYTES", 100)
    assert "the trace is larger than 100 bytes" in failure(tmp_path, json.dumps([ADD] * 2))


def test_value_without_end_is_given_up_at_its_limit(tmp_path: Path) -> None:
    content = b'[{"name": "' + b"x" * (3 * events.MAX_EVENT_BYTES)
    tracemalloc.start()
    message = failure(tmp_path, gzip.compress(content))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f"longer than {events.MAX_EVENT_BYTES} bytes" in message
    assert peak_bytes < 16 * events.MAX_EVENT_BYTES


def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_PIECE_BYTES", 10_000)
    peaks = []
    for num_events in (500, 2000):
        path = write_trace(tmp_path / "trace.json", [operator("aten::add", 1, 2)] * num_events)
        tracemalloc.start()
        assert sum(1 for _ in read_events(path)) == num_events
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
