"""The vocabulary of other tools: their metrics, units, dtypes, phases, modes, devices, outcomes.

docs/how-to/interop.md has the same tables; a test holds the two together.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from compile_hud.db.errors import RecordError
from compile_hud.db.records.metrics import METRICS, RATE_WORDS, Direction, metric_of
from compile_hud.db.records.results import Dtype, Outcome, Phase
from compile_hud.db.shared.text import printable
from compile_hud.models_zoo.catalog.variants import MODES

UNKNOWN = "unknown"
# No deliberately chosen name is longer.
MAX_NAME_LENGTH = 160
# Numbers of a file in any unit. The factor to our unit leaves them inside the range of
# db/shared/quantities.py.
MAX_NUMBER = 1e100
MIN_NUMBER = 1e-100
# The range of numbers, for the reason to leave out a value.
NUMBER_RANGE = f"0, or {MIN_NUMBER:g} to {MAX_NUMBER:g} with either sign"
# The reason to leave out a value among others that are numbers.
NO_NUMBER = f"a value that no measurement can have ({NUMBER_RANGE})"
_DIGEST_LENGTH = 8
# Their name -> ours and the factor between the units.
KNOWN_METRICS: Mapping[str, tuple[str, float]] = {
    "abs_latency": ("latency_s", 1e-3),
    "compilation_latency": ("compile_cold_s", 1.0),
    "compression_ratio": ("compression_ratio", 1.0),
    "dynamo_peak_mem": ("peak_bytes", 1e9),
    "eager_peak_mem": ("eager_peak_bytes", 1e9),
    "graph_breaks": ("graph_breaks", 1.0),
    "memory_bandwidth": ("bandwidth_bytes_per_s", 1e9),
    "mfu": ("mfu", 1.0),
    "peak_inference_mem_usage(mb)": ("peak_bytes", 1e6),
    "speedup": ("speedup", 1.0),
    "unique_graphs": ("graphs", 1.0),
}
# On a CPU, PyTorch's nightly suite multiplies psutil's percentage, 0 to 100, by the memory, and
# does not divide by 100.
PERCENTAGES_ON_CPU = ("dynamo_peak_mem", "eager_peak_mem")
# Their name -> ours, where a record states a unit that ours can have; any program has such names.
KNOWN_WITH_UNIT: Mapping[str, str] = {"latency": "latency_s"}
_DIRECTIONS = {
    "higher": Direction.HIGHER_IS_BETTER,
    "up": Direction.HIGHER_IS_BETTER,
    "lower": Direction.LOWER_IS_BETTER,
    "down": Direction.LOWER_IS_BETTER,
    "neither": Direction.NEITHER,
}
# Most metrics without a judge are costs; these words mean the opposite.
_MORE_IS_BETTER = re.compile(
    rf"{RATE_WORDS}|accuracy|score|utili[sz]ation|(?<![a-z])(mfu|mbu)"
    r"|hit_rate|pass_?rate|compression",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"(?<!_per)[(_](ms|us|ns|s|sec|seconds|kb|mb|gb|mib|gib|bytes|%)\)?$", re.IGNORECASE
)
_UNITS = {"sec": "s", "seconds": "s", "bytes": "B", "kb": "kB", "mb": "MB", "gb": "GB"}
DTYPES: Mapping[str, Dtype] = {
    "float32": Dtype.FP32,
    "fp32": Dtype.FP32,
    "float16": Dtype.FP16,
    "fp16": Dtype.FP16,
    "bfloat16": Dtype.BF16,
    "bf16": Dtype.BF16,
    "tf32": Dtype.TF32,
    "amp": Dtype.AMP,
    "amp_bf16": Dtype.BF16_AUTOCAST,
    "bf16-autocast": Dtype.BF16_AUTOCAST,
    "amp_fp16": Dtype.FP16_AUTOCAST,
    "fp16-autocast": Dtype.FP16_AUTOCAST,
}
PHASES: Mapping[str, Phase] = {
    "inference": Phase.INFERENCE,
    "eval": Phase.INFERENCE,
    "training": Phase.TRAINING,
    "train": Phase.TRAINING,
}
DEVICES = ("cuda", "cpu", "rocm", "xpu", "mps", "hpu", "tpu")
# These fields say whether torch.compile is in use; vLLM has the last three.
COMPILE_FLAGS = (
    *("use_compile", "use_torch_compile", "torch_compile", "enable_torch_compile"),
    *("is_compiled", "compiled", "compile"),
)
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "1"), ("false", "no", "0")
# Outcomes of an accuracy check, by a prefix or part of its word; the first match counts.
OUTCOMES: tuple[tuple[str, Outcome], ...] = (
    ("pass_due_to_skip", Outcome.SKIPPED),
    ("pass", Outcome.OK),
    ("skip", Outcome.SKIPPED),
    ("not_implemented", Outcome.SKIPPED),
    ("oom", Outcome.OUT_OF_MEMORY),
    ("out_of_memory", Outcome.OUT_OF_MEMORY),
    ("timeout", Outcome.TIMEOUT),
    ("fail_accuracy", Outcome.INACCURATE),
    ("two_runs_differ", Outcome.INACCURATE),
    ("inaccurate", Outcome.INACCURATE),
    ("lost", Outcome.NODE_LOST),
)
# Further words of a text that replaces a number, and of no other text.
_ERROR_WORDS = re.compile(r"fail|error|exception|crash|killed|segfault")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedMetric:
    """A metric of another tool; `scale` turns its numbers into `unit`.

    `name` is ours for a known metric, else its own. `is_guessed` means that the direction comes
    from the name and unit, since no record stated it.
    """

    name: str
    unit: str
    direction: Direction
    scale: float = 1.0
    is_guessed: bool = False

    @property
    def judged_direction(self) -> Direction | None:
        """Return the direction for the judge, None if no change becomes an alert."""
        stated = None if self.is_guessed else self.direction
        metric = metric_of(self.name, unit=self.unit, stated=stated)
        return metric.direction if metric is not None and metric.is_judged else None

    @property
    def is_known(self) -> bool:
        """Return whether the metric is one of ours."""
        return self.name in METRICS


def as_number(value: object) -> float | None:
    """Return `value` as a float when it is a number that a quantity can have, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # The comparisons are also false for NaN. A larger integer would not fit into a float.
    is_in_range = value == 0 or MIN_NUMBER <= abs(value) <= MAX_NUMBER
    return float(value) if is_in_range else None


