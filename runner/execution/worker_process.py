"""The worker host as a child process: start, request, end."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

import compile_hud
from compile_hud.db.shared.text import masked
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.launch_aggregation import HOST_DIED, Ending
from compile_hud.runner.protocol.messages import ASK_NVML, PROTOCOL_VERSION
from compile_hud.runner.system.processes import SAFE_PATH_VARIABLE

LOG_TAIL_BYTES = 16_384
# A host ends its children at once; one that hangs is killed.
CLOSE_S = 60.0
# Every process of a case inherits this variable, in any session and under any parent.
HOST_VARIABLE = "HUD_WORKER_HOST"


class WorkerHost:
    """A `python -m compile_hud.runner.worker.start` that starts on first use.

    `python` is the toolchain's interpreter, `home` the folder for its files between runs, and
    `environment` has further variables.
    """

    def __init__(
        self, *, python: Path, home: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._python = python
        self._home = home
        self._environment = environment
        self._cores: frozenset[int] | None = None
        self._host: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._mark = uuid.uuid4().hex

    @property
    def python(self) -> Path:
        """Return the interpreter."""
        return self._python

    @property
    def pid(self) -> int | None:
        """Return the process id of the host, None while none runs."""
        return None if self._host is None else self._host.pid

    def start(self) -> None:
        """Start the host unless it runs, without waiting for it; raise ExecutorError."""
        if self._host is None:
            self._start_host()

    def wait_ready(self) -> None:
        """Block until the host has imported torch; raise ExecutorError when it does not start."""
        self.start()
        if self._is_ready:
            return
        answer = self._read_answer()
        if answer is None or answer.get("protocol_version") != PROTOCOL_VERSION:
            self.close()
            raise ExecutorError(
                f"the worker host does not start under {self._python}; is torch installed there?"
                f"\n{tail(self._log) or 'it printed nothing'}",
                python=self._python,
            )
        self._is_ready = True

    def cancel(self) -> None:
        """Make the host kill its child; safe in a signal handler and from any thread."""
        self._send(b'{"action": "cancel"}\n')

    def time_out(self) -> None:
        """Make the host end its child as one whose time is up; safe from any thread."""
        self._send(b'{"action": "time out"}\n')

    def pin(self, cores: frozenset[int]) -> None:
        """Restrict the host and its later children to `cores`."""
        self._cores = cores
        if self._host is not None:
            _set_cores(self._host.pid, cores)

    def widen(self) -> None:
        """Let the running child use all cores that this process may use."""
        if self._host is not None:
            for process in descendants(self._host.pid):
                # A process may end meanwhile.
                with contextlib.suppress(psutil.NoSuchProcess):
                    for thread in process.threads():
                        _set_cores(thread.id, frozenset(os.sched_getaffinity(0)))

    def close(self) -> None:
        """End the host, which kills its children when its standard input ends."""
        host, self._host = self._host, None
        self._is_ready = False
        if host is None:
            return
        assert host.stdin is not None
        assert host.stdout is not None
        try:
            host.stdin.close()
        except OSError:
            host.kill()
        try:
            host.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()
        host.stdout.close()

    def ask(self, order: dict[str, Any], *, log: Path, timeout_s: float) -> Ending:
        """Run `order` in a child and return its ending; raise ExecutorError without a host."""
        document = {
            "protocol_version": PROTOCOL_VERSION,
            "log_path": str(log),
            "timeout_s": timeout_s,
            **order,
        }
        self.wait_ready()
        assert self._host is not None
        assert self._host.stdin is not None
        try:
            _write_whole(self._host.stdin.fileno(), json.dumps(document).encode() + b"\n")
            answer = self._read_answer()
        except OSError:
            answer = None
        if answer is None:
            # The host itself died (killed, or a model's import took it along): next case, new host.
            self.close()
            self._kill_strays()
            return HOST_DIED
        return Ending(text=answer["ending"], was_oom_killed=answer["was_oom_killed"])

    def _send(self, line: bytes) -> None:
        host = self._host
        if host is not None and host.stdin is not None and not host.stdin.closed:
            try:
                # The write bypasses the buffer: a signal handler may interrupt the very write that
                # fills it.
                os.write(host.stdin.fileno(), line)
            except OSError:
                # The host has ended, and the case with it.
                return

    @property
    def _log(self) -> Path:
        return self._home / "host.log"

    def _read_answer(self) -> dict[str, Any] | None:
        assert self._host is not None
        assert self._host.stdout is not None
        line = self._host.stdout.readline()
        if not line:
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start_host(self) -> None:
        if shutil.which(self._python) is None:
            raise ExecutorError(
                f"cannot start the toolchain's interpreter {self._python}: no such program;"
                " check [toolchains] in hud.toml",
                python=self._python,
            )
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            with self._log.open("wb") as stderr:
                self._host = subprocess.Popen(
                    [
                        *_fixed_addresses(),
                        str(self._python),
                        "-m",
                        "compile_hud.runner.worker.start",
                    ],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=self._host_environment(),
                    # Ctrl-C in the terminal is for the runner, which decides about the case.
                    start_new_session=True,
                )
            if self._cores is not None:
                _set_cores(self._host.pid, self._cores)
        except OSError as error:
            raise ExecutorError(
                f"cannot start the worker host in {self._home}: {error}",
                folder=self._home,
                reason=str(error),
            ) from error

    def _kill_strays(self) -> None:
        """Kill the children of a killed host."""
        mark = f"{HOST_VARIABLE}={self._mark}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except (OSError, ValueError):
                # It ended meanwhile, or belongs to another user.
                continue

    def _host_environment(self) -> dict[str, str]:
        path = [str(package_links(self._home))]
        if inherited := os.environ.get("PYTHONPATH"):
            path.append(inherited)
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            SAFE_PATH_VARIABLE: "1",
            HOST_VARIABLE: self._mark,
            "TORCHINDUCTOR_CACHE_DIR": str(self._home / "inductor"),
            # An import may query the GPU. That query must not start CUDA, or no fork could use it.
            ASK_NVML: "1",
            # Threads of a library in the host would not survive the fork.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            **self._environment,
        }


def descendants(pid: int) -> list[psutil.Process]:
    """Return the processes that `pid` and its children started."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _set_cores(pid: int, cores: frozenset[int]) -> None:
    try:
        os.sched_setaffinity(pid, cores)
    except ProcessLookupError:
        # The host has ended; the next one is pinned at its start.
        return


