"""The time zone of the reader."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from compile_hud.app import clock


def test_outside_of_a_page_the_zone_is_utc() -> None:
    assert clock.zone() is timezone.utc


def test_zone_of_a_browser_has_its_offset_at_each_date() -> None:
    zone = clock.zone_named("America/St_Johns")
    winter, summer = (datetime(2026, month, 9, tzinfo=zone) for month in (1, 7))
    assert winter.utcoffset() == timedelta(hours=-3, minutes=-30)
    assert summer.utcoffset() == timedelta(hours=-2, minutes=-30)


@pytest.mark.parametrize("name", [None, "", "Mars/Olympus", "../../etc/passwd", "America", "\0"])
def test_unknown_zones_are_utc(name: str | None) -> None:
    assert clock.zone_named(name) is timezone.utc
