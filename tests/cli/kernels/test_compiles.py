"""`hud compiles`: the compilations in logs of TORCH_TRACE."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import TraceError
from compile_hud.runner.traces.compile_log import read_log
from tests.support.terminal import Terminal

FAILURE = "Unsupported"
GUARD = "0/0: size mismatch"
BREAK = """Graph break in user code at /src/net.py:21
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call:

Call to `print`
  Explanation: Dynamo does not trace it.

User code traceback:
  File "/src/train.py", line 8, in <module>
    step(x)
"""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def entry(fields: Mapping[str, Any], payload: str | None = None, *, prefix: str = "") -> str:
    """Return one entry in torch's form; each line of its payload begins with a tab."""
    content = dict(fields) if payload is None else {**fields, "has_payload": "0a1b"}
    line = f"{prefix}V0305 06:07:08.000900 4321 torch/_dynamo/x.py:12] {json.dumps(content)}\n"
    return line + "".join(f"\t{text}\n" for text in (payload or "").splitlines())


def artifact(name: str, compile_id: str, payload: str, **fields: Any) -> str:
    about = {"artifact": {"name": name, "encoding": "string"}, **ids(compile_id), **fields}
    return entry(about, payload)


def ids(compile_id: str, attempt: int = 0) -> dict[str, int]:
    frame, number = map(int, compile_id.split("/"))
    return {"frame_id": frame, "frame_compile_id": number, "attempt": attempt}


def start(compile_id: str, attempt: int = 0) -> str:
    stack = [{"line": 3, "name": "outer", "filename": 5}, {"line": 7, "name": "f", "filename": 5}]
    return entry({"dynamo_start": {"stack": stack}, **ids(compile_id, attempt)})


def metrics(
    compile_id: str, *, attempt: int = 0, key: str = "compilation_metrics", **fields: Any
) -> str:
    values = {"compile_id": compile_id, "co_name": "f", "co_filename": "/src/net.py", **fields}
    return entry({key: {"co_firstlineno": 7, **values}, **ids(compile_id, attempt)})


def whole_log() -> str:
    """Return a log with a graph break, a recompile, a backward and each result of the caches."""
    return "".join(
        (
            entry({"str": ["/src/net.py", 5]}),
            entry({"artifact": {"name": "torch_version"}}, '{"pytorch_version": "2.12.1"}'),
            start("0/0"),
            artifact("dynamo_graph_break_reason", "0/0", BREAK),
            start("0/0", 1),
            entry(
                {"dynamo_output_graph": {}, **ids("0/0", 1)}, "class Graph: 'compilation_metrics'"
            ),
            artifact("fx_graph_cache_miss", "0/0", '{"key": "k1"}'),
            artifact("aotautograd_cache_bypass", "0/0", '{"cache_bypass_reason": "Cannot cache"}'),
            metrics(
                "0/0",
                attempt=1,
                duration_us=2_500_000,
                backend_compile_time_s=2.0,
                inductor_compile_time_s=1.5,
                graph_op_count=14,
                guard_count=9,
            ),
            metrics("0/0", key="bwd_compilation_metrics", co_name=None, duration_us=750_000),
            "an ordinary line of the program\n",
            start("0/1"),
            artifact("recompile_reasons", "0/1", json.dumps([GUARD])),
            artifact("fx_graph_cache_hit", "0/1", "{}"),
            artifact("aotautograd_cache_hit", "0/1", "{}"),
            metrics("0/1", entire_frame_compile_time_s=0.25),
            start("3/0"),
            metrics("3/0", fail_type=FAILURE, fail_reason="\njump"),
            start("4/0"),
        )
    )


def test_a_log_is_shown_with_its_reasons(terminal: Terminal, words: SnapshotAssertion) -> None:
    (terminal.folder / "dedicated_log_torch_trace_ab.log").write_text(whole_log())
    done = terminal.hud("compiles", "dedicated_log_torch_trace_ab.log")
    assert done.exit_code == 0, done.output
    assert done.stdout == words


