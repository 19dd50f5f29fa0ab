"""Instructions of a compilation, from scripted readings and from the kernel of this machine."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading

import pytest

from compile_hud.runner.measure.compile import compiler as compiling
from compile_hud.runner.measure.compile.compiler import time_compilation
from compile_hud.runner.measure.compile.instructions import INSTRUCTIONS, InstructionCounter
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.resources import cpu_counters
from compile_hud.runner.measure.resources.cpu_counters import (
    SOFTWARE,
    CounterEvent,
    LinuxPerf,
    unavailable_reason,
)
from tests.support.fakes import FakeKernel

CPU = Device(kind="cpu", num_threads=1)
TASK_CLOCK, *_ = SOFTWARE


def test_the_instructions_of_a_compile_are_those_beyond_later_calls() -> None:
    kernel = FakeKernel(readings=[(9, 9, (50,)), (10, 10, (4050,)), (12, 12, (4750,))])
    times = time_compilation(lambda: None, device=CPU, kernel=kernel)
    assert times.instructions == 4000 - 700
    assert kernel.closed == [3]


def test_a_shared_counter_is_scaled_by_the_time_that_it_ran() -> None:
    counter = InstructionCounter(kernel=FakeKernel(readings=[(900, 300, (70,))]))
    assert counter.read() == 210
    counter.close()


def test_a_counter_that_never_ran_has_no_number_and_a_reason() -> None:
    kernel = FakeKernel(readings=[(900, 0, (0,))] * 3)
    times = time_compilation(lambda: None, device=CPU, kernel=kernel)
    assert times.instructions is None
    assert "turn" in times.missing_instructions


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES])
def test_a_refusal_is_the_reason_of_a_missing_number(number: int) -> None:
    kernel = FakeKernel(refused={INSTRUCTIONS.config: number})
    times = time_compilation(lambda: None, device=CPU, kernel=kernel)
    error = OSError(number, os.strerror(number))
    paranoid = cpu_counters.read_paranoid()
    assert times.instructions is None
    assert times.missing_instructions == cpu_counters.refusal_reason(error, paranoid=paranoid)


def test_a_reading_that_fails_costs_the_number_and_the_compile_goes_on() -> None:
    class Gone(FakeKernel):
        def read(self, leader: int, size: int) -> bytes:
            del leader, size
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    times = time_compilation(lambda: None, device=CPU, kernel=Gone())
    assert times.instructions is None
    assert times.missing_instructions


def counted(event: CounterEvent) -> float:
    counter = InstructionCounter(event=event)
    own = threading.Thread(target=lambda: sum(range(2_000_000)))
    own.start()
    own.join()
    thread_count = counter.read()
    subprocess.run([sys.executable, "-S", "-c", "sum(range(8_000_000))"], check=True)
    total = counter.read()
    counter.close()
    assert thread_count is not None
    assert total is not None
    assert thread_count > 0
    return total / thread_count


@pytest.mark.skipif(
    bool(unavailable_reason(TASK_CLOCK, kernel=LinuxPerf())), reason="no perf_event_open here"
)
def test_threads_and_ended_processes_are_counted_by_a_real_kernel() -> None:
    # This event needs no hardware counter. The process does four times the work of the thread.
    assert counted(TASK_CLOCK) > 2


@pytest.mark.skipif(
    bool(unavailable_reason(INSTRUCTIONS, kernel=LinuxPerf())), reason="no hardware counters here"
)
def test_instructions_of_threads_and_ended_processes_are_counted() -> None:
    assert counted(INSTRUCTIONS) > 3
    assert compiling.time_compilation(lambda: None, device=CPU).instructions is not None
