"""Checks of a run's requirements: packages, compiler, disk, store, notifications."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from compile_hud.db.alerts.outbox import count_outbox, count_unclaimed
from compile_hud.db.errors import StoreError
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.notifications import NotificationState
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.doctor.check import Check, CheckState
from compile_hud.runner.doctor.machine import COSTS
from compile_hud.runner.measure.resources.cpu_counters import (
    HARDWARE,
    LinuxPerf,
    PerfInterface,
    unavailable_reason,
)
from compile_hud.runner.persistence.spool import Spool
from compile_hud.runner.scheduling.heartbeat import existing_folder

# Compile caches of a nightly run take several GB.
_MIN_FREE_BYTES = 5 * 1024**3
# Above this share of busy CPUs the neighbours are part of the measurement.
_MAX_LOAD_PER_CPU = 0.5
_PROBE_TIMEOUT_S = 60.0
_PROBE_SOURCE = "#include <vector>\nint main() { return std::vector<int>().size(); }\n"


def run_checks(
    *, python: Path, store: Store, spool: Spool, state_dir: Path, receivers: Collection[str]
) -> Iterator[Check]:
    """Yield the checks of the requirements; `python` is the toolchain's interpreter.

    `receivers` are the names in hud.toml.
    """
    yield Check(name="python", state=CheckState.OK, text=platform.python_version())
    yield check_package("duckdb")
    yield check_torch(python)
    yield check_compiler(os.environ.get("CXX", "g++"))
    yield check_disk(
        free_bytes=shutil.disk_usage(existing_folder(state_dir)).free, folder=state_dir
    )
    yield check_store(store)
    yield check_spool(spool)
    yield check_notifications(store, receivers=receivers)
    load = os.getloadavg()[0]
    yield check_load(load, num_cpus=len(os.sched_getaffinity(0)))
    yield check_counters(LinuxPerf())


def check_package(name: str) -> Check:
    """Check that the package is installed, and report its version."""
    try:
        return Check(name=name, state=CheckState.OK, text=importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(
            name=name,
            state=CheckState.FAIL,
            text="not installed",
            hint="`make install` installs everything",
        )


def check_torch(python: Path) -> Check:
    """Check that the toolchain's interpreter has torch, and report its version."""
    script = "import torch; print(torch.__version__, torch.cuda.is_available())"
    answer = _ask([str(python), "-c", script])
    if answer is None:
        return Check(
            name="torch",
            state=CheckState.FAIL,
            text=f"{python} cannot import torch",
            hint="install torch there, or set [toolchains] in hud.toml",
        )
    version, _, has_cuda = answer.partition(" ")
    device = "with a GPU" if has_cuda == "True" else "CPU only"
    return Check(name="torch", state=CheckState.OK, text=f"{version}, {device} ({python})")


def check_compiler(compiler: str) -> Check:
    """Check that Inductor's C++ compiler exists and works."""
    hint = "install one (`apt-get install g++`), or point CXX to it"
    if shutil.which(compiler) is None:
        text = f"no {compiler}: torch.compile cannot generate code for the CPU"
        return Check(name="compiler", state=CheckState.FAIL, text=text, hint=hint)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(_PROBE_SOURCE, encoding="ascii")
        command = [compiler, str(source), "-o", str(source.with_suffix(""))]
        if _ask(command) is None:
            text = f"{compiler} does not compile a program of two lines"
            return Check(name="compiler", state=CheckState.FAIL, text=text, hint=hint)
    version = (_ask([compiler, "--version"]) or compiler).splitlines()[0]
    return Check(name="compiler", state=CheckState.OK, text=version)


def check_disk(*, free_bytes: int, folder: Path) -> Check:
    """Check that there is room for results and compile caches."""
    text = f"{free_bytes / 1024**3:.1f} GiB free for {folder}"
    if free_bytes >= _MIN_FREE_BYTES:
        return Check(name="disk", state=CheckState.OK, text=text)
    hint = "compile caches need some GiB: make room or set [paths] state"
    return Check(name="disk", state=CheckState.WARN, text=text, hint=hint)


