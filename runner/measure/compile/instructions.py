"""Instructions of a compilation: of this thread and of every process that it starts.

A neighbour stretches seconds, and a shared cache also CPU time. The number of instructions depends
on the work alone. Threads and processes that ran before are not counted: the worker threads of
autograd on CUDA, and compilers that live on between compilations.
"""

from __future__ import annotations

from compile_hud.runner.measure.resources.cpu_counters import (
    HARDWARE,
    CounterEvent,
    FamilyCounter,
    LinuxPerf,
    PerfInterface,
    open_family,
    read_paranoid,
    refusal_reason,
)

INSTRUCTIONS = next(event for event in HARDWARE if event.name == "instructions")
_NEVER_RAN = "its turn never came: something else uses the counters (a profiler, the watchdog)"


class InstructionCounter:
    """Counts from its construction to `close`; `missing` is the reason where it cannot."""

    def __init__(
        self, *, kernel: PerfInterface | None = None, event: CounterEvent = INSTRUCTIONS
    ) -> None:
        self.missing = ""
        self._counter: FamilyCounter | None = None
        try:
            self._counter = open_family(event, kernel=kernel or LinuxPerf())
        except OSError as error:
            self.missing = refusal_reason(error, paranoid=read_paranoid())

    def read(self) -> float | None:
        """Return the instructions so far, None where they are not counted."""
        if self._counter is None:
            return None
        try:
            reading = self._counter.read()
        except OSError as error:
            self.missing = refusal_reason(error, paranoid=read_paranoid())
            return None
        if reading.running_ns == 0:
            self.missing = _NEVER_RAN
            return None
        # The kernel shares few counters between many events, and says how long each ran.
        return reading.values[0] * reading.enabled_ns / reading.running_ns

    def close(self) -> None:
        """Stop counting."""
        if self._counter is not None:
            self._counter.close()
