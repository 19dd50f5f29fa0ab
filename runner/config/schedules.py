"""The settings of [schedules.NAME] and the schedules that they make."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compile_hud.db.errors import CodedError
from compile_hud.runner.config.setting import Setting
from compile_hud.runner.config.validators import cron, duration, flag, text, timezone_name
from compile_hud.runner.planning.plan import DEVICES

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Seconds between two looks at a watched source, unless the schedule sets `every`.
DEFAULT_EVERY_S = 1800.0
# A machine that was off at night still measures the night when it comes up in the morning.
DEFAULT_CATCH_UP_S = 12 * 3600.0
_AT = re.compile(rf"(?:({'|'.join(WEEKDAYS)}) )?([01]?[0-9]|2[0-3]):([0-5][0-9])")


class ExecutorKind(StrEnum):
    """The kind of executor that measures the jobs of a schedule."""

    LOCAL = "local"
    RAY = "ray"


class WatchKind(StrEnum):
    """The kinds of sources that a schedule can watch."""

    GIT = "git"
    TORCH = "torch"
    TORCH_NIGHTLY = "torch-nightly"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A watched source: a branch or tag of a repository, or the newest torch of an index.

    `url` is empty for pip's default index, `ref` for a repository's HEAD.
    """

    kind: WatchKind
    url: str = ""
    ref: str = ""

    @property
    def text(self) -> str:
        """Return it in the form of hud.toml."""
        url = f":{self.url}" if self.url else ""
        return f"{self.kind}{url}#{self.ref}" if self.ref else f"{self.kind}{url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule that creates jobs: by `cron`, or by `watch` when a source has changed.

    A missed job is made up for within `catch_up_s` seconds. With `coalesce` several missed jobs
    become one. `every_s` is the interval between looks at the watched source. With `build` the
    toolchain is rebuilt before the run. `executor` measures on a `device` of that kind; None means
    the available one.
    """

    name: str
    suite: str
    toolchain: str
    cron: str = ""
    timezone: str = "UTC"
    watch: Watch | None = None
    every_s: float = DEFAULT_EVERY_S
    catch_up_s: float = DEFAULT_CATCH_UP_S
    coalesce: bool = True
    build: bool = False
    executor: ExecutorKind = ExecutorKind.LOCAL
    device: str | None = None

    def builds(self, toolchain: str) -> bool:
        """Return whether `toolchain` is built again before it is measured."""
        return self.build and self.toolchain == toolchain


class ScheduleError(CodedError, ValueError):
    """The keys of a schedule contradict each other; `key` is the faulty one, if any."""

    def __init__(self, message: str, /, *, key: str | None = None, **parameters: object) -> None:
        super().__init__(message, **parameters)
        self.key = key


def time_of_day(value: Any) -> str:
    """Return the cron text of a time such as "02:30" or "sun 02:30"; raise ValueError otherwise."""
    match = _AT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a time such as "02:30" (every night) or "sun 02:30" (every week)')
    return f"{int(match[3])} {int(match[2])} * * {match[1] or '*'}"


def executor_kind(value: Any) -> ExecutorKind:
    """Return the executor of that name; raise ValueError otherwise."""
    if value not in list(ExecutorKind):
        raise ValueError(f"one of {', '.join(ExecutorKind)}")
    return ExecutorKind(value)


def device(value: Any) -> str:
    """Return `value`, a kind of device; raise ValueError otherwise."""
    if value not in DEVICES:
        raise ValueError(f"one of {', '.join(DEVICES)}")
    return str(value)


def watch(value: Any) -> Watch:
    """Return the watch that `value` describes; raise ValueError otherwise."""
    problem = (
        'what to watch: "git:URL" or "git:URL#BRANCH", "torch" or "torch:URL" (releases at an'
        ' index), "torch-nightly:URL"'
    )
    if not isinstance(value, str):
        raise ValueError(problem)
    kind, _, rest = value.partition(":")
    if kind not in list(WatchKind) or (kind != WatchKind.TORCH and not rest):
        raise ValueError(problem)
    if kind != WatchKind.GIT:
        return Watch(kind=WatchKind(kind), url=rest)
    url, _, ref = rest.partition("#")
    # Neither may be taken for an option of git.
    if not url or url.startswith("-") or ref.startswith("-"):
        raise ValueError(problem)
    # A service starts in another folder than the user's.
    if ":" not in url and not url.startswith("/"):
        raise ValueError(f"{problem}; a path must be absolute")
    return Watch(kind=WatchKind.GIT, url=url, ref=ref)


def make_schedule(name: str, values: Mapping[str, Any], *, built: Collection[str]) -> Schedule:
    """Return the schedule of the settings `values`; `built` are the toolchains that hud built.

    Raises ScheduleError.
    """
    watched: Watch | None = values["watch"]
    rules = [key for key in ("cron", "at", "watch") if values[key] is not None]
    if len(rules) != 1:
        named_rules = " and ".join(rules) or "none"
        raise ScheduleError(
            f"takes one of cron, at and watch, got {named_rules}", rules=named_rules
        )
    if watched is None and values["every"] is not None:
        raise ScheduleError(
            "only what is watched is looked at every so often", key="every", problem="not-watched"
        )
    is_torch = watched is not None and watched.kind is not WatchKind.GIT
    is_built = is_torch if values["build"] is None else values["build"]
    toolchain = values["toolchain"]
    _check_executor(values, is_built=is_built)
    if is_built and toolchain not in built:
        raise ScheduleError(
            f"toolchain {toolchain} was not built by `hud toolchain add`, so it cannot be built"
            " again; name one that was, or set build = false",
            key="build" if values["build"] else "toolchain",
            toolchain=toolchain,
            problem="not-built",
        )
    return Schedule(
        name=name,
        suite=values["suite"],
        toolchain=toolchain,
        cron=values["cron"] or values["at"] or "",
        timezone=values["timezone"],
        watch=watched,
        every_s=values["every"] or DEFAULT_EVERY_S,
        catch_up_s=values["catch_up"],
        coalesce=values["coalesce"],
        build=is_built,
        executor=values["executor"],
        device=values["device"],
    )


def _check_executor(values: Mapping[str, Any], *, is_built: bool) -> None:
    """Raise ScheduleError for settings that a Ray cluster does not support."""
    if values["executor"] is not ExecutorKind.RAY:
        return
    if values["device"] is None:
        raise ScheduleError(
            'takes device = "cpu" or "cuda" with executor = "ray"', problem="no-device"
        )
    if is_built:
        raise ScheduleError(
            "toolchains are built on this machine and not on those of a cluster; set build = false"
            " and build them there",
            key="build" if values["build"] else "executor",
            problem="cluster",
        )


SCHEDULE_SETTINGS = (
    Setting(
        section="schedules.NAME",
        key="cron",
        accept=cron,
        description="When: minute, hour, day, month, weekday, the weekday by name (`mon`).",
    ),
    Setting(
        section="schedules.NAME",
        key="at",
        accept=time_of_day,
        description='When, in short: "02:30" is every night, "sun 02:30" every week.',
    ),
    Setting(
        section="schedules.NAME",
        key="timezone",
        accept=timezone_name,
        default="UTC",
        description="Time zone that `cron` and `at` are read in.",
    ),
    Setting(
        section="schedules.NAME",
        key="watch",
        accept=watch,
        description="Run when this [changes](scheduling.md#when-something-changes), in place of"
        ' `cron` and `at`: "git:URL#BRANCH", "torch", "torch-nightly:URL".',
    ),
    Setting(
        section="schedules.NAME",
        key="every",
        accept=duration,
        description="How often what is watched is looked at. Default: every 30 min.",
    ),
    Setting(
        section="schedules.NAME",
        key="catch_up",
        accept=duration,
        default=DEFAULT_CATCH_UP_S,
        description="How late a time that was missed, since the machine was off, is still made up"
        " for.",
    ),
    Setting(
        section="schedules.NAME",
        key="coalesce",
        accept=flag,
        default=True,
        description="Whether several times that were missed are made up for by one run.",
    ),
    Setting(
        section="schedules.NAME",
        key="build",
        accept=flag,
        description="Whether the toolchain is built again first, as `hud toolchain add` built it."
        " Default: only where torch is watched.",
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
        section="schedules.NAME",
        key="executor",
        accept=executor_kind,
        default=ExecutorKind.LOCAL,
        description='Who measures: this machine, or with "ray" the nodes of the'
        " [Ray cluster](deployment.md#many-machines-ray) that RAY_ADDRESS names.",
    ),
    Setting(
        section="schedules.NAME",
        key="device",
        accept=device,
        description='Kind of device, "cpu" or "cuda"; Ray has to know it. Default: the GPU of this'
        " machine when there is one.",
    ),
)
