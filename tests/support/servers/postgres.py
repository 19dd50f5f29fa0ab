"""A real PostgreSQL server for the tests, from Debian's binaries; on a Unix socket only."""

from __future__ import annotations

import os
import pwd
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ENCODING = ("-E", "UTF8", "--no-locale")
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    # A test server may lose everything with the machine.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "timezone": "Asia/Kolkata",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresServer:
    """A running server: the folder of its socket."""

    socket_folder: Path

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Return the store URL of a new database, a copy of `template`."""
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return f"postgresql+psycopg://postgres@/{name}?host={self.socket_folder}"

    def end_connections(self, name: str) -> None:
        """End all connections to a database: it cannot be copied while there are any."""
        self._execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )

    def _execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(
            host=str(self.socket_folder), user="postgres", dbname="postgres", autocommit=True
        ) as connection:
            connection.execute(statement.encode())


def find_binaries() -> Path | None:
    """Return the folder of the newest installed server, None without one."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)
    return next((path for path in reversed(folders) if (path / "initdb").exists()), None)


@contextmanager
def running_server(binaries: Path) -> Iterator[PostgresServer]:
    """Yield a server with an empty cluster, and remove both at the end."""
    folder = Path(tempfile.mkdtemp(prefix="hud-pg-"))
    data = folder / "data"
    become = _become_postgres(folder)
    control: list[object] = [binaries / "pg_ctl", "-D", data, "-w"]
    with _cleared_away(folder, stop=[*control, "-m", "immediate", "stop"], become=become):
        _run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", *_ENCODING],
            become,
        )
        options = " ".join(f"-c {key}='{value}'" for key, value in _SETTINGS.items())
        _run([*control, "-o", f"-k {folder} {options}", "-l", folder / "log", "start"], become)
        yield PostgresServer(socket_folder=folder)


@contextmanager
def _cleared_away(
    folder: Path, *, stop: Sequence[object], become: Callable[[], None] | None
) -> Iterator[None]:
    """Run `stop` and remove `folder` when this process ends, even if it is killed."""
    commands = (["read", "-r", "_"], map(str, stop), ["rm", "-rf", str(folder)])
    with subprocess.Popen(
        ["/bin/sh", "-c", "; ".join(map(shlex.join, commands))],
        preexec_fn=become,
        # No other process has the other end of this pipe, and nothing is ever written to it.
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        # Ctrl-C is for the tests.
        start_new_session=True,
    ):
        yield


def _become_postgres(folder: Path) -> Callable[[], None] | None:
    # The server refuses to run as root.
    if os.geteuid() != 0:
        return None
    user = pwd.getpwnam("postgres")
    os.chown(folder, user.pw_uid, user.pw_gid)

    def become() -> None:
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    return become


def _run(command: Sequence[object], become: Callable[[], None] | None) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        preexec_fn=become,
        stdin=subprocess.DEVNULL,
        # The server inherits open pipes and keeps them, so one would never end.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed with {done.returncode}")