def check_store(store: Store) -> Check:
    """Check that the store can be read."""
    try:
        runs = load_runs(store, limit=1)
    except StoreError as error:
        hint = (
            "set [store] url in hud.toml to a file or a server that is there: duckdb:///PATH or"
            " postgresql+psycopg://USER@HOST/NAME"
        )
        return Check(name="store", state=CheckState.FAIL, text=str(error), hint=hint)
    if store.is_missing():
        return _missing_store(Path(store.name))
    last = f"last run {runs[0].run.started_at:%Y-%m-%d %H:%M} UTC" if runs else "no run yet"
    return Check(name="store", state=CheckState.OK, text=f"{store.name}, {last}")


def _missing_store(path: Path) -> Check:
    folder = existing_folder(path.parent)
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        text = f"{path} does not exist yet: the first run makes it"
        return Check(name="store", state=CheckState.OK, text=text)
    why = f"no files can be made in {folder}" if folder.is_dir() else f"{folder} is no folder"
    return Check(
        name="store",
        state=CheckState.FAIL,
        text=f"{path} does not exist and cannot be made: {why}",
        hint="set [store] url in hud.toml to a file in a folder that you can write to",
    )


def check_spool(spool: Spool) -> Check:
    """Check that no results wait for the store or are broken."""
    num_broken = len(list(spool.broken_directory.glob("*.json")))
    num_waiting = len(spool.pending())
    text = f"{counted(num_waiting, 'result')} waiting, {num_broken} set aside as broken"
    if num_broken:
        hint = f"look at {spool.broken_directory}; move a file back once the cause is fixed"
        return Check(name="spool", state=CheckState.WARN, text=text, hint=hint)
    if num_waiting:
        return Check(
            name="spool", state=CheckState.WARN, text=text, hint="`hud ingest` stores them"
        )
    return Check(name="spool", state=CheckState.OK, text="empty")


def check_notifications(store: Store, *, receivers: Collection[str]) -> Check:
    """Check that no notification has failed for good, and that each has a configured receiver."""
    name = "notifications"
    try:
        counts = count_outbox(store)
    except StoreError as error:
        return Check(name=name, state=CheckState.WARN, text=str(error))
    dead = {who: num for (who, state), num in counts.items() if state is NotificationState.DEAD}
    unclaimed = count_unclaimed(counts, receivers=receivers)
    if not dead and not unclaimed:
        text = "no failed notifications, each has its receiver"
        return Check(name=name, state=CheckState.OK, text=text)
    texts, hints = [], []
    if dead:
        texts.append(f"given up: {_listed(dead)}")
        hints.append("`hud alerts outbox` says why, `hud alerts resend` sends them again")
    if unclaimed:
        texts.append(f"waiting for receivers that hud.toml does not name: {_listed(unclaimed)}")
        hints.append("they go out once hud.toml has a [receivers.NAME] of that name")
    return Check(name=name, state=CheckState.WARN, text="; ".join(texts), hint="; ".join(hints))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} to {receiver}" for receiver, number in sorted(counts.items()))


def check_load(load: float, *, num_cpus: int) -> Check:
    """Check that the machine is quiet enough to measure."""
    text = f"{counted(num_cpus, 'CPU')}, load {load:.1f}"
    if load <= _MAX_LOAD_PER_CPU * num_cpus:
        return Check(name="cpu", state=CheckState.OK, text=text)
    hint = "neighbours disturb wall times; measure when it is quiet"
    return Check(name="cpu", state=CheckState.WARN, text=text, hint=hint, cost=COSTS["cpu"])


def check_counters(kernel: PerfInterface) -> Check:
    """Check that the processor's counters can be read; they are optional."""
    event = next(item for item in HARDWARE if item.name == "instructions")
    why = unavailable_reason(event, kernel=kernel)
    if not why:
        return Check(name="counters", state=CheckState.OK, text="hardware counters can be read")
    text, _, hint = why.partition("; ")
    # A warning needs a remedy: only a sysctl can enable the counters.
    state = CheckState.WARN if "sysctl" in hint else CheckState.OK
    return Check(name="counters", state=state, text=text, hint=hint)


def _ask(command: list[str]) -> str | None:
    """Return the standard output of `command`, None when the command fails."""
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
