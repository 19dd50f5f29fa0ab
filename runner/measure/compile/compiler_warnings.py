"""The compiler's own warnings, as warnings of the result.

Dynamo, AOTAutograd and Inductor report by `warnings.warn` and by their loggers. Each known kind has
a code with a remedy; the others share one code. Deprecations are for the compiler's developers and
stay in the log, as everything does that is recorded here.
"""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch._inductor.virtualized import V

from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import one_line, shortened
from compile_hud.runner.measure.compile.source_locations import (
    GUARD_HINT,
    frames_in,
    short_location,
)
from compile_hud.runner.protocol.messages import LaunchReport

_TORCH_FOLDER = Path(torch.__file__).parent
# Folders of torch with its compiler, and the names that a reader knows them by.
_COMPONENTS = {
    "_dynamo": "Dynamo",
    "_inductor": "Inductor",
    "_functorch": "AOTAutograd",
    "_higher_order_ops": "AOTAutograd",
}
# Guards on symbolic shapes are made here, for Dynamo.
_LOGGERS = {f"torch.{folder}": name for folder, name in _COMPONENTS.items()} | {
    "torch.fx.experimental": "Dynamo"
}
# Inductor's log line about an operator without a lowering, at the level INFO.
_FALLBACK_LOGGER = "torch._inductor.graph"
_FALLBACK = re.compile(r"implicit fallback for:\s+(?:target: )?(?P<operator>[\w.:]+)")
_FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)
# A result shows as many texts of one code; the others are in the log.
MAX_TEXTS = 3
MAX_OPERATORS = 8
# A pass of Inductor has the node that it looks at a few frames above its warning.
MAX_FRAMES = 10
MAX_TEXT_CHARS = 300
_OTHER_CODE = "compiler-warning"
_FALLBACK_CODE = "operator-fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A warning that versions of torch word alike."""

    code: str
    pattern: str
    hint: str


_KINDS = (
    _Kind(
        code="complex-operators",
        pattern=r"complex operators|complex numbers",
        hint="Inductor leaves complex tensors to ATen: compute on torch.view_as_real of them",
    ),
    _Kind(
        code="tf32-off",
        pattern=r"TensorFloat32 tensor cores",
        hint="measure with --dtype tf32, which allows them to both sides",
    ),
    _Kind(
        code="no-gemm-templates",
        pattern=r"max_autotune_gemm mode",
        hint="this GPU is too small for Inductor's templates of matrix products: it calls a library"
        " for them",
    ),
    _Kind(
        code="online-softmax-off",
        pattern=r"[Oo]nline softmax is disabled",
        hint="the softmax reads its input once more; TORCH_LOGS=inductor shows where",
    ),
    _Kind(
        code="recompile-limit",
        pattern=r"hit config\.\w*(?:recompile_limit|cache_size_limit)",
        hint=f"{GUARD_HINT}; TORCH_LOGS=recompiles shows each",
    ),
    _Kind(
        code="scalar-graph-break",
        pattern=r"Graph break (?:from|due to) `?Tensor\.item",
        hint="keep the number in a tensor, or set torch._dynamo.config.capture_scalar_outputs",
    ),
    _Kind(
        code="frame-not-compiled",
        pattern=r"WON'T CONVERT|Dynamo failed to run|does not support bfloat16 compilation",
        hint="the function ran eagerly; TORCH_LOGS=graph_breaks shows why",
    ),
    _Kind(
        code="cudagraphs-slow-path",
        pattern=r"Unable to hit fast path of CUDAGraphs",
        hint="call backward before the next forward, or detach the outputs",
    ),
    _Kind(
        code="cudagraphs-many-sizes",
        pattern=r"CUDAGraph supports dynamic shapes by recording",
        hint="pad the inputs to a few sizes, or measure a mode without CUDA graphs",
    ),
    _Kind(
        code="autotuning-failed",
        pattern=r"[Ff]ailed to benchmark choice|[Tt]imed out benchmarking|[Pp]recompilation timeout"
        r"|autotuning benchmarks failed|due to timeout",
        hint="these choices were not compared, and one of them may be faster; see the log",
    ),
    _Kind(
        code="cache-not-written",
        pattern=r"cache unable to (?:serialize|load)|unable to write to cache"
        r"|Failed to pickle cache key|_stable_hash_for_caching",
        hint="the next start compiles again: a warm compile time says little",
    ),
    _Kind(
        code="custom-op-aliases",
        pattern=r"(?s)custom op.*alias|aliasing constraint",
        hint="clone what the operator returns: a later torch raises an error here",
    ),
)
# Other warnings of a result report the first with more detail; the others concern no number.
_LEFT_OUT = re.compile(r"skipping cudagraphs|SubprocPool|debug_str\(\)|debug trace|dynamo_pgo")
_OTHER_HINT = "the compiler's own words; the log has them with their place in torch"
_FALLBACK_HINT = "Inductor has no code for them: ATen runs each, and nothing fuses with it"


