from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.errors import DashboardUnavailable
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.scheduling.supervisor import (
    FIRST_RUN,
    Backoff,
    Dashboard,
    FirstRun,
    check_dashboard,
    dashboard_command,
    dashboard_environment,
    find_listener,
    first_run_of,
)
from compile_hud.runner.system.locks import is_alive
from tests.support.builders import START, make_run

URL = "duckdb:///a.duckdb"
AT_ONCE = Backoff(first_s=0.0, longest_s=0.0)


class Listener(list[Event]):
    """Events, and a way to wait for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.has_event = threading.Event()

    def __call__(self, event: Event) -> None:
        self.append(event)
        self.has_event.set()


def test_a_dashboard_that_dies_is_started_again_and_ends_with_us(words: SnapshotAssertion) -> None:
    listener = Listener()
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with Dashboard(command, environment=os.environ, notify=listener, backoff=AT_ONCE) as dashboard:
        first = dashboard.pid
        assert first is not None
        os.kill(first, 9)
        assert listener.has_event.wait(60)
        (event,) = listener
        assert isinstance(event, LogMessage)
        assert event.text == words
    assert not is_alive(first)
    assert dashboard.pid is not None
    assert not is_alive(dashboard.pid)


def test_a_dashboard_that_ignores_sigterm_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("compile_hud.runner.scheduling.supervisor._STOP_TIMEOUT_S", 0.01)
    script = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
    with Dashboard(
        [sys.executable, "-c", script], environment=os.environ, notify=Listener()
    ) as dashboard:
        assert dashboard.pid is not None
    assert not is_alive(dashboard.pid)


def test_lines_of_the_dashboard_are_forwarded() -> None:
    listener = Listener()
    script = "import signal; print('ready', flush=True); signal.pause()"
    with Dashboard([sys.executable, "-c", script], environment=os.environ, notify=listener):
        assert listener.has_event.wait(60)
    assert listener == [LogMessage(text="ready")]


def test_a_dashboard_that_cannot_be_started_is_reported() -> None:
    listener = Listener()
    with Dashboard(["/does/not/exist"], environment=os.environ, notify=listener) as dashboard:
        assert dashboard.pid is None
    (event,) = listener
    assert isinstance(event, LogMessage)
    assert event.text.startswith("no dashboard: [Errno 2]")


def test_a_dashboard_that_could_not_be_started_once_is_started_later(tmp_path: Path) -> None:
    program = tmp_path / "dashboard"
    listener = Listener()
    backoff = Backoff(first_s=0.01, longest_s=0.02)
    with Dashboard([str(program)], environment=os.environ, notify=listener, backoff=backoff):
        assert listener.has_event.wait(60)
        draft = tmp_path / "draft"
        draft.write_text(
            f"#!{sys.executable}\nimport signal; print('on', flush=True); signal.pause()"
        )
        draft.chmod(0o755)
        draft.rename(program)
        is_on = False
        while not is_on:
            listener.has_event.clear()
            is_on = LogMessage(text="on") in listener
            assert is_on or listener.has_event.wait(60)


def test_the_dashboard_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    child = (
        f"import os, signal; open({str(ready)!r}, 'w').write(f'{{os.getpid()}}'); signal.pause()"
    )
    parent = (
        "import os, sys, signal; from compile_hud.runner.scheduling.supervisor import Dashboard\n"
        "command = [sys.executable, '-c', sys.argv[1]]\n"
        "with Dashboard(command, environment=os.environ, notify=print): signal.pause()"
    )
    process = subprocess.Popen([sys.executable, "-c", parent, child])
    pid = int(ready.read_text())
    watcher = os.pidfd_open(pid)
    process.kill()
    process.wait()
    # A pidfd becomes readable when its process ends.
    assert _ends(watcher)


def _ends(pidfd: int) -> bool:
    readable, _, _ = select.select([pidfd], [], [], 60)
    os.close(pidfd)
    return bool(readable)


def test_restarts_back_off_and_start_over_after_a_good_while() -> None:
    backoff = Backoff(first_s=1.0, longest_s=3.0)
    waits = [0.0]
    for lived_s in (0.0, 0.0, 0.0, 0.0, 100.0):
        waits.append(backoff.next_s(waits[-1], lived_s=lived_s))
    assert waits[1:] == [1.0, 2.0, 3.0, 3.0, 1.0]


def test_a_taken_port_is_reported_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        message = rf"127.0.0.1:{port}: Address already in use by process {os.getpid()} \(`ps -fp"
        with pytest.raises(DashboardUnavailable, match=message):
            check_dashboard(host="127.0.0.1", port=port)


def test_an_idle_port_has_no_listener() -> None:
    assert find_listener(check_dashboard(host="127.0.0.1", port=0)) is None


def test_port_0_is_a_free_port() -> None:
    assert check_dashboard(host="127.0.0.1", port=0) > 0


def test_a_missing_dashboard_is_reported(
    monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DashboardUnavailable) as caught:
        check_dashboard(host="127.0.0.1", port=0)
    assert str(caught.value) == words


def test_the_dashboard_is_another_process_on_the_same_store() -> None:
    command = dashboard_command(host="::1", port=7)
    assert command == [
        sys.executable,
        "-P",
        "-m",
        "compile_hud.app",
        "--host",
        "::1",
        "--port",
        "7",
    ]
    environment = dashboard_environment(parse_config("", path=None, env={"HUD_DATABASE_URL": URL}))
    assert environment["HUD_DATABASE_URL"] == URL
    assert environment["HUD_TRACES_DIR"] == os.path.abspath("a.duckdb.traces")
    assert environment["HUD_PERFETTO_URL"] == "https://ui.perfetto.dev"


def test_the_dashboard_knows_that_there_is_no_folder_of_traces() -> None:
    config = parse_config("", path=None, env={"HUD_DATABASE_URL": "duckdb:///:memory:"})
    assert dashboard_environment(config)["HUD_TRACES_DIR"] == ""


CONFIG = parse_config("", path=None, env={})


def test_an_empty_store_starts_with_the_quick_suite() -> None:
    first = first_run_of(Store("duckdb:///:memory:"), config=CONFIG)
    assert first == FirstRun(suite="quick", toolchain="current")


@pytest.mark.parametrize("state", [RunState.INTERRUPTED, RunState.RUNNING])
def test_an_interrupted_first_run_is_continued(state: RunState) -> None:
    store = Store("duckdb:///:memory:")
    store.save_run(make_run("run-1", trigger=FIRST_RUN, state=state))
    assert first_run_of(store, config=CONFIG) == FirstRun(
        suite="quick", toolchain="stable", device="cpu", resume_id="run-1"
    )


def test_a_finished_first_run_is_enough() -> None:
    store = Store("duckdb:///:memory:")
    store.save_run(make_run(trigger=FIRST_RUN, finished_at=START))
    assert first_run_of(store, config=CONFIG) is None


def test_an_interrupted_run_is_not_continued_by_itself() -> None:
    store = Store("duckdb:///:memory:")
    store.save_run(make_run(state=RunState.INTERRUPTED))
    assert first_run_of(store, config=CONFIG) is None
