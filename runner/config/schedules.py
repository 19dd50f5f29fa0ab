"""The settings of [schedules.NAME] and the schedules that they make."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from apscheduler.triggers.cron import CronTrigger
from pydantic import Field, PlainValidator

from compile_hud.runner.config.section import ConfigSection, SectionError
from compile_hud.runner.config.value_types import Duration, Flag, Text, TimezoneName, one_of
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


def _time_of_day(value: Any) -> str:
    """Return the cron text of a time such as "02:30" or "sun 02:30"; raise ValueError otherwise."""
    match = _AT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a time such as "02:30" (every night) or "sun 02:30" (every week)')
    return f"{int(match[3])} {int(match[2])} * * {match[1] or '*'}"


def _cron(value: Any) -> str:
    """Return `value`, five cron fields, with the weekday by name; raise ValueError otherwise.

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


def _watch(value: Any) -> Watch:
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


class ScheduleSection(ConfigSection):
    cron: Annotated[str, PlainValidator(_cron)] | None = Field(
        None,
        description="When: minute, hour, day, month, weekday, the weekday by name (`mon`).",
    )
    at: Annotated[str, PlainValidator(_time_of_day)] | None = Field(
        None, description='When, in short: "02:30" is every night, "sun 02:30" every week.'
    )
    timezone: TimezoneName = Field("UTC", description="Time zone that `cron` and `at` are read in.")
    watch: Annotated[Watch, PlainValidator(_watch)] | None = Field(
        None,
        description="Run when this [changes](../how-to/scheduling.md#when-something-changes),"
        " in place of `cron` and `at`:"
        ' "git:URL#BRANCH", "torch", "torch-nightly:URL".',
    )
    every: Duration | None = Field(
        None, description="How often what is watched is looked at. Default: every 30 min."
    )
    catch_up: Duration = Field(
        DEFAULT_CATCH_UP_S,
        description="How late a time that was missed, since the machine was off, is still made up"
        " for.",
    )
    coalesce: Flag = Field(
        True, description="Whether several times that were missed are made up for by one run."
    )
    build: Flag | None = Field(
        None,
        description="Whether the toolchain is built again first, as `hud toolchain add` built it."
        " Default: only where torch is watched.",
    )
    suite: Text = Field("nightly", description="Suite that is run.")
    toolchain: Text = Field("current", description="Toolchain that it is run in.")
    executor: Annotated[ExecutorKind, one_of(ExecutorKind)] = Field(
        ExecutorKind.LOCAL,
        description='Who measures: this machine, or with "ray" the nodes of the'
        " [Ray cluster](../how-to/deployment.md#many-machines-ray) that RAY_ADDRESS names.",
    )
    device: Annotated[str, one_of(DEVICES)] | None = Field(
        None,
        description='Kind of device, "cpu" or "cuda"; Ray has to know it. Default: the GPU of this'
        " machine when there is one.",
    )


def make_schedule(name: str, section: ScheduleSection, *, built: Collection[str]) -> Schedule:
    """Return the schedule of the `section`; `built` are the toolchains that hud built.

    Raises SectionError.
    """
    rules = [key for key in ("cron", "at", "watch") if getattr(section, key) is not None]
    if len(rules) != 1:
        got = " and ".join(rules) or "none"
        raise SectionError(f"takes one of cron, at and watch, got {got}")
    if section.watch is None and section.every is not None:
        raise SectionError("only what is watched is looked at every so often", key="every")
    is_torch = section.watch is not None and section.watch.kind is not WatchKind.GIT
    is_built = is_torch if section.build is None else section.build
    toolchain = section.toolchain
    _check_executor(section, is_built=is_built)
    if is_built and toolchain not in built:
        raise SectionError(
            f"toolchain {toolchain} was not built by `hud toolchain add`, so it cannot be built"
            " again; name one that was, or set build = false",
            key="build" if section.build else "toolchain",
        )
    return Schedule(
        name=name,
        suite=section.suite,
        toolchain=toolchain,
        cron=section.cron or section.at or "",
        timezone=section.timezone,
        watch=section.watch,
        every_s=section.every or DEFAULT_EVERY_S,
        catch_up_s=section.catch_up,
        coalesce=section.coalesce,
        build=is_built,
        executor=section.executor,
        device=section.device,
    )


def _check_executor(section: ScheduleSection, *, is_built: bool) -> None:
    """Raise SectionError for settings that a Ray cluster does not support."""
    if section.executor is not ExecutorKind.RAY:
        return
    if section.device is None:
        raise SectionError('takes device = "cpu" or "cuda" with executor = "ray"')
    if is_built:
        raise SectionError(
            "toolchains are built on this machine and not on those of a cluster; set build = false"
            " and build them there",
            key="build" if section.build else "executor",
        )
