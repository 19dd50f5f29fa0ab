"""The settings of [schedules.NAME], one row each."""

from __future__ import annotations

from compile_hud.runner.config.schedules import (
    DEFAULT_CATCH_UP_S,
    ExecutorKind,
    device,
    executor_kind,
    time_of_day,
    watch,
)
from compile_hud.runner.config.setting import Setting
from compile_hud.runner.config.validators import cron, duration, flag, text, timezone_name

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