def test_json_has_every_compilation(terminal: Terminal) -> None:
    (terminal.folder / "trace.log.gz").write_bytes(gzip.compress(whole_log().encode()))
    (log,) = terminal.json("compiles", "trace.log.gz", "--json")["logs"]
    assert (log["torch_version"], log["rank"], log["is_cut"]) == ("2.12.1", None, False)
    assert log["num_compilations"] == 4
    assert log["total_s"] == pytest.approx(2.5 + 0.75 + 0.25)
    assert log["fx_graph_cache"] == {"hit": 1, "miss": 1, "bypass": 0}
    assert log["aot_autograd_cache"] == {"hit": 1, "miss": 0, "bypass": 1}
    first, second, third, last = log["compilations"]
    assert (first["duration_s"], first["backward_s"], first["num_attempts"]) == (2.5, 0.75, 2)
    assert (first["num_ops"], first["num_guards"]) == (14, 9)
    assert first["bypass_reasons"] == ["Cannot cache"]
    assert (second["compile_id"], second["is_recompile"]) == ("0/1", True)
    assert third["failure"] == f"{FAILURE}: jump"
    assert (last["is_finished"], last["location"], last["function"]) == (
        False,
        "/src/net.py:7",
        "f",
    )
    assert log["graph_breaks"] == [
        {"compile_id": "0/0", "location": "/src/net.py:21", "reason": "Call to `print`"}
    ]
    assert log["recompiles"] == [{"compile_id": "0/1", "reason": GUARD}]


@pytest.mark.parametrize("share", [0.3, 0.55, 0.8, 0.95])
def test_a_log_that_is_cut_off_anywhere_is_read_up_to_there(tmp_path: Path, share: float) -> None:
    whole = whole_log()
    text = whole[: int(share * len(whole))].rstrip("\n")
    path = tmp_path / "cut.log"
    path.write_text(text)
    log = read_log(path)
    assert log.is_cut
    assert 1 <= len(log.compilations) <= 4
    assert log.total_s <= 3.5
    path.write_bytes(gzip.compress(whole.encode())[:-9])
    assert read_log(path).is_cut


def test_a_broken_entry_is_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "broken.log"
    broken = metrics("1/0").replace("}}", "}")
    path.write_text(metrics("0/0", duration_us=5) + broken.replace('"f"', '"f') + whole_log())
    log = read_log(path)
    assert (log.num_broken, log.is_cut) == (1, False)
    # The second process of this log counts from 0 again.
    assert [item.compile_id for item in log.compilations] == ["0/0", "0/0", "0/1", "3/0", "4/0"]


def test_ranks_are_compared_and_the_slowest_is_shown_in_full(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    folder = terminal.folder / "logs"
    folder.mkdir()
    for rank, seconds in ((0, 1.5), (10, 4.0), (2, 2.0)):
        text = start("0/0") + metrics("0/0", duration_us=int(seconds * 1e6))
        more = metrics("1/0", duration_us=1000) if rank == 2 else ""
        (folder / f"dedicated_log_torch_trace_rank_{rank}_x{rank}.log").write_text(text + more)
    (folder / "notes.txt").write_text("no log")
    done = terminal.hud("compiles", "logs")
    assert done.exit_code == 0, done.output
    assert done.stdout == words
    logs = terminal.json("compiles", "logs", "--json")["logs"]
    assert [log["rank"] for log in logs] == [0, 2, 10]


@pytest.mark.parametrize("where", ["prefix", "envelope"])
def test_the_rank_of_an_entry_is_that_of_its_log(tmp_path: Path, where: str) -> None:
    fields = {"dynamo_start": {"stack": []}, **ids("0/0")}
    is_prefix = where == "prefix"
    content = fields if is_prefix else {**fields, "rank": 5}
    path = tmp_path / "trace.log"
    path.write_text(entry(content, prefix="[rank5]:" if is_prefix else ""))
    assert read_log(path).rank == 5


def test_only_the_longest_of_many_compilations_are_rows(terminal: Terminal) -> None:
    text = "".join(metrics(f"{frame}/0", duration_us=1000 * frame) for frame in range(1, 90))
    (terminal.folder / "trace.log").write_text(text)
    lines = terminal.hud("compiles", "trace.log").stdout.splitlines()
    rows = [line for line in lines if "/0 " in line]
    assert len(rows) == 60
    assert rows[-1].startswith("89/0")
    (last,) = [line for line in lines if "29 more" in line]
    assert "--json" in last


@pytest.mark.parametrize("content", ["", "no log\n", '{"a": 1}\n', "\tpayload alone\n"])
def test_a_file_without_an_entry_is_an_error(terminal: Terminal, content: str) -> None:
    (terminal.folder / "other.log").write_text(content)
    error = terminal.error("compiles", "other.log")
    assert isinstance(error, TraceError)
    assert "TORCH_TRACE" in str(error)


def test_a_folder_without_a_log_and_a_missing_file_are_errors(terminal: Terminal) -> None:
    (terminal.folder / "empty").mkdir()
    assert "TORCH_TRACE" in str(terminal.error("compiles", "empty"))
    assert "No such file" in str(terminal.error("compiles", "missing.log"))
