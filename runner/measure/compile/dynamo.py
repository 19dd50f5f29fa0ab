"""The counters of Dynamo and Inductor about a compilation.

These counters are private and change between torch versions. Only this file reads them, and a
counter that this torch lacks is None.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo.utils as dynamo_utils

from compile_hud.runner.measure.compile.cache_log import CacheLog, recorded_texts
from compile_hud.runner.measure.compile.phases import CompileClock, CompileKey
from compile_hud.runner.measure.compile.source_locations import (
    MAX_LOCATIONS,
    CodeLocation,
    failure_reason,
    limit_reason,
    location_of_break,
    location_of_recompile,
    location_of_skip,
    shorten,
)

# A model that recompiles at each call has thousands; the longest say most.
MAX_LISTED = 64
# Dynamo keeps the metrics of its last 64 compilations only; a model that recompiles has more.
MAX_COMPILATIONS = 4096
_TORCH_FOLDER = str(Path(torch.__file__).parent)
_GUARD_KIND = re.compile(r"^[| ]*\+- ([A-Z][A-Z_]+): ", re.MULTILINE)
# Texts in which versions of torch report that a frame was compiled too often.
_LIMIT_TEXTS = ("recompile limit", "recompile_limit", "cache_size_limit")
# torch's error where a frame must not run eagerly beyond the limit, as with fullgraph.
_LIMIT_ERROR = "FailOnRecompileLimitHit"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCounts:
    """The counts since the last reset."""

    num_graphs: int
    num_graph_breaks: int
    num_recompiles: int
    num_autotuned: int
    num_cudagraph_skips: int
    cudagraph_skip_reasons: tuple[str, ...]
    graph_breaks: tuple[CodeLocation, ...] = ()
    recompiles: tuple[CodeLocation, ...] = ()
    # Dynamo gave up on these frames after too many recompiles; calls of them may run eagerly.
    at_limit: tuple[CodeLocation, ...] = ()
    # Dynamo runs these functions eagerly, as a whole.
    skipped: tuple[CodeLocation, ...] = ()
    # Hits, misses and bypasses of Inductor's and AOTAutograd's caches of graphs.
    cache: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilationRecord:
    """One compilation: wall seconds by phase, its function, and the guard that failed before it.

    The numbers of operators and guards are those of the forward; None if torch has none.
    """

    compile_id: str
    is_backward: bool
    phases_s: Mapping[str, float]
    function: str
    file: str
    line: int | None
    reason: str
    failure: str
    num_ops: int | None
    num_guards: int | None

    @property
    def total_s(self) -> float:
        """Return the seconds of all phases."""
        return sum(self.phases_s.values())


def reset() -> None:
    """Forget every compiled function and every counter."""
    torch._dynamo.reset()
    forget_counts()


def forget_counts() -> None:
    """Reset every counter; compiled code stays."""
    dynamo_utils.counters.clear()
    clear = getattr(dynamo_utils, "clear_compilation_metrics", None)
    if clear is not None:
        clear()
    set_limit = getattr(dynamo_utils, "set_compilation_metrics_limit", None)
    if set_limit is not None:
        set_limit(MAX_COMPILATIONS)


@contextmanager
def recorded_compiles(clock: CompileClock, caches: CacheLog | None = None) -> Iterator[None]:
    """Report every compilation event to `clock` and look-ups to `caches` during the block.

    Both stay empty if this torch reports no events.
    """
    log = CacheLog() if caches is None else caches
    with recorded_texts(log), _recorded_events(clock, log):
        yield


@contextmanager
def _recorded_events(clock: CompileClock, caches: CacheLog) -> Iterator[None]:
    get_logger = getattr(dynamo_utils, "get_chromium_event_logger", None)
    logger = None if get_logger is None else get_logger()
    start = getattr(logger, "log_event_start", None)
    end = getattr(logger, "log_event_end", None)
    instant = getattr(logger, "log_instant_event", lambda *_args, **_kwargs: None)
    if start is None or end is None:
        yield
        return

    def on_start(event_name: str, *args: Any, **kwargs: Any) -> None:
        clock.begin(event_name, compile_id=_compile_id(kwargs.get("compile_id")))
        start(event_name, *args, **kwargs)

    def on_end(event_name: str, *args: Any, **kwargs: Any) -> None:
        end(event_name, *args, **kwargs)
        clock.end(event_name)

    def on_instant(
        event_name: str, time_ns: int, metadata: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        caches.record_event(event_name, metadata or {})
        instant(event_name, time_ns, metadata, *args, **kwargs)

    # The methods of the instance are replaced, so that removing them restores the class's own.
    logger.__dict__.update(
        log_event_start=on_start, log_event_end=on_end, log_instant_event=on_instant
    )
    try:
        yield
    finally:
        for name in ("log_event_start", "log_event_end", "log_instant_event"):
            del logger.__dict__[name]


def _compile_id(stated: object) -> str:
    """Return the id of the compilation in progress, empty without one."""
    context = getattr(torch._guards, "CompileContext", None)
    current = getattr(context, "current_compile_id", None)
    compile_id = stated or (None if current is None else current())
    return "" if compile_id is None else str(compile_id)


def read_compilations(clock: CompileClock) -> list[CompilationRecord]:
    """Return the compilations that `clock` recorded, the function of each and the failed guard.

    Compilations beyond MAX_LISTED are left out: the ones that took the shortest.
    """
    metrics = {str(item.compile_id): item for item in reversed(_forward_metrics())}
    compilations = [
        _compilation(key, phases_s=phases_s, item=metrics.get(key.compile_id))
        for key, phases_s in clock.phases_of_s.items()
    ]
    least_s = sorted((item.total_s for item in compilations), reverse=True)[:MAX_LISTED][-1:]
    return [item for item in compilations if item.total_s >= least_s[0]][:MAX_LISTED]


def _forward_metrics() -> list[Any]:
    return [
        item
        for item in _compilation_metrics()
        if getattr(item, "compile_id", None) and getattr(item, "is_forward", True) is not False
    ]


def _compilation(key: CompileKey, *, phases_s: Mapping[str, float], item: Any) -> CompilationRecord:
    recompile = None if not _text(item, "recompile_reason") else _recompile(item)
    return CompilationRecord(
        compile_id=key.compile_id,
        is_backward=key.is_backward,
        phases_s=dict(phases_s),
        function=_text(item, "co_name") or "",
        file=_text(item, "co_filename") or "",
        line=getattr(item, "co_firstlineno", None),
        reason=recompile.reason if recompile is not None else "",
        failure=_text(item, "fail_type") or "",
        num_ops=getattr(item, "graph_op_count", None),
        num_guards=getattr(item, "guard_count", None),
    )


def read_counts() -> CompileCounts:
    """Return the counts since the last `reset` or `forget_counts`."""
    counters = dynamo_utils.counters
    inductor = counters["inductor"]
    breaks = counters["graph_break"]
    metrics = _compilation_metrics()
    recompiled = [item for item in metrics if _text(item, "recompile_reason")]
    # The attempt at which Dynamo gives up has a reason, and no graph.
    at_limit = [item for item in recompiled if _is_at_limit(item)]
    skips = [reason for item in metrics if (reason := _text(item, "cudagraph_skip_reason"))]
    skipped = [item for item in metrics if _text(item, "fail_type") and not _is_at_limit(item)]
    return CompileCounts(
        num_graphs=int(counters["stats"]["unique_graphs"]),
        num_graph_breaks=sum(int(count) for count in breaks.values()),
        num_recompiles=sum(not _text(item, "fail_type") for item in recompiled),
        num_autotuned=int(inductor["select_algorithm_autotune"]),
        num_cudagraph_skips=int(inductor["cudagraph_skips"]),
        cudagraph_skip_reasons=tuple(map(shorten, skips[:MAX_LOCATIONS])),
        graph_breaks=_graph_breaks([str(reason) for reason in breaks]),
        recompiles=tuple(map(_recompile, recompiled[:MAX_LOCATIONS])),
        at_limit=tuple(map(_recompile, at_limit[:MAX_LOCATIONS])),
        skipped=tuple(map(_skip, skipped[:MAX_LOCATIONS])),
        cache={
            f"{name}_{event}": int(counted[f"{prefix}_{counter}"])
            for name, counted, prefix in (
                ("fxgraph", inductor, "fxgraph_cache"),
                ("aotautograd", counters["aot_autograd"], "autograd_cache"),
            )
            for event, counter in (("hits", "hit"), ("misses", "miss"), ("bypasses", "bypass"))
        },
    )


def compile_failure_reason(error: BaseException, *, location: str = "") -> str:
    """Return `failure_reason`; beyond the recompile limit it names the guard that failed last.

    torch's own message names neither the guard nor its line.
    """
    text = f"{type(error).__name__} {error}"
    if _LIMIT_ERROR in text or any(limit in text for limit in _LIMIT_TEXTS):
        counts = read_counts()
        # Older versions of torch leave the failed compilation out of the metrics.
        last = (*counts.recompiles, *counts.at_limit)[-1:]
        if last:
            limit = getattr(torch._dynamo.config, "recompile_limit", None)
            return limit_reason(
                type(error).__name__, last[0], num_recompiles=counts.num_recompiles, limit=limit
            )
    return failure_reason(error, location=location)


def read_guard_kinds() -> dict[str, int] | None:
    """Return the number of installed guards by kind; None if this torch does not expose them.

    These are the leaves of the guard trees of all compiled frames, which a call evaluates.
    """
    try:
        from torch._dynamo.convert_frame import input_codes
        from torch._dynamo.eval_frame import _debug_get_cache_entry_list
    except ImportError:
        return None
    seen = getattr(input_codes, "seen", None)
    if seen is None:
        return None
    codes = {id(code): code for reference in seen if (code := reference()) is not None}
    kinds: Counter[str] = Counter()
    for code in codes.values():
        for entry in _debug_get_cache_entry_list(code):
            manager = getattr(entry, "guard_manager", None)
            if manager is None:
                return None
            kinds.update(_GUARD_KIND.findall(str(manager)))
    return dict(sorted(kinds.items()))


def has_recorded_cudagraphs() -> bool | None:
    """Return whether this process has recorded a CUDA graph; None if torch does not expose it."""
    num_recorded = num_recorded_cudagraphs()
    return None if num_recorded is None else num_recorded > 0


def num_recorded_cudagraphs() -> int | None:
    """Return the number of CUDA graphs that this process recorded; None if torch hides it."""
    try:
        from torch._inductor import cudagraph_trees
    except ImportError:
        return None
    get_manager = getattr(cudagraph_trees, "get_manager", None)
    if get_manager is None:
        return None
    manager = get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    if manager is None:
        return 0
    get_roots = getattr(manager, "get_roots", None)
    return None if get_roots is None else sum(map(_num_nodes, get_roots()))


def _num_nodes(node: Any) -> int:
    children = getattr(node, "children", {})
    return 1 + sum(_num_nodes(child) for nodes in children.values() for child in nodes)


def _compilation_metrics() -> list[Any]:
    get_metrics = getattr(dynamo_utils, "get_compilation_metrics", None)
    return [] if get_metrics is None else list(get_metrics())


def _graph_breaks(reasons: list[str]) -> tuple[CodeLocation, ...]:
    breaks = getattr(dynamo_utils, "graph_break_reasons", [])
    places = [
        location_of_break(
            str(item.reason), frames=getattr(item, "user_stack", ()), not_below=_TORCH_FOLDER
        )
        for item in breaks
        if getattr(item, "graph_break", True)
    ]
    known = {location.reason for location in places}
    counted = [location_of_break(reason) for reason in reasons]
    return tuple(
        [*places, *(location for location in counted if location.reason not in known)][
            :MAX_LOCATIONS
        ]
    )


def _recompile(item: Any) -> CodeLocation:
    return location_of_recompile(
        str(item.recompile_reason),
        frame=CodeLocation(
            reason="",
            file=_text(item, "co_filename"),
            line=getattr(item, "co_firstlineno", None),
            function=_text(item, "co_name"),
        ),
    )


def _skip(item: Any) -> CodeLocation:
    return location_of_skip(
        str(_text(item, "fail_reason") or _text(item, "fail_type")),
        file=_text(item, "fail_user_frame_filename") or _text(item, "co_filename"),
        line=getattr(item, "fail_user_frame_lineno", None),
        function=_text(item, "co_name"),
    )


def _is_at_limit(item: object) -> bool:
    if _text(item, "fail_type") == _LIMIT_ERROR:
        return True
    failure = (_text(item, "fail_reason") or "").lower()
    return any(text in failure for text in _LIMIT_TEXTS)


def _text(item: object, name: str) -> str | None:
    value = getattr(item, name, None)
    return None if not value else str(value)
