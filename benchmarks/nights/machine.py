"""The machine of the simulation, which can be killed, rebooted and hindered."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from benchmarks.nights.faults import FOLDER_VARIABLE, PAUSE_S, Fault, Faults
from benchmarks.nights.receiver import RECEIVED

ROOT = Path(__file__).resolve().parents[2]
MARK_VARIABLE = "NIGHTS_MARK"
PATIENCE_S = 300.0
# A process without its parent ends by itself, which takes a moment.
GRACE_S = 10.0
DISK_SIZE = "96m"
SCHEDULE = ("schedule",)
# The runner, and the dashboard as a process below it; the port is a free one.
UP = ("up", "--port", "0")
# The machine's local time changes with daylight saving, too.
LOCAL_ZONE = "Europe/Berlin"
HOLDER = """
import duckdb, sys, time
while True:
    try:
        held = duckdb.connect(sys.argv[1])
        break
    except duckdb.IOException:
        time.sleep(0.01)
print("held", flush=True)
sys.stdin.read()
"""


class NotMounted(Exception):
    """A file system of its own needs root."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """The observations of the simulation while it ran."""

    num_starts: int = 0
    num_kills: int = 0
    orphans: list[str] = field(default_factory=list)


class Receiver:
    """A receiver of webhooks, a process that can be down; its address stays the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.start()

    def start(self) -> None:
        """Start it unless it runs."""
        if self._process is not None:
            return
        port = self.url.rpartition(":")[2].partition("/")[0] or "0"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.nights.receiver", str(self._folder), port],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Machine:
    """A machine whose runner uses `config`, a hud.toml, in `folder`."""

    def __init__(self, folder: Path, *, config: str) -> None:
        self.folder = folder
        self.faults = Faults(folder)
        self.seen = Seen()
        self.state = folder / "state"
        self.store_path = self.state / "store.duckdb"
        self.state.mkdir(exist_ok=True)
        self.mark = uuid.uuid4().hex
        self._runner: subprocess.Popen[bytes] | None = None
        (folder / "hud.toml").write_text(config, encoding="ascii")

    def start(self, command: tuple[str, ...] = SCHEDULE) -> None:
        """Start the runner, as `hud` with these arguments."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("HUD_")}
        with (self.folder / "runner.log").open("ab") as log:
            self._runner = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.nights.box", *command],
                cwd=self.folder,
                env={
                    **env,
                    "PYTHONPATH": f"{ROOT}:{ROOT}/src",
                    "TZ": LOCAL_ZONE,
                    "HUD_STATE_DIR": str(self.state),
                    "HUD_LOCK_DIR": str(self.folder / "locks"),
                    FOLDER_VARIABLE: str(self.folder),
                    MARK_VARIABLE: self.mark,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.seen.num_starts += 1

    def stop(self) -> None:
        """Stop the runner as an operator does."""
        assert self._runner is not None
        self._runner.send_signal(signal.SIGTERM)
        self._runner.wait(PATIENCE_S)
        self.look_for_orphans("the end")

    def kill(self) -> None:
        """Kill only the runner: its child processes have to end by themselves."""
        assert self._runner is not None
        self._runner.kill()
        self._after_death("a kill")

    def switch_off(self) -> None:
        """End all processes at once, as a power cut does."""
        self.end_all()
        self._after_death("a reboot")

    def end_all(self) -> None:
        """Kill all processes of the simulation."""
        pids = processes_marked(self.mark)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

    def _after_death(self, cause: str) -> None:
        assert self._runner is not None
        self._runner.wait()
        self.seen.num_kills += 1
        self.look_for_orphans(cause)
        self.faults.remove(Fault.HELD)

    def look_for_orphans(self, cause: str) -> None:
        """Record the processes that still run a while after they should have ended."""
        deadline_s = time.monotonic() + GRACE_S
        while (left := processes_marked(self.mark)) and time.monotonic() < deadline_s:
            time.sleep(PAUSE_S)
        self.seen.orphans += [f"process {pid} outlived {cause}" for pid in left]

    def set_clock(self, moment: datetime) -> None:
        """Set the clock to `moment`."""
        path = self.folder / "clock.new"
        path.write_text(moment.isoformat(), encoding="ascii")
        path.replace(self.folder / "clock")

    def live_until(self, moment: datetime) -> None:
        """Set the clock to `moment`, and wait until nothing is left to do then."""
        self.set_clock(moment)
        path, text = self.folder / "idle", moment.isoformat()
        self._wait_for(lambda: path.exists() and path.read_text(encoding="ascii") == text)

    def hold_at(self, model: str, *, moment: datetime) -> None:
        """Set the clock to `moment`, and wait until `model` is being measured."""
        path = self.folder / "is-held"
        path.unlink(missing_ok=True)
        self.faults.hold(model)
        self.set_clock(moment)
        self._wait_for(path.exists)

    def _wait_for(self, happened: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        assert self._runner is not None
        while not happened():
            if self._runner.poll() is not None or time.monotonic() > deadline_s:
                log = (self.folder / "runner.log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"the runner does not go on:\n{log[-3000:]}")
            time.sleep(PAUSE_S)

    @contextmanager
    def locked_store(self) -> Iterator[None]:
        """Lock the store's file from another process meanwhile."""
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(self.store_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            try:
                yield
            finally:
                holder.communicate()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Fill the disk under the state directory meanwhile; it must be its own."""
        if not self.state.is_mount():
            raise NotMounted(f"{self.state} is on a disk that others use; see small_disk")
        path = self.state / "ballast"
        with path.open("wb", buffering=0) as stream:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while stream.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue
        try:
            yield
        finally:
            path.unlink()

    def taken(self) -> list[str]:
        """Return the ids of the notifications that the receiver took, in order."""
        path = self.folder / RECEIVED
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [item["id"] for line in lines for item in json.loads(line)["data"]["notifications"]]


def processes_marked(mark: str) -> list[int]:
    """Return the processes that are alive and inherited `mark`."""
    processes = []
    text = f"{MARK_VARIABLE}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            has_mark = text in (process / "environ").read_bytes().split(b"\0")
            state = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            continue
        if has_mark and state != "Z":
            processes.append(int(process.name))
    return processes


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of DISK_SIZE at `folder`; raise NotMounted without the right to."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_SIZE}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotMounted(f"mounting a small disk needs root: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
