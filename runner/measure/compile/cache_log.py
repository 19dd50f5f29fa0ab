"""Reasons for which graphs were not loaded from the caches of Inductor and AOTAutograd.

A bypass has a reason in torch's log. A miss has none: torch knows no other key to compare with. The
first launch therefore leaves the parts of its keys in a file, and a later launch with a miss names
the parts that differ. This module imports no torch.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from compile_hud.db.records.metrics import COMPILE_CACHES
from compile_hud.db.shared.text import one_line, shortened

FXGRAPH, AOTAUTOGRAD = COMPILE_CACHES
LOGGERS = {
    "torch._inductor.codecache": FXGRAPH,
    "torch._functorch._aot_autograd.autograd_cache": AOTAUTOGRAD,
}
_BYPASS = re.compile(
    r"Bypassing (?:autograd cache due to:|FX Graph Cache because) *(?P<reason>.*)", re.DOTALL
)
_NOT_WRITTEN = re.compile(r"unable to (?:serialize|write)")
_EVENTS = {"fx_graph_cache_miss": FXGRAPH, "autograd_cache_miss": AOTAUTOGRAD}
# A line of a key is `[hash of the part] name: value`. The value may show an address, which the hash
# leaves out.
_PART = re.compile(r"\[(?P<hash>\w+)\] (?P<name>[^:]+): (?P<value>.*)", re.DOTALL)
MAX_REASON_CHARS = 300
MAX_PARTS = 3
MAX_VALUE_CHARS = 60
_GUARDS_DIFFER = "an entry has this key, and its guards on sizes do not hold"
_NEVER_WRITTEN = "the key is that of the first launch, which wrote no entry"
_NO_KEYS = "the keys of the first launch are not known"
_NO_PARTS = "its key differs from those of the first launch, and torch lists no parts of it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReason:
    """The reason of a miss or a bypass; a permanent one holds at every start."""

    cache: str
    event: str
    reason: str
    is_permanent: bool
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remedy:
    pattern: str
    text: str


_REMEDIES = (
    _Remedy(
        pattern=r"custom pass|_pre_fusion_custom_pass|_post_fusion_custom_pass|ddp_communication",
        text="make the pass a torch._inductor.custom_graph_pass.CustomGraphPass with a uuid()",
    ),
    _Remedy(
        pattern=r"(?i)higher ?order ?operator|torch\.ops\.higher_order",
        text="this torch cannot store this operator: call the code outside of it, or wait for a"
        " torch that can",
    ),
    _Remedy(
        pattern=r"autograd\.Function|autograd_function|ApplyTemplate",
        text="set torch._functorch.config.autograd_cache_allow_custom_autograd_functions, or"
        " register the operator with torch.library.custom_op",
    ),
    _Remedy(
        pattern=r"Unsupported call_function|Unsupported call_method|torchbind",
        text="register the function with torch.library.custom_op, or mark it with"
        " torch.compiler.allow_in_graph and a cache hash",
    ),
    _Remedy(
        pattern=r"[Pp]ickle|pickl|serializ|Reduce unsupported|stable cache key",
        text="keep objects without a stable pickle out of the graph: lambdas, closures, handles",
    ),
    _Remedy(
        pattern=r"freezing|frozen|constant folding",
        text="freezing puts weights into the code: measure without it, or start from AOTInductor",
    ),
    _Remedy(
        pattern=r"not enabled|disabled",
        text="unset TORCHINDUCTOR_FORCE_DISABLE_CACHES and set"
        " torch._inductor.config.fx_graph_cache",
    ),
    _Remedy(
        pattern=r"cache_hash attribute",
        text="give the context function of the checkpoint a `cache_hash`",
    ),
    _Remedy(
        pattern=r"uuid\(\)",
        text="give the object a uuid() that does not change between processes",
    ),
)
_OTHER_REMEDY = (
    "TORCH_LOGS=+torch._inductor.codecache,+torch._functorch._aot_autograd.autograd_cache shows"
    " the graph"
)
_KEY_REMEDY = "make these values the same at each start: a counter, an address or a time is not"
_WARM_UP_REMEDY = "warm the cache up with the same sizes, or mark them dynamic"


@dataclass(slots=True)
class CacheLog:
    """The texts about bypasses and unwritten entries, and the keys that were missed."""

    bypasses: dict[str, list[str]] = field(default_factory=dict)
    unwritten: dict[str, list[str]] = field(default_factory=dict)
    # The parts of each missed key, by cache and key.
    missed: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    guard_misses: set[str] = field(default_factory=set)

    def record_event(self, name: str, metadata: Mapping[str, Any]) -> None:
        """Record an instant event of torch; other events than misses are ignored."""
        cache = _EVENTS.get(name)
        if cache is None:
            return
        if metadata.get("cache_status_detailed") == "guard_miss":
            self.guard_misses.add(cache)
        key = metadata.get("key")
        if key:
            self.missed.setdefault(cache, {})[str(key)] = [
                str(line) for line in metadata.get("components") or ()
            ]

    def record_text(self, cache: str, text: str) -> None:
        """Record a text of the logger of `cache`; others than the known ones are ignored."""
        match = _BYPASS.search(text)
        if match is not None:
            reason = one_line(match["reason"]).strip(" '")
            _add(self.bypasses, cache, reason)
        elif _NOT_WRITTEN.search(text):
            _add(self.unwritten, cache, one_line(text))

    def reasons(
        self, counts: Mapping[str, int], *, first: Mapping[str, Mapping[str, Sequence[str]]]
    ) -> list[CacheReason]:
        """Return the reasons of the misses and bypasses in `counts`; `first` has earlier keys."""
        return [
            reason
            for cache in COMPILE_CACHES
            for reason in (
                *(self._of_bypasses(cache) if counts.get(f"{cache}_bypasses") else ()),
                *(self._of_misses(cache, first) if counts.get(f"{cache}_misses") else ()),
            )
        ]

    def _of_bypasses(self, cache: str) -> Iterator[CacheReason]:
        for text in self.bypasses.get(cache, ["no reason given"]):
            yield CacheReason(
                cache=cache,
                event="bypass",
                reason=shortened(text, limit=MAX_REASON_CHARS),
                is_permanent=True,
                remedy=remedy_for(text),
            )

    def _of_misses(
        self, cache: str, first: Mapping[str, Mapping[str, Sequence[str]]]
    ) -> Iterator[CacheReason]:
        unwritten = self.unwritten.get(cache, [])
        if unwritten:
            for text in unwritten:
                yield _miss(cache, text, is_permanent=True, remedy=remedy_for(text))
            return
        if cache in self.guard_misses:
            yield _miss(cache, _GUARDS_DIFFER, remedy=_WARM_UP_REMEDY)
        missed, known = self.missed.get(cache, {}), first.get(cache, {})
        if not missed or not known:
            yield _miss(cache, _NO_KEYS, remedy=_OTHER_REMEDY)
            return
        texts: dict[str, str] = {}
        for key, lines in missed.items():
            if key in known:
                texts[_NEVER_WRITTEN] = _OTHER_REMEDY
            else:
                texts[_difference(lines, known.values())] = _KEY_REMEDY
        for text, remedy in texts.items():
            yield _miss(cache, text, remedy=remedy)


def remedy_for(text: str) -> str:
    """Return the remedy for a bypass or an unwritten entry with the reason `text`."""
    known = (remedy.text for remedy in _REMEDIES if re.search(remedy.pattern, text))
    return next(known, _OTHER_REMEDY)


@contextmanager
def recorded_texts(log: CacheLog) -> Iterator[None]:
    """Record the texts of the caches' loggers during the block, without showing more of them."""
    handlers: list[tuple[logging.Logger, logging.Filter, int]] = []
    for name, cache in LOGGERS.items():
        logger = logging.getLogger(name)
        shown = _Recorder(log, cache=cache, shown_level=logger.getEffectiveLevel())
        handlers.append((logger, shown, logger.level))
        logger.addFilter(shown)
        if shown.shown_level > logging.INFO:
            logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, shown_filter, level in handlers:
            logger.setLevel(level)
            logger.removeFilter(shown_filter)


