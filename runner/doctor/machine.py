"""Checks of machine settings that add noise. They read everything through `Machine`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

from compile_hud.db.shared.text import counted_of
from compile_hud.runner.doctor.check import Check, CheckState
from compile_hud.runner.system.gpus import GpuStatus, has_driver, list_gpus, measured_gpu, users_of
from compile_hud.runner.system.machine import Machine

_CPU = "/sys/devices/system/cpu"
_NO_FIGURE = "no figure: not measured with Compile HUD yet"

# Each figure was measured with Compile HUD or names its source.
COSTS: Mapping[str, str] = {
    "persistence": "1 to 3 s before the first CUDA call of every process, and a power limit or"
    " custom clock is reset when the last process ends"
    " (docs.nvidia.com/deploy/driver-persistence)",
    "clocks": "a clock that floats follows load, power and heat; a case result says how much it"
    " did (warnings `clock-change`, `throttled`). " + _NO_FIGURE,
    "power": "a lower limit holds the clock down under load, the more the more power a case draws."
    " " + _NO_FIGURE,
    "mig": "an instance is a part of the GPU: compare it with instances of its size alone",
    "gpu-users": "they take turns with the case and share memory and bandwidth. " + _NO_FIGURE,
    "cpu": "a loop went from 229 to 372 ms next to one other busy process (V. Stinner, How to run a"
    " stable benchmark, 2017)",
    "governor": "one benchmark went from 20.3 ms to 11.0 ms by itself while the kernel chose the"
    " clock (vstinner.github.io/intel-cpus-part2.html)",
    "turbo": "up to 6 % of the time on average comes and goes with heat and with the load of other"
    " cores (Charles et al., Evaluation of the Intel Core i7 Turbo Boost Feature, 2009)",
    "smt": "whatever runs on the other thread of a core shares it with the case. " + _NO_FIGURE,
    "thp": "whether an allocation gets huge pages depends on how fragmented memory is. "
    + _NO_FIGURE,
    "aslr": "between worker hosts the eager CPU time of bert varied by 8.0 % with random addresses"
    " and by 3.8 % with fixed ones (measured with"
    " Compile HUD)",
    "time": "nights are ordered by this clock, and schedules fire by it; samples are not taken"
    " with it",
}


def machine_checks(machine: Machine, *, env: Mapping[str, str]) -> Iterator[Check]:
    """Yield the checks of the machine."""
    yield from gpu_checks(machine, env=env)
    yield check_governor(machine)
    yield check_turbo(machine)
    yield check_smt(machine)
    yield check_huge_pages(machine)
    yield check_addresses(machine)
    yield check_time(machine)


def gpu_checks(machine: Machine, *, env: Mapping[str, str]) -> Iterator[Check]:
    """Yield the checks of the measured GPU; a machine without a GPU passes."""
    gpus = list_gpus(machine)
    gpu = measured_gpu(gpus, env=env)
    if gpu is None:
        yield _no_gpu(machine)
        return
    others = f", the first of {len(gpus)}" if len(gpus) > 1 else ""
    yield _ok("gpu", f"{gpu.name}, driver {gpu.driver_version}{others}")
    yield check_persistence(gpu)
    yield check_clocks(gpu)
    yield check_power(gpu)
    yield check_mig(gpu)
    yield check_gpu_users(users_of("cuda", machine=machine, env=env))


def _no_gpu(machine: Machine) -> Check:
    if not has_driver(machine):
        return _ok("gpu", "none; cases run on the CPU")
    reason = machine.ask("nvidia-smi").problem or "it lists none"
    return Check(
        name="gpu",
        state=CheckState.WARN,
        text=f"there is a driver, but nvidia-smi finds no GPU: {reason}",
        hint="after an update of the driver, reboot; in a container, `--gpus all`",
    )


def check_persistence(gpu: GpuStatus) -> Check:
    """Check that the driver stays loaded while the GPU is idle."""
    name = "persistence"
    if gpu.persistence_mode != "Disabled":
        return _ok(name, gpu.persistence_mode.lower() or "unknown")
    return _warn(
        name,
        "disabled",
        hint="the driver must stay loaded between processes",
        command=f"sudo nvidia-smi -i {gpu.uuid} -pm 1",
    )


def check_clocks(gpu: GpuStatus) -> Check:
    """Report the maximal clock. nvidia-smi does not report whether the clock is locked."""
    if gpu.max_clock_sm_mhz is None:
        return _ok("clocks", "unknown")
    return Check(
        name="clocks",
        state=CheckState.OK,
        text=f"up to {gpu.max_clock_sm_mhz:.0f} MHz; nvidia-smi does not report a lock."
        f" `sudo nvidia-smi -i {gpu.uuid} -lgc MHZ` locks it, at best to one that your cases"
        " sustain under load (details `telemetry`), and `-rgc` unlocks it",
        cost=COSTS["clocks"],
    )


def check_power(gpu: GpuStatus) -> Check:
    """Check that the power limit is the GPU's default."""
    limit, usual = gpu.power_limit_w, gpu.default_power_limit_w
    if limit is None or usual is None:
        return _ok("power", "unknown")
    if limit == usual:
        return _ok("power", f"limit {limit:g} W, as by default")
    return _warn(
        "power",
        f"limit {limit:g} W, by default {usual:g} W",
        hint="keep it the same every night, or go back to the default",
        command=f"sudo nvidia-smi -i {gpu.uuid} -pl {usual:g}",
    )


