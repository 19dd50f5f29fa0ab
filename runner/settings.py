"""Every setting of hud.toml, one row each: name, default, meaning and what it accepts.

A section that ends in `.NAME` may be there any number of times, once for each name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.cron import CronTrigger

from db.records import MEASURED_DTYPES, MEASURED_PHASES
from db.traces import PERFETTO_URL, is_web_address
from models_zoo.spec import Tolerance
from runner.protocol import MeasureSettings
from runner.traces_kept import TraceRules

_MEASURE = MeasureSettings()
_TRACES = TraceRules()
# Above this, `inf` included, a clock somewhere overflows.
MAX_SECONDS = 7 * 24 * 3600
# More than this is a percentage that was meant to be a share.
MAX_MULTIPLE = 10
_SIZE_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?B?)\s*")


def text(value: Any) -> str:
    """Return `value`, a text that is not empty; raise ValueError otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return one text or a list of texts as a tuple; raise ValueError otherwise."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError("a text or a list of texts")
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError("a text or a list of texts")
    return tuple(items)


def _members(value: Any, kind: Sequence[StrEnum]) -> tuple[str, ...]:
    allowed = [str(member) for member in kind]
    if not all(item in allowed for item in texts(value)):
        raise ValueError(f"one or more of {', '.join(allowed)}")
    return texts(value)


def phases(value: Any) -> tuple[str, ...]:
    """Return one phase or a list of them as a tuple; raise ValueError otherwise."""
    return _members(value, MEASURED_PHASES)


def dtypes(value: Any) -> tuple[str, ...]:
    """Return one dtype or a list of them as a tuple; raise ValueError otherwise."""
    return _members(value, MEASURED_DTYPES)


def tolerances(value: Any) -> Mapping[str, Tolerance]:
    """Return a table of dtypes, each a table of limits, as records; raise ValueError otherwise."""
    names = [item.name for item in fields(Tolerance)]
    problem = (
        f"a table of {', '.join(MEASURED_DTYPES)}, each a table of numbers from 0 up (cosines up"
        f" to 1): {', '.join(names)}; for example {{ bf16 = {{ min_cosine = 0.95 }} }}"
    )
    if not isinstance(value, dict) or not all(dtype in MEASURED_DTYPES for dtype in value):
        raise ValueError(problem)
    for limits in value.values():
        if not isinstance(limits, dict) or not all(name in names for name in limits):
            raise ValueError(problem)
        for name, limit in limits.items():
            is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if not is_number or not 0 <= limit < math.inf:
                raise ValueError(problem)
            # No result has a cosine above 1, so such a limit would call every one inaccurate.
            if name.endswith("cosine") and limit > 1:
                raise ValueError(problem)
    return {dtype: Tolerance(**limits) for dtype, limits in value.items()}


def count(value: Any) -> int:
    """Return `value`, a whole number of at least 1; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number, 1 or more")
    return value


def flag(value: Any) -> bool:
    """Return `value`, true or false; raise ValueError otherwise."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def share(value: Any) -> float:
    """Return `value`, a number from 0 up to but not 1; raise ValueError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1:
        raise ValueError("a share from 0 up to but not 1, such as 0.02 for 2 %")
    return float(value)


def multiple(value: Any) -> float:
    """Return `value`, a number from 0 to MAX_MULTIPLE; raise ValueError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_MULTIPLE:
        raise ValueError(f"a number from 0 to {MAX_MULTIPLE}, such as 0.2 for 20 %")
    return float(value)


def seconds(value: Any) -> float:
    """Return `value`, a number of seconds, at most a week; raise ValueError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MAX_SECONDS:
        raise ValueError(f"a number of seconds above 0, at most {MAX_SECONDS} (a week)")
    return float(value)


def size_bytes(value: Any) -> int:
    """Return a number of bytes, or a text such as "8 GB", as bytes; raise ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE_PATTERN.fullmatch(value.upper()) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError('a number of bytes above 0 or a text such as "8 GB"')
    unit = match[2] if match[2].endswith("B") or not match[2] else f"{match[2]}B"
    return int(float(match[1]) * _SIZE_UNITS.get(unit, 1))


def web_address(value: Any) -> str:
    """Return `value`, an address of a page; raise ValueError otherwise."""
    if not isinstance(value, str) or not is_web_address(value):
        raise ValueError('an address such as "https://perfetto.example.org"')
    return value


