"""Executes cases on this machine, through a worker host under the toolchain's interpreter."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from db.records import CaseResult, Outcome, RunWarning
from runner.combine import HOST_DIED, Ending, combine, report_of_ending
from runner.errors import ExecutorError
from runner.executor_api import CaseOrder
from runner.protocol import PROTOCOL_VERSION, LaunchReport, LaunchRequest, MeasureSettings

LOG_TAIL_BYTES = 16_384
FACTS_TIMEOUT_S = 120.0
# Compiling the headers that every C++ kernel includes takes some 20 s once a toolchain.
PRIME_TIMEOUT_S = 300.0
# The rest stays for the runner, the dashboard and the page cache.
MEMORY_LIMIT_SHARE = 0.8
# Every process of a case inherits it, whatever session or parent it has.
HOST_VARIABLE = "HUD_WORKER_HOST"
PACKAGES = ("runner", "db", "models_zoo")


class LocalExecutor:
    """An Executor whose cases run here, one after the other.

    `python` is the toolchain's interpreter, `state_dir` the folder for compile caches and logs,
    `device` the device kind that the facts are about.
    """

    def __init__(
        self,
        *,
        python: Path,
        state_dir: Path,
        device: str = "cpu",
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._python = python
        self._device = device
        self._now = now
        toolchain = hashlib.sha256(str(python).encode()).hexdigest()[:16]
        self._home = (state_dir / "toolchains" / toolchain).absolute()
        self._work = (state_dir / "work").absolute()
        self._host: subprocess.Popen[bytes] | None = None
        self._mark = uuid.uuid4().hex
        self._is_cancelled = False
        self._is_primed = False
        self._default_code: dict[str, str] = {}

    def open(self) -> Mapping[str, Any]:
        """Start the worker host and return the environment facts; raise ExecutorError."""
        if self._host is None:
            self._start_host()
        _remove_leftovers(self._work)
        folder = self._new_folder()
        try:
            report = folder / "facts.json"
            log = folder / "log.txt"
            self._ask(
                {"action": "facts", "device": self._device, "report_path": str(report)},
                log=log,
                timeout_s=FACTS_TIMEOUT_S,
            )
            if not report.exists():
                raise ExecutorError(
                    f"{self._python} cannot measure on {self._device}: {_last_line(log)}"
                )
            facts: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
            return facts
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return what the case did; raise ExecutorError when no host can be started any more."""
        started_at = self._now()
        folder = self._new_folder()
        try:
            if order.case.backend == "inductor" and order.case.device == "cpu":
                self._prime(folder)
            reports = self._launches(order, folder)
            result = combine(
                order,
                reports,
                result_id=uuid.uuid4().hex,
                started_at=started_at,
                finished_at=self._now(),
                log_tail=_tail(folder / "log.txt"),
            )
            return self._note_same_code(result)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def cancel(self) -> None:
        """Kill the running case; `execute` returns at once, now and from now on."""
        self._is_cancelled = True
        host = self._host
        if host is not None and host.stdin is not None and not host.stdin.closed:
            try:
                # Past the buffer: a signal handler may interrupt the very write that fills it.
                os.write(host.stdin.fileno(), b'{"action": "cancel"}\n')
            except OSError:
                # The host is gone, and with it the case.
                return

    def close(self) -> None:
        """End the worker host; it kills what it started when its standard input ends."""
        host, self._host = self._host, None
        if host is None:
            return
        assert host.stdin is not None
        assert host.stdout is not None
        try:
            host.stdin.close()
        except OSError:
            host.kill()
        host.wait()
        host.stdout.close()

    def _launches(self, order: CaseOrder, folder: Path) -> list[LaunchReport]:
        reports: list[LaunchReport] = []
        cache = folder / "cache"
        deadline_s = time.monotonic() + order.settings.timeout_s
        for launch in range(order.settings.num_launches):
            if self._is_cancelled or time.monotonic() >= deadline_s:
                ending = Ending(text="cancelled" if self._is_cancelled else "timeout")
                limit_s = order.settings.timeout_s
                reports.append(report_of_ending(ending, log_tail="", limit_s=limit_s))
                break
            request = LaunchRequest(
                case=order.case,
                workload=order.workload,
                settings=_with_memory_limit(order),
                launch=launch,
                cache_dir=str(cache),
                report_path=str(folder / f"report-{launch}.json"),
                log_path=str(folder / "log.txt"),
            )
            reports.append(self._launch(request, deadline_s=deadline_s))
            if reports[-1].outcome is not Outcome.OK:
                break
        return reports

    def _launch(self, request: LaunchRequest, *, deadline_s: float) -> LaunchReport:
        log = Path(request.log_path)
        ending = self._ask(
            {"action": "launch", "request": request.to_json()},
            log=log,
            timeout_s=max(0.0, deadline_s - time.monotonic()),
        )
        try:
            text = Path(request.report_path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return report_of_ending(ending, log_tail=_tail(log), limit_s=request.settings.timeout_s)
        return LaunchReport.from_json(json.loads(text))

    def _prime(self, folder: Path) -> None:
        """Let the toolchain build its precompiled header before a compilation is timed."""
        if self._is_primed or self._is_cancelled:
            return
        self._ask({"action": "prime"}, log=folder / "prime.txt", timeout_s=PRIME_TIMEOUT_S)
        self._is_primed = True

    def _note_same_code(self, result: CaseResult) -> CaseResult:
        """Add a warning when the generated code is that of mode default in this run."""
        code = result.details.get("generated_code_sha256")
        if result.outcome is not Outcome.OK or not isinstance(code, str):
            return result
        case = result.case
        place = replace(case, variant="default", mode="default").key
        if case.variant == "default":
            self._default_code[place] = code
            return result
        if self._default_code.get(place) != code:
            return result
        warning = RunWarning(
            code="same-code",
            text=f"{case.variant} generated the very kernels of default on this device",
            hint="a difference in latency between the two is noise",
        )
        return replace(result, warnings=(*result.warnings, warning))

    def _ask(self, order: dict[str, Any], *, log: Path, timeout_s: float) -> Ending:
        document = {
            "protocol_version": PROTOCOL_VERSION,
            "log_path": str(log),
            "timeout_s": timeout_s,
            **order,
        }
        if self._host is None:
            self._start_host()
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
                " check [toolchains] in hud.toml"
            )
        log = self._home / "host.log"
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as stderr:
                self._host = subprocess.Popen(
                    [*_fixed_addresses(), str(self._python), "-m", "runner.worker"],
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env=self._host_environment(),
                    # Ctrl-C in the terminal is for the runner: it decides about the case.
                    start_new_session=True,
                )
        except OSError as error:
            raise ExecutorError(f"cannot start the worker host in {self._home}: {error}") from error
        answer = self._read_answer()
        if answer is None or answer.get("protocol_version") != PROTOCOL_VERSION:
            self.close()
            raise ExecutorError(
                f"the worker host does not start under {self._python}; is torch installed there?"
                f"\n{_tail(log) or 'it printed nothing'}"
            )

    def _kill_strays(self) -> None:
        """Kill what a host that was killed left behind; alive, it would have done so itself."""
        mark = f"{HOST_VARIABLE}={self._mark}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except (OSError, ValueError):
                # It ended meanwhile, or belongs to somebody else.
                continue

    def _host_environment(self) -> dict[str, str]:
        path = [str(_package_links(self._home))]
        if inherited := os.environ.get("PYTHONPATH"):
            path.append(inherited)
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            HOST_VARIABLE: self._mark,
            "TORCHINDUCTOR_CACHE_DIR": str(self._home / "inductor"),
            # Threads of a library in the host would not survive the fork.
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
        }

    def _new_folder(self) -> Path:
        folder = self._work / f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise ExecutorError(
                f"cannot create {folder}: {error.strerror}; free some space"
            ) from error
        return folder


