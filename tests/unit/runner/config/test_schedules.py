"""The keys of [schedules.NAME], and the times of a schedule."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.load import Config, parse_config
from compile_hud.runner.config.schedules import (
    ExecutorKind,
    Schedule,
    ScheduleSection,
    Watch,
    WatchKind,
    make_schedule,
)
from compile_hud.runner.config.section import SectionError
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.scheduling.timetable import fire_times, make_timetable

BUILT = {"nightly": Path("/state/venvs/nightly/bin/python")}


def parse(lines: str) -> Config:
    content = f"[schedules.n]\n{lines}\n"
    return parse_config(content, path=Path("hud.toml"), env={}, built=lambda _state_dir: BUILT)


def schedule(lines: str) -> Schedule:
    return parse(lines).schedules["n"]


@pytest.mark.parametrize(
    ("at", "cron"),
    [("02:30", "30 2 * * *"), ("sun 9:05", "5 9 * * sun"), ("mon 00:00", "0 0 * * mon")],
)
def test_a_time_is_short_for_a_cron_text(at: str, cron: str) -> None:
    assert schedule(f'at = "{at}"').cron == cron


def test_how_missed_times_are_made_up_for_can_be_set() -> None:
    usual = schedule('at = "02:30"')
    assert (usual.catch_up_s, usual.coalesce) == (12 * 3600, True)
    own = schedule('at = "02:30"\ncatch_up = "30 min"\ncoalesce = false')
    assert (own.catch_up_s, own.coalesce) == (1800, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git:/src/models", Watch(kind=WatchKind.GIT, url="/src/models")),
        (
            "git:https://example.org/m.git#main",
            Watch(kind=WatchKind.GIT, url="https://example.org/m.git", ref="main"),
        ),
    ],
)
def test_a_repository_can_be_watched(text: str, expected: Watch) -> None:
    parsed = schedule(f'watch = "{text}"\nevery = "5 min"')
    assert (parsed.watch, parsed.every_s, parsed.build, parsed.cron) == (expected, 300, False, "")
    assert expected.text == text


def test_a_toolchain_whose_torch_is_watched_is_built_again() -> None:
    nightly = 'watch = "torch-nightly:https://example.org/whl"\ntoolchain = "nightly"'
    parsed = schedule(nightly)
    assert parsed.watch == Watch(kind=WatchKind.TORCH_NIGHTLY, url="https://example.org/whl")
    assert (parsed.build, parsed.every_s) == (True, 1800)
    assert schedule(f"{nightly}\nbuild = false").build is False
    assert schedule('watch = "torch"\ntoolchain = "nightly"').build is True
    assert schedule('at = "02:30"\ntoolchain = "nightly"\nbuild = true').build is True


def test_a_schedule_says_who_measures_and_on_which_kind_of_device() -> None:
    usual = schedule('at = "02:30"')
    assert (usual.executor, usual.device) == (ExecutorKind.LOCAL, None)
    shared = schedule('at = "02:30"\nexecutor = "ray"\ndevice = "cuda"')
    assert (shared.executor, shared.device) == (ExecutorKind.RAY, "cuda")


@pytest.mark.parametrize(
    "lines",
    [
        'suite = "tiny"',
        'at = "02:30"\ncron = "30 2 * * *"',
        'at = "2.30"',
        'at = "24:00"',
        'at = "sonntag 02:30"',
        'at = "02:30"\nevery = "5 min"',
        'watch = "svn:x"',
        'watch = "git:"',
        'watch = "git:models"',
        'watch = "git:--upload-pack=x"',
        'watch = "git:/src#-x"',
        'watch = "torch-nightly"',
        'watch = "torch"',
        'at = "02:30"\nbuild = true',
        'at = "02:30"\ncatch_up = 0',
        'at = "02:30"\nexecutor = "slurm"',
        'at = "02:30"\nexecutor = "ray"',
        'at = "02:30"\ndevice = "tpu"',
        'watch = "torch"\ntoolchain = "nightly"\nexecutor = "ray"\ndevice = "cpu"',
    ],
)
def test_contradicting_settings_are_reported(lines: str, words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(lines)
    assert str(caught.value) == words


def test_what_is_wrong_names_the_key_to_look_at(words: SnapshotAssertion) -> None:
    section = ScheduleSection(cron="30 2 * * *", every=5.0)
    with pytest.raises(SectionError) as caught:
        make_schedule("n", section, built=())
    assert str(caught.value) == words
    assert caught.value.key == "every"


def test_a_toolchain_that_hud_toml_names_itself_is_not_built_again(
    words: SnapshotAssertion,
) -> None:
    content = '[toolchains]\nnightly = "/own/python"\n[schedules.n]\nat = "02:30"\nbuild = true\n'
    with pytest.raises(ConfigError) as caught:
        parse_config(content, path=None, env={}, built=lambda _state_dir: BUILT)
    assert str(caught.value) == words
    content = content.replace("build = true", 'toolchain = "nightly"\nbuild = true')
    with pytest.raises(ConfigError) as caught:
        parse_config(content, path=None, env={}, built=lambda _state_dir: BUILT)
    assert str(caught.value) == words


BERLIN = Schedule(name="n", suite="s", toolchain="t", cron="30 2 * * *", timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("month", "day", "hours"),
    # Clocks go forward on the 29th of March, over the very time, and back on the 25th of October.
    [(3, 28, [1, 1, 0]), (10, 24, [0, 0, 1])],
)
def test_each_night_fires_once_when_clocks_change(month: int, day: int, hours: list[int]) -> None:
    start = datetime(2026, month, day, tzinfo=timezone.utc)
    times = list(itertools.islice(fire_times(BERLIN, after=start), 3))
    assert times == [
        start + timedelta(days=night, hours=hour, minutes=30) for night, hour in enumerate(hours)
    ]


def test_a_suite_is_not_late_because_clocks_went_back() -> None:
    fired = datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)
    table = make_timetable({"n": BERLIN}, machine="box", now=fired)
    limit = table.late_from("s", "t", fired + timedelta(seconds=5))
    assert limit == fired + timedelta(hours=25 + 12)


def test_what_is_watched_is_never_late() -> None:
    watched = Schedule(name="n", suite="s", toolchain="t", watch=Watch(kind=WatchKind.GIT, url="x"))
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert make_timetable({"n": watched}, machine="box", now=now).late_from("s", "t", now) is None
