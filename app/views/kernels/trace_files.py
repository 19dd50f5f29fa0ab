"""Kernels of a trace file that a person opens on a page, read by a process of its own.

The file comes from outside, and its content may be hostile. Its reader is therefore the command
line in a process with bounds for memory and time, which a page waits for. The name of the file is
only shown. Nothing of it is stored.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.shared.text import one_line, printable, shortened

COMMAND = (sys.executable, "-P", "-m", "compile_hud.runner", "kernels")
# The largest trace that a page takes, packed or not; [server] maxUploadSize of Streamlit's
# configuration file has the same number.
MAX_UPLOAD_MB = 64
# A trace of 60 MB takes five seconds, and five times its unpacked size of memory.
TIMEOUT_S = 60.0
MAX_MEMORY_BYTES = 4 << 30
# A table of a page has a row for each.
MAX_KERNELS = 2_000
_MAX_ERROR_CHARS = 400
# The command line asks for a case of a file of results.
_RESULT = "name one of its cases"
_MAX_NAME_CHARS = 100
# One trace at a time: two of the largest would take the memory that measurements need.
_reading = threading.Lock()


class TraceFileError(Exception):
    """A file that is no readable trace. The message names it and a remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """The kernels of a trace file, the longest first, and its profile; `device` is for people."""

    name: str
    device: str
    kernels: tuple[Kernel, ...]
    num_kernels: int
    profile: Profile


def read_trace_file(name: str, content: bytes, *, timeout_s: float = TIMEOUT_S) -> TraceFile:
    """Return the kernels in `content`; raise TraceFileError for anything but a trace."""
    shown = shortened(one_line(printable(name)), limit=_MAX_NAME_CHARS)
    if not content:
        raise TraceFileError(f"{shown} is empty. Choose a Chrome trace of torch.profiler")
    if not _reading.acquire(timeout=timeout_s):
        raise TraceFileError(f"{shown} was not read: another trace is being read. Try it again")
    try:
        answer = _answer(shown, content, timeout_s=timeout_s)
    except OSError as error:
        raise TraceFileError(f"{shown} was not read: {error.strerror}") from error
    finally:
        _reading.release()
    try:
        document = json.loads(answer)
        kernels = tuple(map(Kernel.from_json, document["kernels"][:MAX_KERNELS]))
        return TraceFile(
            name=shown,
            device=str(document["device"]),
            kernels=kernels,
            num_kernels=len(document["kernels"]),
            profile=Profile.from_json(document["profile"]),
        )
    except (ValueError, KeyError, TypeError, RecordError) as error:
        raise TraceFileError(f"{shown} has no kernels that can be shown: {error}") from error


def _memory_limit() -> int:
    """Return the bytes that a reader may take; a process cannot raise its hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    return MAX_MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, hard)


def _answer(name: str, content: bytes, *, timeout_s: float) -> str:
    """Return the JSON that the command line prints about the trace."""
    with tempfile.TemporaryDirectory(prefix="hud-trace-") as folder:
        path = Path(folder) / "trace.json"
        path.write_bytes(content)
        process = subprocess.Popen(
            (*COMMAND, str(path), "--json"),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        with process:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (_memory_limit(),) * 2)
            try:
                output, problem = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise TraceFileError(
                    f"{name} takes longer than {timeout_s:g} s to read. Use `hud kernels FILE`"
                ) from None
    if process.returncode == 0:
        return output
    lines = [line for line in problem.splitlines() if line.strip()]
    reason = lines[-1].removeprefix("hud: ") if lines else f"its reader ended: {process.returncode}"
    # The folder is gone, and its name means nothing to the person.
    reason = printable(reason).replace(str(path), name)
    if _RESULT in reason:
        reason = f"{name} is a file of results and no trace. `hud ingest FILE` stores it"
    elif "MemoryError" in reason or process.returncode < 0:
        reason = f"{name} needs more memory than a page may take. Use `hud kernels FILE`"
    raise TraceFileError(shortened(one_line(reason), limit=_MAX_ERROR_CHARS))