@dataclass(slots=True)
class CompilerWarnings:
    """The texts of the compiler so far, by code, in the order of their first appearance."""

    texts: dict[str, list[str]] = field(default_factory=dict)

    def record(self, component: str, text: str, *, location: str = "") -> None:
        """Record a warning of `component` about the line `location` of the model."""
        if _LEFT_OUT.search(text):
            return
        kind = next((kind for kind in _KINDS if re.search(kind.pattern, text)), None)
        code = _OTHER_CODE if kind is None else kind.code
        shown = shortened(one_line(text), limit=MAX_TEXT_CHARS)
        self._add(code, f"{component}: {shown}", location=location)

    def record_fallback(self, text: str, *, location: str = "") -> None:
        """Record the operator that Inductor's log line `text` leaves to ATen."""
        match = _FALLBACK.search(text)
        if match is not None:
            self._add(_FALLBACK_CODE, match["operator"], location=location)

    def _add(self, code: str, text: str, *, location: str) -> None:
        texts = self.texts.setdefault(code, [])
        if location:
            text += f" (at {location})"
        if text not in texts:
            texts.append(text)

    def warnings(self, *, without: Collection[str] = ()) -> tuple[RunWarning, ...]:
        """Return a warning for each code but those of `without`, which the launch reports."""
        hints = {kind.code: kind.hint for kind in _KINDS}
        hints |= {_OTHER_CODE: _OTHER_HINT, _FALLBACK_CODE: _FALLBACK_HINT}
        return tuple(
            RunWarning(code=code, text=_joined(code, texts), hint=hints[code])
            for code, texts in self.texts.items()
            if code not in without
        )


def with_compiler_warnings(run: Callable[[], LaunchReport]) -> LaunchReport:
    """Return the report of `run`, with the compiler's warnings whatever its outcome is."""
    with recorded_warnings() as recorder:
        report = run()
    codes = {warning.code for warning in report.warnings}
    return replace(report, warnings=(*report.warnings, *recorder.warnings(without=codes)))


@contextmanager
def recorded_warnings() -> Iterator[CompilerWarnings]:
    """Record the compiler's warnings during the block; Python and the loggers report them too."""
    recorder = CompilerWarnings()
    handlers = [
        (logging.getLogger(name), _Handler(recorder, component=component))
        for name, component in _LOGGERS.items()
    ]
    graph_log = logging.getLogger(_FALLBACK_LOGGER)
    level = graph_log.level
    fallbacks = _FallbackFilter(recorder, is_reported=graph_log.isEnabledFor(logging.INFO))
    show = warnings.showwarning

    def record_and_show(
        message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any
    ) -> None:
        component = _component(inspect.currentframe())
        if component and not issubclass(category, _FOR_DEVELOPERS):
            recorder.record(component, str(message), location=_location())
        show(message, category, *args, **kwargs)

    for logger, handler in handlers:
        logger.addHandler(handler)
    graph_log.addFilter(fallbacks)
    if not fallbacks.is_reported:
        graph_log.setLevel(logging.INFO)
    warnings.showwarning = record_and_show
    try:
        yield recorder
    finally:
        warnings.showwarning = show
        graph_log.setLevel(level)
        graph_log.removeFilter(fallbacks)
        for logger, handler in handlers:
            logger.removeHandler(handler)


class _Handler(logging.Handler):
    """Records what a logger of the compiler reports as a warning or worse."""

    def __init__(self, recorder: CompilerWarnings, *, component: str) -> None:
        super().__init__(level=logging.WARNING)
        self._recorder = recorder
        self._component = component

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "avail_sms" in record.__dict__:
            # torch hides these two numbers from its text.
            text += f": {record.__dict__['avail_sms']} of {record.__dict__.get('min_sms', '?')}"
        self._recorder.record(self._component, text, location=_location())


class _FallbackFilter(logging.Filter):
    """Records the operators without a lowering, and hides such lines unless the user wants them."""

    def __init__(self, recorder: CompilerWarnings, *, is_reported: bool) -> None:
        super().__init__()
        self._recorder = recorder
        self.is_reported = is_reported

    def filter(self, record: logging.LogRecord) -> bool:
        if "implicit fallback" in str(record.msg):
            self._recorder.record_fallback(record.getMessage(), location=_location())
        return self.is_reported or record.levelno > logging.INFO


def _component(frame: FrameType | None) -> str:
    """Return the part of the compiler whose code called warnings.warn, empty for other code.

    The file that a warning names may be the caller's; the frames of the stack cannot mislead.
    """
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name not in ("warnings", "_py_warnings", __name__):
            break
        frame = frame.f_back
    if frame is None:
        return ""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(_TORCH_FOLDER):
        return ""
    return _COMPONENTS.get(path.relative_to(_TORCH_FOLDER).parts[0], "")


def _location() -> str:
    """Return the line of the model that is compiled: `net.py:11 in forward`; empty for none."""
    for node in _nodes():
        # An input of the graph has no line of its own: its first reader has.
        for item in (node, *getattr(node, "users", ())):
            if trace := getattr(item, "stack_trace", None):
                return short_location(frames_in(trace))
    context = getattr(torch._guards, "TracingContext", None)
    extract = getattr(context, "extract_stack", None)
    return "" if extract is None else short_location(list(extract()))


def _nodes() -> Iterator[object]:
    """Yield the node of the graph that Inductor lowers, and those that its passes look at."""
    yield getattr(V.graph, "current_node", None)
    frame = inspect.currentframe()
    for _ in range(MAX_FRAMES):
        frame = None if frame is None else frame.f_back
        if frame is not None and isinstance(node := frame.f_locals.get("node"), torch.fx.Node):
            yield node


def _joined(code: str, texts: Sequence[str]) -> str:
    """Return the first texts, and the number of the others."""
    if code != _FALLBACK_CODE:
        num_more = len(texts) - MAX_TEXTS
        end = f"; {num_more} more in the log" if num_more > 0 else ""
        return "; ".join(texts[:MAX_TEXTS]) + end
    num_more = len(texts) - MAX_OPERATORS
    end = f", {num_more} more" if num_more > 0 else ""
    return f"operators without a lowering: {', '.join(texts[:MAX_OPERATORS])}{end}"