def _write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@functools.cache
def _fixed_addresses() -> tuple[str, ...]:
    """Return the command prefix that disables address randomisation, empty if not permitted.

    All launches of a host share its address layout. With a random layout two runs of the same code
    differed by 8 %, the launches of one run by 4 %. With a fixed one it was 4 % and 2 %
    (docs/explanation/measurement-data.md). Containers often forbid it; the facts record which
    layout was in use.
    """
    setarch = shutil.which("setarch")
    if setarch is None:
        return ()
    prefix = (setarch, "-R")
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix


def package_links(home: Path) -> Path:
    """Return a folder that makes only our packages importable."""
    folder = home / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    package = Path(compile_hud.__file__).resolve().parent
    # Earlier versions linked `db` and `runner` here, which would hide a user's own.
    for other in folder.iterdir():
        if other.is_symlink() and other.name != package.name:
            other.unlink()
    link = folder / package.name
    if not (link.is_symlink() and link.resolve() == package):
        link.unlink(missing_ok=True)
        link.symlink_to(package)
    return folder


def tail(path: Path) -> str:
    """Return the end of a log with secrets masked, empty where there is no log."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - LOG_TAIL_BYTES))
            return masked(stream.read().decode("utf-8", errors="replace"))
    except FileNotFoundError:
        return ""
