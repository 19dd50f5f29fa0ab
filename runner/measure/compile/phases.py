"""Phases of a compilation, from the nested events that torch reports.

Each moment between the start and the end of a compilation belongs to the phase of the innermost
event with a phase. Phases therefore never overlap, and add up to the time of the compilations.
Events outside of a compilation, such as those of a compiler's own threads, are not counted: the
caller does not wait for them. This module imports no torch.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

DYNAMO, AOT, INDUCTOR, BACKEND = "dynamo", "aot", "inductor", "backend"
AUTOTUNE, CUDAGRAPHS = "autotune", "cudagraphs"

_BACKWARD = "entire_backward_compile"
# An event begins a compilation when it is the outermost one and has one of these names. Triton
# kernels may be compiled and tuned, and CUDA graphs recorded, while the compiled function runs.
_ROOTS = {
    "entire_frame_compile": DYNAMO,
    # A backward that is compiled when it is first needed, outside of Dynamo.
    _BACKWARD: AOT,
    "CachingAutotuner.slow_precompile_config": BACKEND,
    "CachingAutotuner.benchmark_all_configs": AUTOTUNE,
    "CachingAutotuner.coordinate_descent_tuning": AUTOTUNE,
    "CachingAutotuner.combo_sequential_autotune": AUTOTUNE,
    "CUDAGraphNode.record": CUDAGRAPHS,
}
_PHASE_OF = {
    **_ROOTS,
    # PyTorch counts it so too: everything between Dynamo and Inductor, with the look-up of cached
    # graphs.
    "backend_compile": AOT,
    "create_aot_dispatcher_function": AOT,
    # This is Inductor's own work; AOTAutograd calls back for some of it.
    "inductor_import": INDUCTOR,
    "_recursive_pre_grad_passes": INDUCTOR,
    "_recursive_joint_graph_passes": INDUCTOR,
    "compile_fx.<locals>.fw_compiler_base": INDUCTOR,
    "compile_fx.<locals>.bw_compiler": INDUCTOR,
    "inductor_compile": INDUCTOR,
    "AOTAutogradCache.inductor_load": INDUCTOR,
    # Importing the generated module starts the compiler of its kernels and waits for it.
    "PyCodeCache.load_by_key_path": BACKEND,
    "async_compile.wait": BACKEND,
    "async_compile.precompile": BACKEND,
    "compile_file": BACKEND,
}
_PHASE_OF_SUFFIX = {"_template_precompiling": BACKEND, "_template_autotuning": AUTOTUNE}


def phase_of(name: str) -> str | None:
    """Return the phase that event `name` begins, None if it belongs to the enclosing one."""
    if name in _PHASE_OF:
        return _PHASE_OF[name]
    return next(
        (phase for suffix, phase in _PHASE_OF_SUFFIX.items() if name.endswith(suffix)), None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileKey:
    """A compilation: torch's id of it, `0/1` for the first recompile, and its direction.

    A backward that is compiled when it is first needed has the id of its forward. The id is empty
    for work that torch assigns to no compilation.
    """

    compile_id: str
    is_backward: bool


@dataclass(slots=True)
class _Stack:
    """The open events of one thread: name and phase of each, and when time was last booked."""

    events: list[tuple[str, str]] = field(default_factory=list)
    booked_until_s: float = 0.0
    key: CompileKey = field(default_factory=lambda: CompileKey(compile_id="", is_backward=False))


class CompileClock:
    """Assigns the time of compilations to phases as their events begin and end, in wall seconds."""

    def __init__(self, *, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._stacks: dict[int, _Stack] = {}
        self.phases_s: dict[str, float] = {}
        # The same seconds by compilation, in the order in which these began.
        self.phases_of_s: dict[CompileKey, dict[str, float]] = {}
        self._began: list[tuple[str, float]] = []

    def begin(self, name: str, *, compile_id: str = "") -> None:
        """Note that event `name` of a compilation began in this thread."""
        stack = self._stacks.setdefault(threading.get_ident(), _Stack())
        if not stack.events and name not in _ROOTS:
            return
        now_s = self._book(stack)
        phase = phase_of(name) or stack.events[-1][1]
        if not stack.events:
            self._began.append((phase, now_s))
            stack.key = CompileKey(compile_id=compile_id, is_backward=name == _BACKWARD)
        stack.events.append((name, phase))
        self.phases_s.setdefault(phase, 0.0)
        self.phases_of_s.setdefault(stack.key, {}).setdefault(phase, 0.0)

    def end(self, name: str) -> None:
        """Note that event `name` ended in this thread."""
        stack = self._stacks.get(threading.get_ident())
        if stack is None or name not in [open_name for open_name, _ in stack.events]:
            return
        self._book(stack)
        while stack.events.pop()[0] != name:
            pass

    def num_compiles(self, *, since_s: float = -math.inf, until_s: float = math.inf) -> int:
        """Return the number of Dynamo's or AOTAutograd's compilations between two times."""
        return self._num_begun((DYNAMO, AOT), since_s=since_s, until_s=until_s)

    def num_recordings(self, *, since_s: float = -math.inf, until_s: float = math.inf) -> int:
        """Return the number of recorded CUDA graphs between two times."""
        return self._num_begun((CUDAGRAPHS,), since_s=since_s, until_s=until_s)

    def _num_begun(self, phases: tuple[str, ...], *, since_s: float, until_s: float) -> int:
        return sum(phase in phases and since_s <= at_s <= until_s for phase, at_s in self._began)

    def _book(self, stack: _Stack) -> float:
        now_s = self._now_s()
        if stack.events:
            phase, time_s = stack.events[-1][1], now_s - stack.booked_until_s
            self.phases_s[phase] += time_s
            self.phases_of_s[stack.key][phase] += time_s
        stack.booked_until_s = now_s
        return now_s
