from __future__ import annotations

import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import LockUnavailable
from compile_hud.runner.system.locks import immediate_lock, is_alive, machine_lock_dir, waiting_lock


class LockedError(Exception):
    """What these tests make of a lock that is held."""


def test_a_held_lock_names_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.lock"
    with (
        immediate_lock(path, on_conflict=lambda pid: LockedError(pid)),
        pytest.raises(LockedError, match=f"^{os.getpid()}$"),
        immediate_lock(path, on_conflict=lambda pid: LockedError(pid)),
    ):
        pass


def test_a_lock_is_free_after_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    for _ in range(2):
        with immediate_lock(path, on_conflict=lambda pid: LockedError(pid)):
            pass


def test_a_holder_that_has_not_signed_yet_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with immediate_lock(path, on_conflict=lambda pid: LockedError(pid)):
        path.write_bytes(b"")
        with (
            pytest.raises(LockedError, match="None"),
            immediate_lock(path, on_conflict=lambda pid: LockedError(pid)),
        ):
            pass


def test_waiting_ends_when_the_holder_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    waited_for: list[int | None] = []
    is_waiting, is_acquired = threading.Event(), threading.Event()

    def on_wait(pid: int | None) -> None:
        waited_for.append(pid)
        is_waiting.set()

    def wait() -> None:
        with waiting_lock(path, on_wait=on_wait):
            is_acquired.set()

    thread = threading.Thread(target=wait)
    with waiting_lock(path, on_wait=on_wait):
        thread.start()
        assert is_waiting.wait(60)
        assert not is_acquired.is_set()
    thread.join()
    assert is_acquired.is_set()
    assert waited_for == [os.getpid()]


def test_every_login_and_every_user_has_the_same_locks() -> None:
    login = machine_lock_dir({"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/run/user/7/tmp"})
    assert login == machine_lock_dir({}) == Path("/tmp/compile-hud-locks")


def test_the_locks_can_be_put_elsewhere() -> None:
    assert machine_lock_dir({"HUD_LOCK_DIR": "/run/locks"}) == Path("/run/locks")


def test_the_tests_have_locks_of_their_own() -> None:
    assert machine_lock_dir(os.environ) != machine_lock_dir({})


def take(path: Path) -> None:
    """Lock `path` as a run does, and let go."""
    with waiting_lock(path, on_wait=lambda _pid: None):
        assert path.read_text() == str(os.getpid())


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("narrow_umask")
def test_other_users_can_take_the_lock_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    take(path)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o1777
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to somebody else")
def test_the_lock_that_another_user_made_can_be_taken(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a.lock"
    take(path)
    os.chown(path, 65534, 65534)
    take(path)


def test_a_lock_made_by_another_process_in_that_moment_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.lock"
    original = os.open

    def open_late(name: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and not path.exists():
            os.close(original(path, os.O_CREAT))
        return original(name, flags, mode)

    monkeypatch.setattr(os, "open", open_late)
    take(path)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_lock_that_is_a_link_is_refused(
    tmp_path: Path, link: Callable[[Path, Path], None], words: SnapshotAssertion
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("dear")
    link(tmp_path / "a.lock", victim)
    with pytest.raises(LockUnavailable) as caught:
        take(tmp_path / "a.lock")
    assert str(caught.value) == words
    assert victim.read_text() == "dear"


def test_a_lock_that_is_no_file_is_refused(tmp_path: Path, words: SnapshotAssertion) -> None:
    os.mkfifo(tmp_path / "a.lock")
    with pytest.raises(LockUnavailable) as caught:
        take(tmp_path / "a.lock")
    assert str(caught.value) == words


def test_a_directory_of_locks_that_is_a_link_is_refused(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    (tmp_path / "locks").symlink_to(tmp_path)
    with pytest.raises(LockUnavailable) as caught:
        take(tmp_path / "locks" / "a.lock")
    assert str(caught.value) == words


def test_a_world_writable_directory_of_locks_is_refused(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(LockUnavailable) as caught:
        take(tmp_path / "a.lock")
    assert str(caught.value) == words


def test_a_lock_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(LockUnavailable, match="cannot lock .*: .*HUD_STATE_DIR"),
        immediate_lock(tmp_path / "file" / "a.lock", on_conflict=lambda pid: LockedError(pid)),
    ):
        pass


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