class _Recorder(logging.Filter):
    """Records every line and hides those below the level that the user chose."""

    def __init__(self, log: CacheLog, *, cache: str, shown_level: int) -> None:
        super().__init__()
        self._log = log
        self._cache = cache
        self.shown_level = shown_level

    def filter(self, record: logging.LogRecord) -> bool:
        if "ache" in str(record.msg):
            self._log.record_text(self._cache, record.getMessage())
        return record.levelno >= self.shown_level


def write_keys(log: CacheLog, path: Path) -> None:
    """Leave the parts of the missed keys for later launches."""
    # On a full disk the launch goes on: later misses then have no reason.
    with suppress(OSError):
        path.write_text(json.dumps(log.missed), encoding="utf-8")


def read_keys(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the keys that `write_keys` left, none without its file."""
    try:
        keys: dict[str, dict[str, list[str]]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return keys


def _miss(cache: str, text: str, *, remedy: str, is_permanent: bool = False) -> CacheReason:
    return CacheReason(
        cache=cache,
        event="miss",
        reason=shortened(text, limit=MAX_REASON_CHARS),
        is_permanent=is_permanent,
        remedy=remedy,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyPart:
    sha256: str
    value: str


def _difference(lines: Sequence[str], others: Collection[Sequence[str]]) -> str:
    """Return the parts of a key that the most similar of `others` has otherwise."""
    parts = _parts(lines)
    if not parts:
        return _NO_PARTS
    changes = (_changes(parts, before=_parts(other)) for other in others)
    texts = min(changes, key=len)
    more = f"; {len(texts) - MAX_PARTS} more" if len(texts) > MAX_PARTS else ""
    return f"its key differs in {'; '.join(texts[:MAX_PARTS])}{more}"


def _changes(parts: Mapping[str, _KeyPart], *, before: Mapping[str, _KeyPart]) -> list[str]:
    return [
        f"{name}: {_change(before[name].value, part.value) if name in before else 'new'}"
        for name, part in parts.items()
        if name not in before or before[name].sha256 != part.sha256
    ]


def _change(before: str, after: str) -> str:
    """Return the first lines that differ."""
    pairs = zip_longest(before.splitlines(), after.splitlines(), fillvalue="")
    old, new = next(((old, new) for old, new in pairs if old != new), (before, after))
    return f"{_value(old)} -> {_value(new)}"


def _parts(lines: Sequence[str]) -> dict[str, _KeyPart]:
    matches = [_PART.match(line) for line in lines]
    return {
        match["name"]: _KeyPart(sha256=match["hash"], value=match["value"])
        for match in matches
        if match is not None
    }


def _value(value: str) -> str:
    return shortened(one_line(value), limit=MAX_VALUE_CHARS) or "nothing"


def _add(texts: dict[str, list[str]], cache: str, text: str) -> None:
    known = texts.setdefault(cache, [])
    if text not in known:
        known.append(text)
