"""The worker host: it imports torch and its compiler once, then forks one child a launch.

`python -m compile_hud.runner.worker.start` reads JSON orders from standard input, one a line, and
writes one JSON answer a line. A child is a fresh process in its own session with its own compile
cache. No model can affect the next one: children share only imports.

The host executes no operator and starts no CUDA, so that forking it is safe. If an import starts
CUDA, no fork of the host can use it. Each child then starts a new interpreter (`perform`) and
imports by itself. The host blocks in `select`. When the runner dies, standard input ends and the
host kills its children.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import torch
import torch._inductor.codecache
import torch._inductor.compile_fx
from torch._inductor.cpu_vec_isa import pick_vec_isa

from compile_hud.db.records.results import Outcome
from compile_hud.models_zoo.building.loader import ModelLoadError
from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX
from compile_hud.runner.measure.compile.captured_graphs import NoScriptError
from compile_hud.runner.measure.compile.compiler_warnings import with_compiler_warnings
from compile_hud.runner.measure.compile.dynamo import compile_failure_reason
from compile_hud.runner.measure.compile.trace_log import write_trace_log
from compile_hud.runner.measure.device import open_device
from compile_hud.runner.measure.environment_facts import gather_facts
from compile_hud.runner.measure.latency.timing import garbage_collection_paused
from compile_hud.runner.measure.launch import graphs_of, run_launch
from compile_hud.runner.measure.resources.device_peaks import measure_peaks
from compile_hud.runner.measure.user_traceback import user_traceback
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.messages import (
    ASK_NVML,
    OUT_OF_MEMORY_TEXTS,
    PROTOCOL_VERSION,
    LaunchReport,
    LaunchRequest,
    check_protocol_version,
)

# A fork answers within milliseconds, on a busy machine within a second.
FORK_S = 10.0
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Serve orders until standard input ends; return the exit status."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Libraries print to descriptor 1. Their output must not be taken for an answer.
    os.dup2(2, 1)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _answer(answers, {"event": "ready", "protocol_version": PROTOCOL_VERSION})
    orders = _Orders()
    # A cancel also cancels every later launch.
    while not orders.were_cancelled and (order := orders.next()) is not None:
        # The end of a launch may arrive when that launch is already over.
        if order["action"] not in ("cancel", "time out"):
            _answer(answers, _serve(order, orders=orders))
    return 0


class _Orders:
    """The orders of standard input. `select` cannot see buffered lines, so nothing is buffered."""

    def __init__(self) -> None:
        self._rest = b""
        self.has_ended = False
        self.were_cancelled = False

    def next(self) -> dict[str, Any] | None:
        """Return the next order, a cancel included; None when the runner is gone."""
        while b"\n" not in self._rest and not self.has_ended:
            self.read()
        if b"\n" not in self._rest:
            return None
        line, self._rest = self._rest.split(b"\n", 1)
        order: dict[str, Any] = json.loads(line)
        self.were_cancelled |= order["action"] == "cancel"
        return order

    def read(self) -> None:
        """Read the available input; block while there is none."""
        data = os.read(0, 65536)
        self._rest += data
        self.has_ended = not data

    @property
    def is_waiting(self) -> bool:
        """Return whether an order that was read waits to be taken."""
        return b"\n" in self._rest


def perform(text: str) -> int:
    """Execute one JSON order in this process; return the exit status."""
    faulthandler.enable()
    work = _prepared(json.loads(text))
    gc.freeze()
    try:
        work()
    except Exception:  # noqa: BLE001 - the worker's top: its log tells the runner
        traceback.print_exc()
        return 1
    return 0


def _prepared(order: Mapping[str, Any]) -> Callable[[], None]:
    """Import the modules that `order` needs, and return the function that executes it."""
    action = order["action"]
    if action == "facts":
        return _facts_work(order)
    if action == "peaks":
        return _peaks_work(order)
    if action == "prime":
        _prepare_compiler()
        return partial(_prime, order["mark"])
    request = LaunchRequest.from_json(order["request"])
    if action == "launch" and request.case.backend == "inductor":
        _prepare_compiler()
    _preload(request.workload.build)
    return _graphs_work(request) if action == "graphs" else _launch_work(request)


def _serve(order: dict[str, Any], *, orders: _Orders) -> dict[str, Any]:
    check_protocol_version(order)
    log_path = Path(order["log_path"])
    work = _work_of(order)
    # Imported modules are never garbage. A collector that scans them would take 0.3 s of a launch
    # at each collection and copy every page.
    gc.freeze()
    started_s = time.monotonic()
    oom_kills = _oom_kills()
    child = os.fork()
    if child == 0:
        _live(work, log_path=log_path)
    ending = _wait(child, timeout_s=float(order["timeout_s"]), orders=orders)
    _kill_group(child)
    _reap_strays()
    return {
        "event": "exited",
        "ending": ending,
        "was_oom_killed": _oom_kills() > oom_kills,
        "duration_s": time.monotonic() - started_s,
    }


def _preload(build: str) -> None:
    """Import a model file of the zoo before forking, so that its launches share the import.

    A user's own file is left to the child: it may do anything, and must do it there.
    """
    if build.startswith(ZOO_PREFIX) and build not in sys.modules:
        try:
            with garbage_collection_paused():
                importlib.import_module(build)
        except (ImportError, RuntimeError):
            # transformers wraps a failing import in RuntimeError. The child meets the same error
            # and reports it as the case's outcome.
            return


_is_cuda_started = False


def _work_of(order: Mapping[str, Any]) -> Callable[[], None]:
    """Return a child's work, after importing the modules that it needs.

    If such an import starts CUDA, no child of this or a later order can use CUDA after a fork. Each
    of them then starts a new interpreter.
    """
    global _is_cuda_started
    if environment := _environment_of(order):
        return partial(_start_anew, order, environment)
    if not _is_cuda_started:
        work = _prepared(order)
        if _can_fork_use_cuda():
            return work
        _is_cuda_started = True
    return partial(_start_anew, order)


def _can_fork_use_cuda() -> bool:
    """Return whether a forked child may use CUDA; torch answers this only inside a child."""
    child = os.fork()
    if child == 0:
        cannot = True
        try:
            cannot = torch.cuda._is_in_bad_fork()
        finally:
            # The child must never return into the host, even if this torch lacks the function.
            os._exit(cannot)
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], FORK_S)[0]:
            # The child hangs on a lock that another thread of the host had at the fork.
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    _, status = os.waitpid(child, 0)
    return status == 0


def _environment_of(order: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the variant, which imports of torch may read."""
    request = order.get("request", {})
    environment: dict[str, str] = (
        request.get("workload", {}).get("compile", {}).get("environment", {})
    )
    return environment