def outcome_of(word: str) -> Outcome:
    """Return the outcome that an accuracy check's `word` stands for; FAILED for any other word."""
    plain = word.strip().lower()
    return next((outcome for part, outcome in OUTCOMES if part in plain), Outcome.FAILED)


def failure_of(text: str) -> Outcome | None:
    """Return the outcome of a `text` that replaces a number; None for any other text.

    A name or a hash is no failure, so a word of the table counts only from its first letter on.
    """
    plain = text.strip().lower().replace("out of memory", "out_of_memory")
    for word, outcome in OUTCOMES:
        if re.search(rf"(?<![a-z0-9]){word}", plain):
            return None if outcome is Outcome.OK else outcome
    return Outcome.FAILED if _ERROR_WORDS.search(plain) else None


# A file has millions of records of a few metrics.
@functools.lru_cache(maxsize=4096)
def find_metric(
    name: str, *, unit: str = "", direction: str = "", device: str = ""
) -> ImportedMetric:
    """Return the metric for `name`; the direction in the file counts for unknown names.

    Our own names are known as well. A unit in the file scales a known metric. Raises RecordError
    for an unknown unit (`has_unit`).
    """
    known, _ = KNOWN_METRICS.get(name, (name, 1.0))
    if name in KNOWN_WITH_UNIT and has_unit(KNOWN_WITH_UNIT[name], unit or "1"):
        return find_metric(KNOWN_WITH_UNIT[name], unit=unit)
    if known in METRICS:
        ours = METRICS[known]
        scale = _scale(name, unit)
        if scale is None:
            raise RecordError(f"{name} cannot be read in {unit!r}", metric=name, unit=unit)
        if device == "cpu" and name in PERCENTAGES_ON_CPU and not unit:
            scale /= 100
        return ImportedMetric(name=known, unit=ours.unit, direction=ours.direction, scale=scale)
    stated_direction = direction.strip().lower().removesuffix("_is_better")
    match = _UNIT.search(name)
    in_name = "" if match is None else match[1].lower()
    theirs = clean_name(name)
    its_unit = clean_name(unit or _UNITS.get(in_name, in_name) or "1")
    return ImportedMetric(
        name=theirs,
        unit=its_unit,
        direction=_DIRECTIONS.get(stated_direction) or _guessed(theirs, unit=its_unit),
        is_guessed=stated_direction not in _DIRECTIONS,
    )


def _guessed(name: str, *, unit: str) -> Direction:
    """Return the direction that the judge uses, or else the one that the name suggests."""
    judged = metric_of(name, unit=unit)
    if judged is not None:
        return judged.direction
    is_more = _MORE_IS_BETTER.search(name)
    return Direction.HIGHER_IS_BETTER if is_more else Direction.LOWER_IS_BETTER


@functools.lru_cache(maxsize=4096)
def has_unit(name: str, unit: str) -> bool:
    """Return whether numbers of the metric `name` can be read in `unit`, empty for no unit."""
    return _scale(name, unit) is not None


def _scale(name: str, unit: str) -> float | None:
    """Return the factor from numbers of `name` to our unit, None if `unit` is unknown for it."""
    known, scale = KNOWN_METRICS.get(name, (name, 1.0))
    if known not in METRICS or not unit:
        return scale
    return factor_between(unit, ours=METRICS[known].unit)


def mode_of(name: str) -> str:
    """Return `name` in torch.compile's spelling where it is one of its modes, else as it is."""
    spelled = name.strip().lower().replace("_", "-")
    return spelled if spelled in MODES else clean_part(name)


def clean_part(text: str) -> str:
    """Return `text` as a part of a case's key, which slashes divide."""
    return clean_name(text.replace("/", "_"))


def clean_name(text: str) -> str:
    """Return `text` as a name that any page, terminal and database shows, deterministically.

    Unprintable characters and the end of a long name are removed; a digest distinguishes such
    names.
    """
    shown = printable(text, allowed="").strip()
    if shown == text and len(text) <= MAX_NAME_LENGTH:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{shown[: MAX_NAME_LENGTH - _DIGEST_LENGTH - 1]}-{digest}"


def common_factor(unit: str, other: str) -> float | None:
    """Return the factor from numbers in `unit` to `other`; None if they have no common base."""
    for base in _FACTORS:
        factors = factor_between(unit, ours=base), factor_between(other, ours=base)
        if factors[0] is not None and factors[1] is not None:
            return factors[0] / factors[1]
    return None


def factor_between(unit: str, *, ours: str) -> float | None:
    """Return the factor from numbers in `unit` to `ours`; None for an unknown unit."""
    return 1.0 if unit == ours else _FACTORS.get(ours, {}).get(unit)
