from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreLocked
from compile_hud.db.records.notifications import NotificationState
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from compile_hud.runner.cli.main import main
from compile_hud.runner.doctor import requirements as checks
from compile_hud.runner.doctor.check import CheckState
from compile_hud.runner.measure.resources.cpu_counters import HARDWARE
from compile_hud.runner.persistence.spool import Spool
from compile_hud.runner.workspace import Dependencies
from tests.support.builders import make_notification, make_result, make_run
from tests.support.fakes import FakeKernel, FakeMachine

OK, WARN, FAIL = CheckState.OK, CheckState.WARN, CheckState.FAIL


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Return what makes an executable that runs lines of shell."""

    def make(lines: str, *, name: str = "tool") -> Path:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return path

    return make


def test_a_package_that_is_missing_fails() -> None:
    assert checks.check_package("duckdb").state is OK
    missing = checks.check_package("no-such-package")
    assert (missing.state, missing.text) == (FAIL, "not installed")


def test_torch_is_queried_under_the_toolchain(script: Callable[[str], Path]) -> None:
    check = checks.check_torch(script("echo 2.13.0 True"))
    assert check.state is OK
    assert check.text.startswith("2.13.0, with a GPU (")
    assert "CPU only" in checks.check_torch(script("echo 2.13.0 False")).text
    assert checks.check_torch(script("exit 1")).state is FAIL


def test_a_compiler_that_is_missing_or_broken_fails(
    script: Callable[[str], Path], words: SnapshotAssertion
) -> None:
    assert checks.check_compiler("no-such-compiler").text == words
    assert "does not compile" in checks.check_compiler(str(script("exit 1"))).text
    works = checks.check_compiler(str(script("echo clang 18")))
    assert (works.state, works.text) == (OK, "clang 18")


def test_a_nearly_full_disk_is_reported(words: SnapshotAssertion) -> None:
    folder = Path(".hud")
    assert checks.check_disk(free_bytes=10 * 1024**3, folder=folder).state is OK
    full = checks.check_disk(free_bytes=1024**3, folder=folder)
    assert full.state == WARN
    assert full.text == words


def test_the_store_reports_its_last_run(words: SnapshotAssertion) -> None:
    store = Store("duckdb:///:memory:")
    assert checks.check_store(store).text == words
    store.save_run(make_run())
    assert checks.check_store(store).text == ":memory:, last run 2026-01-01 02:30 UTC"


def test_a_store_that_does_not_exist_yet_is_checked_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    path = tmp_path / "new" / "x.duckdb"
    check = checks.check_store(Store(f"duckdb:///{path}"))
    assert check.state is OK
    assert check.text.replace(str(tmp_path), "FOLDER") == words
    assert not path.parent.exists()
    monkeypatch.setattr("os.access", lambda *_args: False)
    check = checks.check_store(Store(f"duckdb:///{path}"))
    assert check.state is FAIL
    assert check.text.replace(str(tmp_path), "FOLDER") == words


def test_a_store_below_a_file_cannot_be_made(tmp_path: Path, words: SnapshotAssertion) -> None:
    file = tmp_path / "file"
    file.touch()
    check = checks.check_store(Store(f"duckdb:///{file}/x.duckdb"))
    assert check.state is FAIL
    assert check.text.replace(str(tmp_path), "FOLDER") == words


def test_a_store_that_cannot_be_read_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(*_args: object, **_kwargs: object) -> None:
        raise StoreLocked("held by PID 7")

    monkeypatch.setattr(checks, "load_runs", locked)
    check = checks.check_store(Store("duckdb:///:memory:"))
    assert (check.state, check.text) == (FAIL, "held by PID 7")


def test_dead_letters_are_reported(words: SnapshotAssertion) -> None:
    store = Store("duckdb:///:memory:")
    assert checks.check_notifications(store, receivers=()).state is OK
    dead = replace(make_notification(), state=NotificationState.DEAD)
    with store.write() as connection:
        put_notifications(connection, [dead, replace(dead, id="other", receiver="dev")])
    check = checks.check_notifications(store, receivers=())
    assert check.state == WARN
    assert check.text == words


def test_notifications_without_a_receiver_are_reported(words: SnapshotAssertion) -> None:
    store = Store("duckdb:///:memory:")
    failed = replace(make_notification("b", receiver="old"), state=NotificationState.FAILED)
    sent = replace(failed, id="c", state=NotificationState.SENT)
    with store.write() as connection:
        put_notifications(connection, [make_notification("a"), failed, sent])
    check = checks.check_notifications(store, receivers=["ops"])
    text = "waiting for receivers that hud.toml does not name: 1 to old"
    assert (check.state, check.text) == (WARN, text)
    assert check.hint == words
    assert checks.check_notifications(store, receivers=["old", "ops"]).state is OK


def test_files_left_in_the_spool_are_reported(tmp_path: Path, words: SnapshotAssertion) -> None:
    spool = Spool(tmp_path)
    assert checks.check_spool(spool).state is OK
    run = make_run()
    path = spool.write(run, result=make_result(run=run))
    assert checks.check_spool(spool).text == words
    path.write_text("{")
    spool.drain(Store("duckdb:///:memory:"))
    broken = checks.check_spool(spool)
    assert broken.text == words
    assert broken.state is WARN


def test_a_busy_machine_is_reported() -> None:
    assert checks.check_load(0.9, num_cpus=2).state is OK
    assert checks.check_load(1.1, num_cpus=2).state is WARN
    assert checks.check_load(1.1, num_cpus=2).text == "2 CPUs, load 1.1"
    assert checks.check_load(8.0, num_cpus=1).text == "1 CPU, load 8.0"


@pytest.mark.parametrize(("lines", "exit_code"), [("echo 2.13.0 False", 0), ("exit 1", 1)])
def test_doctor_prints_a_line_each_and_fails_without_torch(
    tmp_path: Path,
    script: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    exit_code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    compiler = script("echo works", name="compiler")  # type: ignore[call-arg]
    monkeypatch.setenv("CXX", str(compiler))
    python = script(lines)
    (tmp_path / "hud.toml").write_text(f'[toolchains]\ncurrent = "{python}"\n')
    dependencies = Dependencies(env={}, machine=FakeMachine())
    result = CliRunner().invoke(main, ["doctor"], obj=dependencies)
    assert result.exit_code == exit_code
    check_lines = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    names = [line.split()[1] for line in check_lines]
    needed = ["python", "duckdb", "torch", "compiler", "disk", "store", "spool", "notifications"]
    steady = ["cpu", "counters", "gpu", "governor", "turbo", "smt", "thp", "aslr", "time"]
    assert names == [*needed, *steady]
    document = json.loads(CliRunner().invoke(main, ["doctor", "--json"], obj=dependencies).stdout)
    assert [item["name"] for item in document] == names
    assert document[2]["state"] == ("fail" if exit_code else "ok")


@pytest.mark.parametrize(
    ("number", "state"),
    [(None, OK), (errno.ENOENT, OK), (errno.EACCES, WARN)],
)
def test_the_doctor_warns_only_of_what_can_be_changed(
    number: int | None, state: CheckState
) -> None:
    refused = {} if number is None else {HARDWARE[1].config: number}
    check = checks.check_counters(FakeKernel(refused=refused))
    assert check.state is state
    assert bool(check.hint) is (number is not None)