def port(value: Any) -> int:
    """Return `value`, a TCP port; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ValueError("a port, 0 to 65535 (0 takes a free one)")
    return value


def cron(value: Any) -> str:
    """Return `value`, five cron fields; raise ValueError otherwise.

    Weekdays must be names: APScheduler counts them from Monday, cron itself from Sunday, so the
    same digit would mean another day than its author expects.
    """
    problem = 'five cron fields such as "30 2 * * *" (minute hour day month weekday)'
    if not isinstance(value, str) or len(value.split()) != 5:
        raise ValueError(problem)
    if re.search(r"\d", value.split()[4]):
        raise ValueError('a cron text with weekdays as names, such as "30 2 * * mon-fri"')
    try:
        CronTrigger.from_crontab(value, timezone="UTC")
    except ValueError as error:
        raise ValueError(f"{problem}; {error}") from None
    return value


def timezone_name(value: Any) -> str:
    """Return `value`, the name of a time zone; raise ValueError otherwise."""
    try:
        ZoneInfo(text(value))
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise ValueError('a time zone such as "Europe/Berlin" or "UTC"') from None
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of hud.toml. `accept` returns the value or raises ValueError saying what it takes."""

    section: str
    key: str
    accept: Callable[[Any], Any]
    description: str
    default: Any = None
    is_required: bool = False


# A table of names of the user's own choice: any key is allowed.
ANY_KEY = "*"

