"""Reading the events of a Chrome trace piece by piece."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import TraceError
from compile_hud.runner.traces import chrome_trace as events
from compile_hud.runner.traces import chrome_trace as stream
from compile_hud.runner.traces.chrome_trace import Header, TraceEvent, TraceReader, read_events
from tests.support.records.traces import annotation, operator, write_trace
from tests.support.words import short_id

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
    as_text = {"ts": "1661203463029566.0915", "dur": " 7.25 "}
    (text_event,) = read(tmp_path, json.dumps([ADD | as_text]))
    assert (text_event.start_ns, text_event.duration_ns) == (1661203463029566_092, 7_250)
    endless = {name: value for name, value in ADD.items() if name != "dur"}
    assert [item.duration_ns for item in read(tmp_path, json.dumps([endless]))] == [0]
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
    "content",
    [
        "",
        "Not a trace",
        "{}",
        '{"traceEvents": 3}',
        '{"schemaVersion" 1}',
        "[] []",
        "[1]",
        '[{"ph": "X", "name": 1}]',
        '[{"pid": []}]',
        '[{"args": []}]',
        '[{"ph": "X", "dur": 1}]',
        '[{"ph": "X", "ts": 1, "dur": null}]',
        '[{"ph": "X", "ts": "1 s", "dur": 1}]',
        '[{"ph": "X", "ts": "99999999999999999", "dur": 1}]',
        '[{"ph": "X", "ts": true, "dur": 1}]',
        '[{"ph": "X", "ts": 1, "dur": -1}]',
        '[{"ph": "X", "ts": NaN, "dur": 1}]',
        '[{"ph": "X", "ts": 1e999, "dur": 1}]',
        '[{"ph": "X", "ts": 1e17, "dur": 1}]',
        f'[{{"ts": {"9" * 5000}}}]',
        "[" * 200_000,
        '[{"name": "a}]',
        '[{"name": "a"',
        '[{"name": "a"}',
        '{"traceEvents": []',
        '[{"name" "a"}]' + " " * 99,
        b'[{"name": "\xff"}]',
        gzip.compress(json.dumps([ADD] * 99).encode())[:-20],
        b"\x1f\x8b no gzip at all",
    ],
    ids=short_id,
)  # fmt: skip
def test_damage_is_one_error_with_file_position_and_a_way_out(
    tmp_path: Path, content: str | bytes, words: SnapshotAssertion
) -> None:
    message = failure(tmp_path, content)
    assert message.startswith(f"{tmp_path / 'trace.json'}: byte ")
    assert message == words


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
def test_damaged_header_is_an_error(tmp_path: Path, field: str, words: SnapshotAssertion) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f'{{{field}, "traceEvents": []}}')
    with pytest.raises(TraceError) as caught:
        read_header(path)
    assert str(caught.value) == words


def test_missing_file_is_reported_by_name(tmp_path: Path, words: SnapshotAssertion) -> None:
    with pytest.raises(TraceError) as caught:
        next(read_events(tmp_path / "nowhere.json"))
    assert str(caught.value) == words


def test_limits_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    long = json.dumps([ADD | {"name": "x" * 3000}])
    monkeypatch.setattr(events, "MAX_EVENT_BYTES", 2000)
    assert failure(tmp_path, long) == words
    monkeypatch.setattr(events, "MAX_EVENTS", 2)
    assert failure(tmp_path, json.dumps([ADD] * 3)) == words
    assert len(read(tmp_path, json.dumps([ADD] * 2))) == 2
    monkeypatch.setattr(stream, "MAX_UNPACKED_BYTES", 100)
    assert failure(tmp_path, json.dumps([ADD] * 2)) == words


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