def _write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@functools.cache
def _fixed_addresses() -> tuple[str, ...]:
    """Return the prefix that starts a command without address randomisation, if it may.

    All launches of a host share its address layout, so with a random one two runs of the same code
    differed by 8 % where launches of one run differed by 4 %; fixed, it was 4 % and 2 %
    (docs/methodology.md). Containers often forbid it; then it is not done, and the facts say so.
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


def _remove_leftovers(work: Path) -> None:
    """Remove the folders of cases whose runner is dead."""
    for folder in work.glob("*-*"):
        pid = folder.name.partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _package_links(home: Path) -> Path:
    """Return a folder that makes our packages importable, and nothing else of this environment."""
    folder = home / "packages"
    folder.mkdir(exist_ok=True)
    root = Path(__file__).resolve().parent.parent
    for package in PACKAGES:
        link = folder / package
        if link.is_symlink() and link.resolve() == root / package:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(root / package)
    return folder


def _with_memory_limit(order: CaseOrder) -> MeasureSettings:
    if order.settings.memory_limit_bytes is not None or order.case.device != "cpu":
        return order.settings
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return replace(order.settings, memory_limit_bytes=int(total * MEMORY_LIMIT_SHARE))


def _last_line(path: Path) -> str:
    """Return what the last exception in a log says; the whole is in the log."""
    lines = _tail(path).strip().splitlines()
    return lines[-1].partition(": ")[2] or lines[-1] if lines else "it said nothing"


def _tail(path: Path) -> str:
    """Return the end of a log; empty when there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - LOG_TAIL_BYTES))
            return stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
