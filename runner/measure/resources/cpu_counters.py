"""The kernel's performance counters (Linux, perf_event_open) of the calling thread, by ctypes.

A group of events is scheduled together and read in one call. With more events than counters, the
kernel multiplexes; a reading has the enabled and the running time. The module uses the standard
library alone: `hud doctor` uses it too, in a process without torch.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# The system call has no wrapper in libc.
SYSCALL_NUMBERS = {"x86_64": 298, "aarch64": 241}
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

TYPE_HARDWARE, TYPE_SOFTWARE = 0, 1
_ATTR_BYTES = 128
_DISABLED, _INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 1, 1 << 5, 1 << 6
_FORMAT_TIMES = 1 | 2
_FORMAT_TIMES_AND_GROUP = _FORMAT_TIMES | 8
_IOC_ENABLE = 0x2400
_IOC_FLAG_GROUP = 1
_FLAG_CLOEXEC = 8
_THIS_THREAD, _ANY_CPU = 0, -1
# The value and the two times.
_FAMILY_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterEvent:
    """One countable event, as <linux/perf_event.h> numbers it.

    Events count user code alone where possible: the cost of interrupts is no property of the case,
    and only root may count in the kernel.
    """

    name: str
    type: int
    config: int
    is_user_only: bool = True


HARDWARE = (
    CounterEvent(name="cycles", type=TYPE_HARDWARE, config=0),
    CounterEvent(name="instructions", type=TYPE_HARDWARE, config=1),
    CounterEvent(name="cache_misses", type=TYPE_HARDWARE, config=3),
    CounterEvent(name="branch_misses", type=TYPE_HARDWARE, config=5),
)
SOFTWARE = (
    CounterEvent(name="task_clock_ns", type=TYPE_SOFTWARE, config=1),
    CounterEvent(name="page_faults", type=TYPE_SOFTWARE, config=2),
    # Context switches happen in the kernel, so user code alone has none.
    CounterEvent(name="context_switches", type=TYPE_SOFTWARE, config=3, is_user_only=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReading:
    """Totals since a group was opened, with the enabled and the running time."""

    values: tuple[int, ...]
    enabled_ns: int
    running_ns: int


class PerfInterface(Protocol):
    """The interface of the kernel; each method raises OSError."""

    def open(self, attributes: bytes, *, leader: int) -> int:
        """Return the file descriptor of a counter of this thread."""

    def enable(self, leader: int) -> None:
        """Start counting with a group."""

    def read(self, leader: int, size: int) -> bytes:
        """Return a group's reading as the kernel writes it."""

    def close(self, counter: int) -> None:
        """Close a counter."""


