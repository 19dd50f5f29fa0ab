"""Measure the waits of a new user: for the page, the first result and the whole quick suite.

Starts `hud up` on an empty state directory and watches from outside: the page over HTTP and the
results in the store. `--install` first times the installation of `make run` in a copy of the
committed tree, with pip's caches unchanged. Writes one JSON document.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from resource import struct_rusage
from typing import Any

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.store import Store

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
# 1: first version.
SCHEMA_VERSION = 1
# Fine enough for seconds, and the stamp file of the store costs nothing to read.
POLL_S = 0.1
STOP_TIMEOUT_S = 60.0
PACKAGES = ("compile-hud", "torch", "transformers", "streamlit", "duckdb", "duckdb-sqlalchemy")


class BenchmarkError(RuntimeError):
    """The event to be measured did not happen."""


class Watch:
    """A started `hud up` and the seconds since its start."""

    def __init__(self, process: subprocess.Popen[bytes], *, log: Path, timeout_s: float) -> None:
        self.process = process
        self.log = log
        self.timeout_s = timeout_s
        self.started_s = time.monotonic()

    def until(self, happened: Callable[[], bool], *, what: str) -> float:
        """Return the seconds from the start until `happened`; raise BenchmarkError."""
        while not happened():
            elapsed_s = time.monotonic() - self.started_s
            if self.process.poll() is not None or elapsed_s > self.timeout_s:
                tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise BenchmarkError(f"no {what} after {elapsed_s:.0f} s; hud up said:\n{tail}")
            time.sleep(POLL_S)
        return round(time.monotonic() - self.started_s, 2)


@contextmanager
def hud_up(folder: Path, *, port: int, timeout_s: float) -> Iterator[Watch]:
    """Run `hud up` with its state in `folder` and end it as Ctrl-C would."""
    (folder / "hud.toml").write_text(f"[server]\nport = {port}\n", encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HUD_")}
    log = folder / "hud-up.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "hud"), "up"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Watch(process, log=log, timeout_s=timeout_s)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class NewestRun:
    """The newest run of a store, read again only after a write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._generation = -1
        self._newest: RunSummary | None = None

    def read(self) -> RunSummary | None:
        """Return the newest run, None when there is none yet."""
        version = self._store.store_version()
        if version != self._generation:
            self._generation = version
            self._newest = next(iter(load_runs(self._store, limit=1)), None)
        return self._newest

    def num_results(self) -> int:
        """Return the number of case results of the newest run."""
        newest = self.read()
        return 0 if newest is None else sum(newest.num_by_outcome.values())

    def num_ok(self) -> int:
        """Return the number of ok case results of the newest run."""
        newest = self.read()
        return 0 if newest is None else newest.num_by_outcome.get(Outcome.OK, 0)

    def has_finished(self) -> bool:
        """Return whether the newest run is over."""
        newest = self.read()
        return newest is not None and newest.run.state is RunState.FINISHED


def answers(url: str) -> bool:
    """Return whether an HTTP server gives 200 at `url`."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def measure_install(folder: Path) -> dict[str, float]:
    """Return the seconds that the installation of `make run` takes in a copy of the last commit."""
    copy = folder / "copy"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(copy)], check=True)
    seconds = {}
    for name in ("install_s", "install_again_s"):
        started_s = time.monotonic()
        subprocess.run(
            ["make", "--silent", ".venv/.installed-run"],
            cwd=copy,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds[name] = round(time.monotonic() - started_s, 2)
    shutil.rmtree(copy)
    return seconds


def measure_start(folder: Path, *, timeout_s: float) -> dict[str, Any]:
    """Return the seconds to page, first result and finished suite, then those of a second start."""
    port = _free_port()
    page = f"http://127.0.0.1:{port}/"
    newest = NewestRun(Store(f"duckdb:///{folder / '.hud' / 'store.duckdb'}"))
    with hud_up(folder, port=port, timeout_s=timeout_s) as watch:
        page_s = watch.until(lambda: answers(page), what="page")
        first_result_s = watch.until(lambda: newest.num_results() > 0, what="result")
        second_ok_s = watch.until(lambda: newest.num_ok() > 1, what="second result")
        suite_s = watch.until(newest.has_finished, what="finished run")
    summary = newest.read()
    assert summary is not None
    with hud_up(folder, port=port, timeout_s=timeout_s) as watch:
        second_page_s = watch.until(lambda: answers(page), what="page at the second start")
    return {
        "page_s": page_s,
        "first_result_s": first_result_s,
        "second_ok_result_s": second_ok_s,
        "suite_s": suite_s,
        "second_start_page_s": second_page_s,
        "suite": summary.run.suite,
        "num_planned": len(summary.run.plan),
        "num_by_outcome": {str(key): value for key, value in summary.num_by_outcome.items()},
        "revision": summary.run.revision,
    }


def usage_of(process: subprocess.Popen[bytes], *, command: Sequence[str]) -> struct_rusage:
    """Return the resources of `process` and its children; raise BenchmarkError if it failed."""
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise BenchmarkError(f"{' '.join(command)} ended with {process.returncode}")
    return usage


def describe_machine() -> dict[str, Any]:
    """Return the facts of this machine that affect the numbers."""
    return {
        "cpu_model": _cpu_model(),
        "num_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "os": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "load_before": [round(value, 2) for value in os.getloadavg()],
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        # A checkout need not be installed to be measured.
        return None


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "")


def commit(root: Path = ROOT) -> str:
    """Return the commit of the checkout `root`, empty without one."""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def main() -> int:
    """Measure, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="time the installation as well")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds, for each start")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/startup-DATE.json")
    options = parser.parse_args()
    now = datetime.now(timezone.utc)
    output = options.output or RESULTS / f"startup-{now:%Y%m%dT%H%M%SZ}.json"
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "startup",
        "at": now.isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": describe_machine(),
    }
    with tempfile.TemporaryDirectory(prefix="hud-startup-") as name:
        folder = Path(name)
        try:
            if options.install:
                document.update(measure_install(folder))
            document.update(measure_start(folder, timeout_s=options.timeout))
        except BenchmarkError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=2) + "\n"
    output.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
