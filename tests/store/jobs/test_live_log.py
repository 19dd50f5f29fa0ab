"""The output of a running case, read from the disk or from the store."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.jobs.live_log import LIMIT_BYTES, LiveLog, LogLine, find_live_log, work_name
from compile_hud.db.jobs.queue import get_live_log
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from tests.support.builders import make_run

RUN = "0123456789ab"
CASE = "mlp/inference/small/float32/default/cpu"


def case_folder(state_dir: Path, *, run_id: str = RUN, log: bytes = b"") -> Path:
    """Return the folder of a case of a run, with what it has printed."""
    folder = (
        state_dir / "work" / work_name(run_id, pid=7, unique=f"{len(list(state_dir.rglob('*')))}")
    )
    folder.mkdir(parents=True)
    (folder / "case.txt").write_text(CASE)
    (folder / "log.txt").write_bytes(log)
    return folder


def shown(state_dir: Path, run_id: str = RUN) -> list[str]:
    """Return the lines of a run's live log."""
    live_log = find_live_log(state_dir, run_id)
    assert live_log is not None
    assert live_log.case_key == CASE
    return [line.text for line in live_log.lines]


def test_the_log_of_the_running_case_is_looked_up_by_its_run(tmp_path: Path) -> None:
    case_folder(tmp_path, run_id="ba9876543210", log=b"of another run\n")
    case_folder(tmp_path, log=b"compiling\n\nwarming up")
    assert shown(tmp_path) == ["compiling", "", "warming up"]


def test_of_two_cases_the_one_that_printed_last_is_shown(tmp_path: Path) -> None:
    old, new = case_folder(tmp_path, log=b"old\n"), case_folder(tmp_path, log=b"new\n")
    now_ns = (new / "log.txt").stat().st_mtime_ns
    os.utime(old / "log.txt", ns=(now_ns - 10, now_ns - 10))
    assert shown(tmp_path) == ["new"]


def test_the_end_of_a_long_log_keeps_the_offsets_of_its_lines(tmp_path: Path) -> None:
    """A page that has the first half already adds what is new, and nothing twice."""
    text = b"".join(b"line %05d \xff\n" % number for number in range(2000))
    folder = case_folder(tmp_path, log=text)
    live_log = find_live_log(tmp_path, RUN)
    assert live_log is not None
    assert len(text) - live_log.lines[0].offset <= LIMIT_BYTES
    for line in live_log.lines:
        assert text[line.offset :].startswith(line.text.encode()[:10])
    with (folder / "log.txt").open("ab") as log:
        log.write(b"one more\n")
    later = find_live_log(tmp_path, RUN)
    assert later is not None
    assert later.lines[-1] == LogLine(offset=len(text), text="one more")


def test_what_would_steer_a_page_or_a_terminal_is_text_and_secrets_are_masked(
    tmp_path: Path,
) -> None:
    log = "\x1b[31mred\x1b[0m \u202egnp.exe\nDB_PASSWORD=hunter22\n<script>x</script>\n"
    case_folder(tmp_path, log=log.encode() + b"x" * 3000)
    assert shown(tmp_path)[:3] == ["red ?gnp.exe", "DB_PASSWORD=***", "<script>x</script>"]
    assert shown(tmp_path)[3] == "x" * 497 + "..."


@pytest.mark.parametrize("run_id", ["", "*", "../../etc", "a-b", "b", "0123456789ac"])
def test_a_run_that_is_not_here_has_no_log(tmp_path: Path, run_id: str) -> None:
    case_folder(tmp_path, log=b"text\n")
    case_folder(tmp_path, run_id="c-a-b", log=b"text\n")
    assert find_live_log(tmp_path, run_id) is None


@pytest.mark.nightly
def test_nothing_is_stored_of_a_run_whose_log_was_looked_for(tmp_path: Path) -> None:
    case_folder(tmp_path, log=b"a line\n")
    find_live_log(tmp_path, "ffffffffffff")
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(100):
        find_live_log(tmp_path, f"{number:012d}")
    gc.collect()
    assert sys.getallocatedblocks() - before < 100


def test_a_heartbeat_brings_the_log_and_the_end_of_the_run_removes_it(store: Store) -> None:
    log = LiveLog(case_key=CASE, lines=(LogLine(offset=4, text="compiling \ud800"),))
    run = make_run(id=RUN, state=RunState.RUNNING)
    store.save_run(run)
    store.heartbeat(RUN, log=log)
    with store.read() as connection:
        live_log = get_live_log(connection, RUN)
        assert get_live_log(connection, "another") is None
    assert live_log is not None
    assert live_log.lines == (LogLine(offset=4, text="compiling ?"),)
    store.heartbeat(RUN)
    with store.read() as connection:
        assert get_live_log(connection, RUN) is None
    store.heartbeat(RUN, log=log)
    store.save_run(make_run(id=RUN, state=RunState.FINISHED))
    with store.read() as connection:
        assert get_live_log(connection, RUN) is None


def test_a_log_of_a_newer_release_is_reported_to_be_unreadable() -> None:
    with pytest.raises(RecordError) as caught:
        LiveLog.from_json({"case_key": CASE, "lines": ["text"]})
    assert caught.value.parameters["field"] == "lines"
