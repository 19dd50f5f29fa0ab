"""Tables of the constants of detection, comparison and alerts, from the comments in the code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from compile_hud.runner.analysis.alerts import event_grouping, lifecycle
from compile_hud.runner.analysis.comparison import (
    cpu_clocks,
    measurements,
    noise_model,
    paired,
)
from compile_hud.runner.analysis.confirmation import suspects, verdict
from compile_hud.runner.analysis.detection import config as detector_config
from compile_hud.runner.analysis.detection import noise_densities
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.judging import attribution, machine_state
from compile_hud.runner.analysis.kernel_series import masked_changes
from compile_hud.runner.analysis.outcomes import cadence, missing_metrics, outcomes
from compile_hud.runner.analysis.stats import estimates, launch_noise, run_spread
from compile_hud.runner.detection import confirm
from compile_hud.runner.execution import paired_launches

# The constants of a page, by module. A comment above each one in the code has its meaning.
COMPARISON_CONSTANTS: Mapping[ModuleType, tuple[str, ...]] = {
    measurements: ("FAMILY_ERROR", "EQUIVALENCE_ERROR"),
    noise_model: ("HISTORY_RUNS", "MIN_CASES", "COMMON_SHARE"),
    run_spread: ("MIN_RUNS",),
    launch_noise: ("PRIOR_DEGREES", "PAIR_PRIOR_DEGREES"),
    cpu_clocks: ("QUIET_RATIO",),
    paired: ("CALM_WIDTHS", "MIN_CALM_SHARE", "LOOK_GROWTH"),
    paired_launches: ("MIN_PAIRS",),
    attribution: ("EXPLAINING_SHARE", "INNOCENT_SHARE", "NUM_RUNS_AT_ONSET", "NOISE_GROWTH"),
    machine_state: ("STEADY_WITHIN", "PRIOR_RUNS"),
}
DENSITY_CONSTANTS: Mapping[ModuleType, tuple[str, ...]] = {
    noise_densities: ("STUDENT_WIDTH", "NUM_PARAMETERS"),
    estimates: ("MAD_TO_SD", "TAILS_TO_SD", "MEDIAN_INEFFICIENCY"),
}
ALERT_CONSTANTS: Mapping[ModuleType, tuple[str, ...]] = {
    suspects: ("MAX_TRIES",),
    verdict: ("REFUTING_SHARE",),
    confirm: ("MIN_COLD_PAIRS",),
    event_grouping: ("NUM_RUNS_APART", "MIN_MODELS"),
    lifecycle: ("SAME_LEVEL_SHARE",),
    outcomes: ("RUNS_WITHOUT", "MIN_COMPANIONS"),
    cadence: ("NUM_GAPS", "MIN_GAPS_WITH_HOLIDAY", "LATE_AFTER_CADENCES"),
    missing_metrics: ("POINTS_BEFORE", "MAX_WITHOUT"),
    masked_changes: ("NUM_RESULTS", "NIGHT_BUDGET", "KERNEL_RATE", "MIN_WITNESS_SHARE"),
}
# Metrics whose spread between launches has a table of its own.
SPREAD_METRICS = (
    "latency_s",
    "latency_cpu_s",
    "speedup",
    "compile_cold_s",
    "compile_cold_cpu_s",
    "peak_bytes",
)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant in the code, with the comment above it and the heading of its group."""

    name: str
    group: str
    meaning: str


def constants_in(source: str) -> Iterator[Constant]:
    """Yield each constant of a module: a comment above it, or a heading before a blank line."""
    group, comment = "", ""
    for line in map(str.strip, source.splitlines()):
        if line.startswith("#"):
            comment = f"{comment} {line.lstrip('# ')}".strip()
            continue
        if line and (match := re.match(r"(\w+)(?:: [^=]+)? = ", line)):
            yield Constant(name=match[1], group=group, meaning=comment)
        elif not line and comment:
            group = comment.rstrip(".")
        comment = ""


def detector_constants() -> str:
    """Return the tables of the fields of the detector's config, one for each group."""
    names = {field.name for field in dataclasses.fields(DEFAULT_CONFIG)}
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for row in constants_in(inspect.getsource(detector_config)):
        if row.name in names:
            value = _number(getattr(DEFAULT_CONFIG, row.name))
            groups.setdefault(row.group, []).append((f"`{row.name}`", value, row.meaning))
    parts = (
        f"**{group}**\n\n{table(('constant', 'value', 'meaning and origin'), rows)}"
        for group, rows in groups.items()
    )
    return "\n".join((*parts, f"**Other modules**\n\n{module_constants(DENSITY_CONSTANTS)}"))


def module_constants(modules: Mapping[ModuleType, tuple[str, ...]]) -> str:
    """Return the table of constants of several modules."""
    rows = []
    for module, names in modules.items():
        known = {row.name: row for row in constants_in(inspect.getsource(module))}
        path = module.__name__.removeprefix("compile_hud.").replace(".", "/")
        rows += [
            (f"`{name}`", _number(getattr(module, name)), known[name].meaning, f"`{path}.py`")
            for name in names
        ]
    return table(("constant", "value", "meaning and origin", "defined in"), rows)


def spreads() -> str:
    """Return the table of the prior spreads between launches of one build."""

    def percent(share: float) -> str:
        return f"{100 * share:.3g} %"

    return table(
        ("metric", "CPU", "CPU, calm pairs", "GPU", "between runs, CPU"),
        (
            (
                f"`{metric}`",
                percent(launch_noise.prior_sd(metric, device="cpu")),
                percent(launch_noise.calm_sd(metric, device="cpu")),
                percent(launch_noise.prior_sd(metric, device="cuda")),
                percent(launch_noise.run_sd(metric, device="cpu")),
            )
            for metric in SPREAD_METRICS
        ),
    )


def _number(value: Any) -> str:
    values = value if isinstance(value, tuple) else (value,)
    return ", ".join(f"{item:.4g}" for item in values)
