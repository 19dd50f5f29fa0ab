"""Hits, misses and bypasses of the compile caches: metrics, details and warnings of a launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from compile_hud.db.records.metrics import (
    CACHE_EVENTS,
    CACHES,
    COMPILE_CACHES,
    cache_metric,
)
from compile_hud.db.shared.text import plural
from compile_hud.runner.measure.compile.cache_log import CacheReason, read_keys, write_keys
from compile_hud.runner.measure.compile.dynamo import CompileCounts
from compile_hud.runner.measure.context import Context

# The file of the first launch's keys, next to the cache folders of the launches.
KEYS_NAME = "cache-keys.json"
_PERMANENT = "permanent: each start compiles them again"
_MAX_REASONS = 3


def is_filled_cache_hit(cache: Mapping[str, int]) -> bool:
    """Return whether no graph was compiled anew for want of an entry."""
    # A single recompiled graph takes as long as all the cached ones together.
    if cache.get("fxgraph_misses", 0):
        return False
    # An entry of AOTAutograd's cache can have the generated code in it.
    is_bundled = cache.get("aotautograd_hits", 0) > 0 and not cache.get("fxgraph_bypasses", 0)
    return cache.get("fxgraph_hits", 0) > 0 or is_bundled


def report_caches(context: Context, *, counts: CompileCounts) -> None:
    """Report the look-ups of the launch's caches, with the reasons of misses and bypasses."""
    request, findings = context.request, context.findings
    if request.case.backend != "inductor" or counts.num_graphs == 0:
        return
    state, cache = request.cache_state, counts.cache
    # A launch from artifacts has details alone.
    if state in CACHES:
        for name in COMPILE_CACHES:
            method = f"torch's counters of {COMPILE_CACHES[name]} during the first calls"
            for event in CACHE_EVENTS:
                number = float(cache.get(f"{name}_{event}", 0))
                findings.add(cache_metric(name, state=state, event=event), (number,), method=method)
    # Without a cache of its own the launch has no first one to be compared with.
    path = Path(request.cache_dir).with_name(KEYS_NAME) if request.cache_dir else None
    is_filled = state != "cold"
    reasons = context.caches.reasons(cache, first=read_keys(path) if is_filled and path else {})
    if not is_filled:
        if path:
            write_keys(context.caches, path)
        # An empty cache misses everything.
        reasons = [reason for reason in reasons if reason.event == "bypass"]
    findings.details["compile"]["cache_reasons"] = [
        dataclasses.asdict(reason) for reason in reasons
    ]
    _warn_of_bypasses(context, cache=cache, reasons=reasons)
    if is_filled:
        _warn_of_misses(context, cache=cache, reasons=reasons)


def _warn_of_bypasses(
    context: Context, *, cache: Mapping[str, int], reasons: Sequence[CacheReason]
) -> None:
    bypassed = [name for name in COMPILE_CACHES if cache.get(f"{name}_bypasses")]
    if not bypassed:
        return
    texts = [
        f"{COMPILE_CACHES[name]} was bypassed {_share(cache, name, 'bypasses')}"
        for name in bypassed
    ]
    reasons = [reason for reason in reasons if reason.event == "bypass"]
    end = "" if cache.get("fxgraph_misses") else _missing_time(context, cache=cache)
    context.findings.warn(
        "cache-bypass",
        f"{', '.join(texts)}: {_reasons_text(reasons)} ({_PERMANENT}){end}",
        hint=_remedies_text(reasons),
    )


def _warn_of_misses(
    context: Context, *, cache: Mapping[str, int], reasons: Sequence[CacheReason]
) -> None:
    missed = [name for name in COMPILE_CACHES if cache.get(f"{name}_misses")]
    state = context.request.cache_state
    reasons = [reason for reason in reasons if reason.event == "miss"]
    end = _missing_time(context, cache=cache)
    if not missed:
        if end and not cache.get("fxgraph_bypasses"):
            context.findings.warn(
                "cache-miss",
                f"no graph was looked up in the filled compile cache (launch with {state} cache)"
                f"{end}",
                hint="unset TORCHINDUCTOR_FORCE_DISABLE_CACHES, and see which graphs compile at"
                " all with TORCH_LOGS=+torch._inductor.codecache",
            )
        return
    texts = [f"{COMPILE_CACHES[name]} missed {_share(cache, name, 'misses')}" for name in missed]
    permanence = _PERMANENT if any(reason.is_permanent for reason in reasons) else "not permanent"
    context.findings.warn(
        "cache-miss",
        f"the filled compile cache was not hit (launch with {state} cache): {', '.join(texts)}:"
        f" {_reasons_text(reasons)} ({permanence}){end}",
        hint=_remedies_text(reasons),
    )


def _missing_time(context: Context, *, cache: Mapping[str, int]) -> str:
    """Return the end of a warning that says that a filled cache gave no compile time."""
    state = context.request.cache_state
    return "" if state == "cold" or is_filled_cache_hit(cache) else f": no {state} compile time"


def _share(cache: Mapping[str, int], name: str, event: str) -> str:
    total = sum(cache.get(f"{name}_{other}", 0) for other in CACHE_EVENTS)
    return f"{cache[f'{name}_{event}']} of {total} {plural(total, 'time')}"


def _reasons_text(reasons: Sequence[CacheReason]) -> str:
    texts = list(dict.fromkeys(reason.reason for reason in reasons))
    more = f"; {len(texts) - _MAX_REASONS} more" if len(texts) > _MAX_REASONS else ""
    return "; ".join(texts[:_MAX_REASONS]) + more


def _remedies_text(reasons: Sequence[CacheReason]) -> str:
    return "; ".join(dict.fromkeys(reason.remedy for reason in reasons))