class LinuxPerf:
    """The kernel under this process."""

    def open(self, attributes: bytes, *, leader: int) -> int:
        """Return the file descriptor of a counter of this thread."""
        number = SYSCALL_NUMBERS.get(platform.machine())
        if number is None or not sys.platform.startswith("linux"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        buffer = ctypes.create_string_buffer(attributes, len(attributes))
        libc = ctypes.CDLL(None, use_errno=True)
        counter = int(libc.syscall(number, buffer, _THIS_THREAD, _ANY_CPU, leader, _FLAG_CLOEXEC))
        if counter < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return counter

    def enable(self, leader: int) -> None:
        fcntl.ioctl(leader, _IOC_ENABLE, _IOC_FLAG_GROUP)

    def read(self, leader: int, size: int) -> bytes:
        """Return a group's reading as the kernel writes it."""
        return os.read(leader, size)

    def close(self, counter: int) -> None:
        os.close(counter)


class CounterGroup:
    """Events that count together; opened by `open_group`, closed by `close`."""

    def __init__(
        self, counters: Sequence[int], *, events: Sequence[CounterEvent], kernel: PerfInterface
    ) -> None:
        self._counters = tuple(counters)
        self._kernel = kernel
        self.names = tuple(event.name for event in events)

    def read(self) -> CounterReading:
        """Return the totals so far; raise OSError when the kernel does not give them."""
        size = 8 * (3 + len(self.names))
        number, enabled_ns, running_ns, *values = struct.unpack(
            f"={size // 8}Q", self._kernel.read(self._counters[0], size)
        )
        assert number == len(self.names)
        return CounterReading(values=tuple(values), enabled_ns=enabled_ns, running_ns=running_ns)

    def close(self) -> None:
        """Close every counter."""
        for counter in self._counters:
            self._kernel.close(counter)


class FamilyCounter:
    """One event of this thread and of each thread and process that it starts while it is open."""

    def __init__(self, counter: int, *, kernel: PerfInterface) -> None:
        self._counter = counter
        self._kernel = kernel

    def read(self) -> CounterReading:
        """Return the total so far, of ended processes too; raise OSError."""
        value, enabled_ns, running_ns = struct.unpack(
            "=3Q", self._kernel.read(self._counter, _FAMILY_BYTES)
        )
        return CounterReading(values=(value,), enabled_ns=enabled_ns, running_ns=running_ns)

    def close(self) -> None:
        self._kernel.close(self._counter)


def open_family(event: CounterEvent, *, kernel: PerfInterface) -> FamilyCounter:
    """Return a counter that counts from now on; raise OSError where that is refused."""
    # Kernels before 6.12 refuse to read a group whose events are inherited.
    attributes = attribute_bytes(event, is_leader=True, is_inherited=True)
    counter = kernel.open(attributes, leader=-1)
    try:
        kernel.enable(counter)
    except OSError:
        kernel.close(counter)
        raise
    return FamilyCounter(counter, kernel=kernel)


def open_group(events: Sequence[CounterEvent], *, kernel: PerfInterface) -> CounterGroup:
    """Return `events` as a group that counts from now on; raise OSError where that is refused."""
    counters: list[int] = []
    try:
        for event in events:
            leader = counters[0] if counters else -1
            attributes = attribute_bytes(event, is_leader=not counters)
            counters.append(kernel.open(attributes, leader=leader))
        kernel.enable(counters[0])
    except OSError:
        for counter in counters:
            kernel.close(counter)
        raise
    return CounterGroup(counters, events=events, kernel=kernel)


def attribute_bytes(event: CounterEvent, *, is_leader: bool, is_inherited: bool = False) -> bytes:
    """Return `struct perf_event_attr` for `event`, everything else in it zero."""
    flags = _DISABLED if is_leader else 0
    if is_inherited:
        flags |= _INHERIT
    if event.is_user_only:
        flags |= _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    # type, size, config, sample_period, sample_type, read_format, flags
    layout = _FORMAT_TIMES if is_inherited else _FORMAT_TIMES_AND_GROUP
    head = struct.pack("=IIQQQQQ", event.type, _ATTR_BYTES, event.config, 0, 0, layout, flags)
    return head.ljust(_ATTR_BYTES, b"\0")


def refusal_reason(error: OSError, *, paranoid: str) -> str:
    """Return the reason and the remedy of a refusal; `paranoid` is the kernel's setting."""
    if error.errno == errno.EACCES:
        return (
            f"the kernel allows it only to root (kernel.perf_event_paranoid is {paranoid});"
            " `sysctl kernel.perf_event_paranoid=1` changes that"
        )
    if error.errno == errno.EPERM:
        return (
            "forbidden, by a container's seccomp profile or"
            f" kernel.perf_event_paranoid={paranoid}; give the container CAP_PERFMON or"
            " `sysctl kernel.perf_event_paranoid=1`"
        )
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "this machine has no such counters; a virtual machine needs a virtual PMU for them"
    if error.errno == errno.ENOSYS:
        return f"not available on {sys.platform} {platform.machine()}"
    return f"the kernel refuses: {error.strerror}"


def read_paranoid() -> str:
    """Return the kernel's setting for unprivileged counting, `unknown` without one."""
    try:
        return PARANOID.read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


def unavailable_reason(event: CounterEvent, *, kernel: PerfInterface) -> str:
    """Return the reason why `event` cannot be counted here, with the remedy; empty if it can."""
    try:
        open_group([event], kernel=kernel).close()
    except OSError as error:
        return refusal_reason(error, paranoid=read_paranoid())
    return ""