SETTINGS = (
    Setting(
        section="store",
        key="url",
        accept=text,
        description="Where results are stored, as an SQLAlchemy URL. HUD_DATABASE_URL wins."
        " Default: `store.duckdb` in the state directory.",
    ),
    Setting(
        section="paths",
        key="state",
        accept=text,
        default=".hud",
        description="Directory of the spool, logs and compile caches. HUD_STATE_DIR wins.",
    ),
    Setting(
        section="traces",
        key="folder",
        accept=text,
        description="Where the traces of results are kept. Default: beside a DuckDB store, in the"
        " folder of its name with `.traces` behind; beside PostgreSQL none are kept unless this"
        " names a folder that every runner and dashboard shares.",
    ),
    Setting(
        section="traces",
        key="nights",
        accept=count,
        default=_TRACES.num_nights,
        description="Traces of so many nights are kept ([which](kernels.md#stored-and-kept)).",
    ),
    Setting(
        section="traces",
        key="max_size",
        accept=size_bytes,
        default=_TRACES.max_bytes,
        description='Bytes that all traces may take, or a text such as "2 GB"; the oldest go.',
    ),
    Setting(
        section="machine",
        key="name",
        accept=text,
        description="Name of this machine in results and charts. Default: the host name.",
    ),
    Setting(
        section="run",
        key="launches",
        accept=count,
        default=_MEASURE.num_launches,
        description="Fresh processes a case gets at least; the first compiles cold, the others"
        " warm.",
    ),
    Setting(
        section="run",
        key="max_launches",
        accept=count,
        default=_MEASURE.max_launches,
        description="Fresh processes a case gets at most, when its launches disagree.",
    ),
    Setting(
        section="run",
        key="target_interval",
        accept=share,
        default=_MEASURE.target_interval,
        description="How far the 95 % interval over launches may reach to either side of the"
        " speedup (eager cases: of the latency), as a share of it. Until then more launches"
        " follow, up to max_launches, and a launch whose own samples agree twice as closely stops"
        " early. 0: fixed numbers of launches and rounds.",
    ),
    Setting(
        section="run",
        key="rounds",
        accept=count,
        default=_MEASURE.num_rounds,
        description="Samples that one launch takes at most.",
    ),
    Setting(
        section="run",
        key="budget_s",
        accept=seconds,
        default=_MEASURE.budget_s,
        description="Wall seconds that the sampling of one launch may take.",
    ),
    Setting(
        section="run",
        key="threads",
        accept=count,
        default=_MEASURE.num_threads,
        description="Threads that torch computes with; one gives the steadiest numbers on a CPU.",
    ),
    Setting(
        section="run",
        key="timeout_s",
        accept=seconds,
        default=_MEASURE.timeout_s,
        description="Wall seconds after which a case is killed; its outcome is then `timeout`.",
    ),
    Setting(
        section="run",
        key="memory_limit",
        accept=size_bytes,
        description='Memory one case may take, such as "8 GB". On a CPU 80 % of all by default.',
    ),
    Setting(
        section="run",
        key="memory_snapshot",
        accept=flag,
        default=_MEASURE.memory_snapshot,
        description="Keep the history of CUDA's allocator over one iteration of each case, in"
        " `snapshots` of the state directory, for pytorch.org/memory_viz.",
    ),
    Setting(
        section="run",
        key="kernels",
        accept=flag,
        default=_MEASURE.kernels,
        description="Record which kernels run, and their trace, in some iterations after the"
        " samples of each case.",
    ),
    Setting(
        section="run",
        key="reference_cases",
        accept=flag,
        default=True,
        description="Whether each run starts with the reference cases, which tell a machine that"
        " moved from code that moved.",
    ),
    Setting(
        section="run",
        key="confirm",
        accept=flag,
        default=True,
        description="Whether suspected regressions of a run are measured again before anyone is"
        " told ([how](judging.md#confirmation)).",
    ),
    Setting(
        section="run",
        key="confirm_share",
        accept=multiple,
        default=0.2,
        description="Time that measuring again may take, as a share of the run's own: 0.2 is 20 %,"
        " 2 is twice as long.",
    ),
    Setting(
        section="toolchains",
        key=ANY_KEY,
        accept=text,
        description="A name and the Python interpreter with the torch to measure."
        " `current` is the interpreter that runs `hud`.",
    ),
    Setting(
        section="suites.NAME",
        key="models",
        accept=texts,
        default=("*",),
        description="Globs of model names.",
    ),
    Setting(
        section="suites.NAME",
        key="modes",
        accept=texts,
        description="Modes or variants, globs allowed. Default: the five modes.",
    ),
    Setting(
        section="suites.NAME",
        key="phases",
        accept=phases,
        default=("inference",),
        description="`inference`, `training` or both.",
    ),
    Setting(
        section="suites.NAME",
        key="dtypes",
        accept=dtypes,
        default=("fp32",),
        description="`fp32`, `bf16`, `fp16-autocast`.",
    ),
    Setting(
        section="suites.NAME",
        key="shape",
        accept=text,
        default="auto",
        description="`tiny`, `small`, `full`, or `auto`: full on a GPU, small on a CPU.",
    ),
    Setting(
        section="suites.NAME",
        key="launches",
        accept=count,
        description="As in [run], for this suite alone.",
    ),
    Setting(
        section="suites.NAME",
        key="max_launches",
        accept=count,
        description="As in [run], for this suite alone.",
    ),
    Setting(
        section="suites.NAME",
        key="target_interval",
        accept=share,
        description="As in [run], for this suite alone.",
    ),
    Setting(
        section="suites.NAME",
        key="rounds",
        accept=count,
        description="As in [run], for this suite alone.",
    ),
    Setting(
        section="suites.NAME",
        key="budget_s",
        accept=seconds,
        description="As in [run], for this suite alone.",
    ),
    Setting(
        section="schedules.NAME",
        key="cron",
        accept=cron,
        is_required=True,
        description="When: minute, hour, day, month, weekday, the weekday by name (`mon`).",
    ),
    Setting(
        section="schedules.NAME",
        key="timezone",
        accept=timezone_name,
        default="UTC",
        description="Time zone that `cron` is read in.",
    ),
    Setting(
        section="schedules.NAME",
        key="suite",
        accept=text,
        default="nightly",
        description="Suite that is run.",
    ),
    Setting(
        section="schedules.NAME",
        key="toolchain",
        accept=text,
        default="current",
        description="Toolchain that it is run in.",
    ),
    Setting(
        section="models.NAME",
        key="build",
        accept=text,
        is_required=True,
        description="Your own model: `package.module`, `package.module:attribute` or a file"
        " `path/to/file.py`, the path relative to hud.toml.",
    ),
    Setting(
        section="models.NAME",
        key="family",
        accept=text,
        default="own",
        description="Kind of model, to group it by.",
    ),
    Setting(
        section="models.NAME",
        key="num_samples",
        accept=count,
        default=1,
        description="Samples (batch size) that one iteration works through, for the throughput.",
    ),
    Setting(
        section="models.NAME",
        key="phases",
        accept=phases,
        default=("inference", "training"),
        description="Phases that the model can be measured in.",
    ),
    Setting(
        section="models.NAME",
        key="tolerance",
        accept=tolerances,
        description="How far results may be from fp64, by dtype:"
        " `{ bf16 = { min_cosine = 0.95 } }`. Default: that of the dtype.",
    ),
    Setting(
        section="server",
        key="host",
        accept=text,
        default="127.0.0.1",
        description="Address that the dashboard listens on.",
    ),
    Setting(
        section="server",
        key="port",
        accept=port,
        default=8501,
        description="Port that the dashboard listens on; 0 takes a free one.",
    ),
    Setting(
        section="server",
        key="perfetto",
        accept=web_address,
        default=PERFETTO_URL,
        description="Address of the Perfetto UI that traces are handed to: one that you host, where"
        " browsers cannot reach this one.",
    ),
)


def section_rows(section: str) -> Mapping[str, Setting]:
    """Return the settings of `section` by key; empty for a section that does not exist."""
    return {row.key: row for row in SETTINGS if row.section == section}