def check_mig(gpu: GpuStatus) -> Check:
    """Check that the GPU is not split into MIG instances."""
    if gpu.mig_mode != "Enabled":
        return _ok("mig", "not split")
    return _warn(
        "mig",
        "split into instances",
        hint="`nvidia-smi -mig 0` disables it on an idle GPU, and resets the GPU",
    )


def check_gpu_users(users: tuple[str, ...]) -> Check:
    """Check that no other process computes on the GPU."""
    if not users:
        return _ok("gpu-users", "no other process computes on it")
    return _warn(
        "gpu-users",
        f"used by {', '.join(users)}",
        hint="end them, or let runs wait for them ([run] wait_idle)",
    )


def check_governor(machine: Machine) -> Check:
    """Check that every CPU uses the governor `performance`."""
    governors = _read_all(machine, f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor")
    if not governors:
        return _ok("governor", "not adjustable here")
    if set(governors.values()) == {"performance"}:
        return _ok("governor", "performance")
    slow = {path: text for path, text in governors.items() if text != "performance"}
    cpus = counted_of(len(slow), len(governors), "CPU")
    return _warn(
        "governor",
        f"{', '.join(sorted(set(slow.values())))} on {cpus}",
        hint="the governor `performance` holds the clock; `pyperf system tune` sets it too",
        command=_write(slow, value="performance"),
    )


def check_turbo(machine: Machine) -> Check:
    """Check that turbo is off: the processor cannot sustain a turbo clock."""
    for path, off, how in (
        (f"{_CPU}/intel_pstate/no_turbo", "1", "; `pyperf system tune` turns it off too"),
        (f"{_CPU}/cpufreq/boost", "0", ""),
    ):
        now = machine.read(path)
        if now is None:
            continue
        if now == off:
            return _ok("turbo", "off")
        hint = f"without it numbers are larger and steadier{how}"
        return _warn("turbo", "on", hint=hint, command=_write([path], value=off))
    return _ok("turbo", "not adjustable here")


def check_smt(machine: Machine) -> Check:
    """Check that cores run one thread each."""
    path = f"{_CPU}/smt/control"
    control = machine.read(path)
    if control != "on":
        return _ok("smt", control or "unknown")
    return _warn(
        "smt",
        "cores run two threads each",
        hint="nothing else should run on the other thread; off, there is none",
        command=_write([path], value="off"),
    )


def check_huge_pages(machine: Machine) -> Check:
    """Check that transparent huge pages are given on request only."""
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    _, _, chosen = (machine.read(path) or "").partition("[")
    chosen = chosen.partition("]")[0]
    if chosen != "always":
        return _ok("thp", chosen or "unknown")
    return _warn(
        "thp",
        "always",
        hint="`madvise` gives huge pages to those alone who ask",
        command=_write([path], value="madvise"),
    )


def check_addresses(machine: Machine) -> Check:
    """Check that workers can start with fixed addresses, which they use where possible."""
    if machine.read("/proc/sys/kernel/randomize_va_space") == "0":
        return _ok("aslr", "off on the whole machine")
    answer = machine.ask("setarch", "-R", "true")
    if not answer.problem:
        return _ok("aslr", "off for the workers, on for everybody else")
    return _warn(
        "aslr",
        f"addresses are random in workers too ({answer.problem})",
        hint="`setarch -R` must be allowed; containers forbid it unless their seccomp profile"
        " allows personality(0x0040000)",
    )


def check_time(machine: Machine) -> Check:
    """Check that the system clock is synchronised."""
    answer = machine.ask("timedatectl", "show", "--property=NTPSynchronized", "--value")
    if answer.problem or answer.text not in ("yes", "no"):
        return _ok("time", "clock synchronisation unknown")
    if answer.text == "yes":
        return _ok("time", "synchronised")
    return _warn(
        "time",
        "the clock is not synchronised",
        hint="let the machine follow a time server",
        command="sudo timedatectl set-ntp true",
    )


def _read_all(machine: Machine, pattern: str) -> dict[str, str]:
    read: Callable[[str], str | None] = machine.read
    return {path: text for path in machine.find(pattern) if (text := read(path)) is not None}


def _write(paths: Collection[str], *, value: str) -> str:
    return f"echo {value} | sudo tee {shlex.join(paths)}"


def _ok(name: str, text: str) -> Check:
    return Check(name=name, state=CheckState.OK, text=text)


def _warn(name: str, text: str, *, hint: str, command: str = "") -> Check:
    return Check(
        name=name,
        state=CheckState.WARN,
        text=text,
        hint=hint,
        cost=COSTS[name],
        commands=(command,) if command else (),
    )
