"""Units as other tools write them, and the factor from each to ours."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
# Their word -> our unit and the factor; a lone b may be bits and is none.
_TIMES: Mapping[str, float] = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "usec", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-9),
}
_SIZES: Mapping[str, float] = {
    **dict.fromkeys(("B", "byte", "bytes", "Bytes"), 1.0),
    **{f"{prefix}B": factor for prefix, factor in (_PREFIXES | _BINARY).items()},
    **{f"{prefix}b".lower(): factor for prefix, factor in (_PREFIXES | _BINARY).items()},
}
_PLAIN = ("1", "x", "X", "ratio", "times", "count", "calls")
_FACTORS: Mapping[str, Mapping[str, float]] = {
    "s": _TIMES,
    "B": _SIZES,
    "B/s": {f"{size}{end}": factor for size, factor in _SIZES.items() for end in ("/s", "/sec")},
    "samples/s": dict.fromkeys(("samples/sec", "sample/s"), 1.0),
    "tokens/s": dict.fromkeys(("tokens/sec", "token/s", "tok/s"), 1.0),
    "FLOP": {f"{prefix}FLOP": factor for prefix, factor in _PREFIXES.items()},
    "J": {"mJ": 1e-3, "kJ": 1e3},
    "W": {"mW": 1e-3, "kW": 1e3},
    "share": {**dict.fromkeys(_PLAIN, 1.0), **dict.fromkeys(("%", "percent"), 1e-2)},
    **{unit: dict.fromkeys(_PLAIN, 1.0) for unit in ("1", "x", "calls")},
}


def factor_between(said: str, *, ours: str) -> float | None:
    """Return what turns numbers in the unit `said` into `ours`; None where nobody can know."""
    return 1.0 if said == ours else _FACTORS.get(ours, {}).get(said)
