from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from runner.locks import immediate_lock, is_alive, machine_lock_dir, waiting_lock


class HeldError(Exception):
    """What these tests make of a lock that is held."""


def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.lock"
    with (
        immediate_lock(path, on_held=lambda pid: HeldError(pid)),
        pytest.raises(HeldError, match=f"^{os.getpid()}$"),
        immediate_lock(path, on_held=lambda pid: HeldError(pid)),
    ):
        pass


def test_a_lock_is_free_after_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    for _ in range(2):
        with immediate_lock(path, on_held=lambda pid: HeldError(pid)):
            pass


def test_a_holder_that_has_not_signed_yet_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with immediate_lock(path, on_held=lambda pid: HeldError(pid)):
        path.write_bytes(b"")
        with (
            pytest.raises(HeldError, match="None"),
            immediate_lock(path, on_held=lambda pid: HeldError(pid)),
        ):
            pass


def test_waiting_ends_when_the_holder_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    waited_for: list[int | None] = []
    is_waiting, is_held = threading.Event(), threading.Event()

    def on_wait(pid: int | None) -> None:
        waited_for.append(pid)
        is_waiting.set()

    def wait() -> None:
        with waiting_lock(path, on_wait=on_wait):
            is_held.set()

    thread = threading.Thread(target=wait)
    with waiting_lock(path, on_wait=on_wait):
        thread.start()
        assert is_waiting.wait(60)
        assert not is_held.is_set()
    thread.join()
    assert is_held.is_set()
    assert waited_for == [os.getpid()]


def test_locks_of_a_user_are_in_one_place() -> None:
    assert machine_lock_dir({"XDG_RUNTIME_DIR": "/run/user/7"}) == Path("/run/user/7/compile-hud")
    assert machine_lock_dir({}).name == f"compile-hud-{os.getuid()}"


def test_a_process_is_alive_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert not is_alive(process.pid)
    assert is_alive(os.getpid())

    def forbidden(_pid: int, _number: int) -> None:
        raise PermissionError

    # Somebody else's process: there, but not ours to signal.
    monkeypatch.setattr(os, "kill", forbidden)
    assert is_alive(1)