def _start_anew(
    order: Mapping[str, Any], environment: Mapping[str, str] = NO_VARIABLES
) -> NoReturn:
    """Replace this child with a new interpreter: same process, session, log and limits.

    `environment` has further variables.
    """
    os.environ.update(environment)
    words = [sys.executable, "-m", "compile_hud.runner.worker.start", json.dumps(order)]
    os.execv(words[0], words)


_is_compiler_prepared = False


def _prepare_compiler() -> None:
    """Determine once the vector instructions of the C++ compiler; children inherit the answer."""
    global _is_compiler_prepared
    if not _is_compiler_prepared:
        pick_vec_isa()
        _is_compiler_prepared = True


def _live(work: Callable[[], None], *, log_path: Path) -> NoReturn:
    """Be the child: own session, own log, die with the host, never return."""
    status = 1
    try:
        os.setsid()
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # When memory runs out, the kernel must kill the case and not the runner.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        # Only the host asks NVML about the GPU. A child asks CUDA, whose answer is better.
        os.environ.pop(ASK_NVML, None)
        faulthandler.enable()
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - the worker's top: a child must never return into the host
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _launch_work(request: LaunchRequest) -> Callable[[], None]:
    def work() -> None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = request.cache_dir
        # A killed compiler leaves its temporary files; in this folder they go with the case.
        os.environ["TMPDIR"] = str(Path(request.report_path).parent)
        tempfile.tempdir = None
        if request.compile_trace_dir:
            write_trace_log(Path(request.compile_trace_dir))
        limit = request.settings.memory_limit_bytes
        if limit is not None:
            _limit_memory(limit, is_cuda=request.case.device == "cuda")
        report = with_compiler_warnings(partial(_report, request))
        write_json(Path(request.report_path), report.to_json())

    return work


