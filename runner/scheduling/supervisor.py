"""hud up: supervise the dashboard process, and start a first run on an empty store."""

from __future__ import annotations

import errno
import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import psutil

from compile_hud.db.alerts.action_links import LINK_SECRET_VARIABLE
from compile_hud.db.jobs.live_log import STATE_VARIABLE
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.shared.access_rules import ACCESS_VARIABLE
from compile_hud.db.shared.settings_snapshot import (
    RECEIVERS_VARIABLE,
    SETTINGS_VARIABLE,
    receivers_to_json,
    settings_to_json,
)
from compile_hud.db.shared.trace_paths import PERFETTO_VARIABLE, TRACES_VARIABLE
from compile_hud.db.store import Store
from compile_hud.runner.alerting.message_links import link_secret
from compile_hud.runner.config.load import Config
from compile_hud.runner.config.sign_in import export_to_child, has_local_owner
from compile_hud.runner.config.snapshot import shown_receivers, shown_settings
from compile_hud.runner.errors import DashboardUnavailable
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.planning.suites import QUICK
from compile_hud.runner.system.dashboard_urls import dashboard_url
from compile_hud.runner.system.processes import die_with_parent

FIRST_RUN = "first run"
# The server of the dashboard ends its sessions within a second or two.
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The wait before a restart: it doubles, and starts over after a process that lived long."""

    first_s: float = 1.0
    longest_s: float = 60.0

    def next_s(self, last_s: float, *, lived_s: float) -> float:
        """Return the wait after a process that lived `lived_s`, the wait before being `last_s`."""
        if lived_s > self.longest_s or last_s == 0:
            return self.first_s
        return min(2 * last_s, self.longest_s)


class Dashboard:
    """The dashboard as a child process, restarted when it dies while the context is entered."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        notify: Notify,
        backoff: Backoff | None = None,
    ) -> None:
        self._command = list(command)
        self._environment = environment
        self._notify = notify
        self._backoff = backoff or Backoff()
        self._stopping = threading.Event()
        self._started = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel ends the child with the *thread* that started it, so one thread starts all.
        self._thread = threading.Thread(target=self._watch, name="dashboard", daemon=True)

    def __enter__(self) -> Dashboard:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()

    @property
    def pid(self) -> int | None:
        """Return the PID of the current child, None between two."""
        process = self._process
        return None if process is None else process.pid

    def _watch(self) -> None:
        wait_s = 0.0
        while True:
            started_s = time.monotonic()
            code = self._serve()
            if self._stopping.is_set():
                return
            wait_s = self._backoff.next_s(wait_s, lived_s=time.monotonic() - started_s)
            if code is not None:
                text = f"the dashboard ended with code {code}; it is started again in {wait_s:g} s"
                self._notify(LogMessage(text=text, is_warning=True))
            self._stopping.wait(wait_s)

    def _serve(self) -> int | None:
        """Return the exit code of the dashboard, None if it was not started this time."""
        with self._lock:
            if self._stopping.is_set():
                return None
            try:
                process = self._process = self._start()
            except OSError as error:
                # There may be too many processes or open files for a moment.
                self._notify(LogMessage(text=f"no dashboard: {error}", is_warning=True))
                return None
            finally:
                self._started.set()
        self._relay(process)
        return process.wait()

    def _relay(self, process: subprocess.Popen[bytes]) -> None:
        """Relay each line of the dashboard's output until it ends."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._notify(LogMessage(text=line.decode(errors="replace").rstrip()))

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            # A line written directly by another process would break the progress bar.
            stdout=subprocess.PIPE,
            # Ctrl-C in the terminal is for this process, which ends the dashboard properly.
            start_new_session=True,
            env=self._environment,
            preexec_fn=die_with_parent,
        )


def dashboard_command(*, host: str, port: int, is_open: bool = False) -> list[str]:
    """Return the command that serves the dashboard; with `is_open` it needs no sign-in anywhere."""
    command = [sys.executable, "-P", "-m", "compile_hud.app", "--host", host, "--port", str(port)]
    return [*command, "--without-sign-in"] if is_open else command


def dashboard_environment(config: Config, *, shows_link: bool = False) -> dict[str, str]:
    """Return the environment variables that carry the settings to the dashboard.

    With `shows_link` it prints the sign-in link of a local owner.

    Arguments would expose a password in a URL, since every user can read a process's arguments.
    Raises ConfigError if the secret of links is not in its configured source.
    """
    folder = config.traces_dir
    secret = link_secret(config, env=os.environ) if config.public_url else ""
    return {
        **os.environ,
        "HUD_DATABASE_URL": config.store_url,
        STATE_VARIABLE: str(config.state_dir.absolute()),
        TRACES_VARIABLE: "" if folder is None else str(folder.absolute()),
        PERFETTO_VARIABLE: config.perfetto_url,
        ACCESS_VARIABLE: _access(config, shows_link=shows_link),
        LINK_SECRET_VARIABLE: secret,
        SETTINGS_VARIABLE: settings_to_json(shown_settings(config.path, env=os.environ)),
        RECEIVERS_VARIABLE: receivers_to_json(
            shown_receivers(config.receivers, routes=config.routes)
        ),
    }


def _access(config: Config, *, shows_link: bool) -> str:
    url = config.public_url or dashboard_url(host=config.host, port=config.port)
    return export_to_child(
        config.sign_in,
        url=url,
        path=config.path,
        env=os.environ,
        is_owned=has_local_owner(config.sign_in, host=config.host, public_url=config.public_url),
        shows_link=shows_link,
    )


def check_dashboard(*, host: str, port: int) -> int:
    """Return the port to listen on, a free one for 0.

    Raises DashboardUnavailable when the port is taken or the dashboard is not installed.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise DashboardUnavailable(
            "the dashboard is not installed; `pip install 'compile-hud[app]'` installs it"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # The server sets this option too: a port with a closing connection counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            pid = find_listener(port) if error.errno == errno.EADDRINUSE else None
            who = "" if pid is None else f" by process {pid} (`ps -fp {pid}` shows it)"
            raise DashboardUnavailable(
                f"cannot listen on {host}:{port}: {error.strerror}{who};"
                " choose another with --port (0 takes a free one)",
                host=host,
                port=port,
                reason=error.strerror,
            ) from error
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRun:
    """The run that a new store starts with; `resume_id` when it was interrupted."""

    suite: str
    toolchain: str
    device: str | None = None
    resume_id: str | None = None


def first_run_of(store: Store, *, config: Config) -> FirstRun | None:
    """Return the run to start with, None if the store has any data to show."""
    runs = [summary.run for summary in load_runs(store)]
    if not runs:
        return FirstRun(suite=QUICK.name, toolchain=next(iter(config.toolchains)))
    newest = runs[0]
    if newest.trigger != FIRST_RUN or newest.state is RunState.FINISHED:
        return None
    return FirstRun(
        suite=newest.suite,
        toolchain=newest.toolchain,
        device=newest.plan[0].device,
        resume_id=newest.id,
    )


def find_listener(port: int) -> int | None:
    """Return the PID of a process that listens on `port`, None if it is not visible.

    Processes of other users are not visible.
    """
    return next(
        (
            item.pid
            for item in psutil.net_connections("tcp")
            if item.status == psutil.CONN_LISTEN
            and item.laddr
            and item.laddr.port == port
            and item.pid
        ),
        None,
    )