def _limit_memory(limit_bytes: int, *, is_cuda: bool) -> None:
    if is_cuda:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))
        return
    # RLIMIT_AS would count reserved address space, and torch reserves a lot of it.
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def _report(request: LaunchRequest) -> LaunchReport:
    try:
        return run_launch(request)
    except (MemoryError, torch.OutOfMemoryError) as error:
        return _failure(Outcome.OUT_OF_MEMORY, error, build=request.workload.build)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the worker's top: an outcome, no crash
        text = str(error).lower()
        is_memory = any(known in text for known in OUT_OF_MEMORY_TEXTS)
        outcome = Outcome.OUT_OF_MEMORY if is_memory else Outcome.FAILED
        return _failure(outcome, error, build=request.workload.build)


def _failure(outcome: Outcome, error: BaseException, *, build: str) -> LaunchReport:
    own = user_traceback(error, build=build)
    if own is None:
        if isinstance(error, ModelLoadError):
            # The model file lacks a required name. The message is complete, and no frame is user
            # code.
            sys.stderr.write(f"{error}\n")
        else:
            traceback.print_exc()
        return LaunchReport(outcome=outcome, reason=compile_failure_reason(error))
    sys.stderr.write(own.text)
    reason = compile_failure_reason(error, location=own.location)
    return LaunchReport(outcome=outcome, reason=reason)


def _graphs_work(request: LaunchRequest) -> Callable[[], None]:
    """Return the work that writes the graphs of a case, or the reason why there are none."""

    def work() -> None:
        answer: dict[str, Any]
        try:
            answer = {"graphs": graphs_of(request).to_json()}
        except NoScriptError as error:
            answer = {"reason": str(error)}
        except Exception as error:  # noqa: BLE001 - the model may raise anything
            answer = {"reason": f"{type(error).__name__}: {error}".splitlines()[0]}
        write_json(Path(request.report_path), answer)

    return work


def _facts_work(order: Mapping[str, Any]) -> Callable[[], None]:
    def work() -> None:
        write_json(Path(order["report_path"]), gather_facts(order["device"]))

    return work


def _peaks_work(order: Mapping[str, Any]) -> Callable[[], None]:
    def work() -> None:
        device = open_device(order["device"], num_threads=order["num_threads"])
        write_json(Path(order["report_path"]), measure_peaks(device))

    return work


def _prime(mark: str) -> None:
    """Compile a tiny function, so that the precompiled header exists before a case is timed.

    It takes two seconds. If the file `mark` exists next to the header, the function returns at
    once.
    """

    def tiny(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1).sum()

    # Inductor stores the header in the folder for temporary files, which the system may empty.
    # Another version of torch may use another folder.
    headers = getattr(torch._inductor.codecache, "_HEADER_DIR", None)
    marked = None if headers is None else Path(headers) / mark
    if marked is not None and marked.exists():
        return
    torch.set_num_threads(1)
    torch.compile(tiny)(torch.ones(64))
    if marked is not None and marked.parent.is_dir():
        marked.touch()


def _wait(child: int, *, timeout_s: float, orders: _Orders) -> str:
    """Return the ending of `child`: `exit N`, `signal N`, `timeout` or `cancelled`."""
    handle = os.pidfd_open(child)
    deadline_s = time.monotonic() + timeout_s
    ending = ""
    try:
        while not ending:
            # While a child runs, the runner only sends its end or closes standard input.
            if orders.is_waiting or orders.has_ended:
                order = orders.next()
                is_late = order is not None and order["action"] == "time out"
                ending = "timeout" if is_late else "cancelled"
                break
            readable, _, _ = select.select(
                [handle, 0], [], [], max(0.0, deadline_s - time.monotonic())
            )
            if handle in readable:
                break
            if readable:
                orders.read()
            else:
                ending = "timeout"
    finally:
        os.close(handle)
    if ending:
        # The child may not lead a process group yet, so it is killed by its own id too.
        os.kill(child, signal.SIGKILL)
        _kill_group(child)
    _, status = os.waitpid(child, 0)
    if ending:
        return ending
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit {os.WEXITSTATUS(status)}"


def _kill_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        # The group is usually empty.
        return


def _reap_strays() -> None:
    """Kill and collect descendants that left the child's session; the host is their reaper."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for stray in _children():
                os.kill(stray, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(pid) for pid in text.split()]


def _oom_kills() -> int:
    """Return the number of kills by the kernel's out-of-memory killer, 0 if unknown."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _answer(stream: Any, document: Mapping[str, Any]) -> None:
    stream.write(json.dumps(document) + "\n")
    stream.flush()
