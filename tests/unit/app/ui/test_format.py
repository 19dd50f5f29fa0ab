"""From stored numbers to text."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from compile_hud.app.ui.format import (
    Scale,
    age,
    column_scale,
    duration,
    estimate,
    local_moment,
    moment,
    outcome_label,
    percent,
    quantity,
    scale_for,
    significant,
)
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import shortened
from tests.support.builders import START


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.3456, "s", "12.3 s"),
        (0.0123456, "s", "12.3 ms"),
        (0.0000123456, "s", "12.3 us"),
        (4.2e-8, "s", "42.0 ns"),
        (4.2e-13, "s", "0.000420 ns"),
        (512.0, "B", "512 B"),
        (3.2e8, "B", "305 MiB"),
        (5 * 2.0**30, "B", "5.00 GiB"),
        (1.3449, "x", "1.34x"),
        (3.0, "1", "3"),
        (0.5, "1", "0.500"),
        (0.0, "1", "0"),
        (0.0, "s", "0 s"),
        (12345.0, "tokens/s", "12.3 k tokens/s"),
        (7.0, "parsecs", "7.00 parsecs"),
        (0.01234, "J", "12.3 mJ"),
        (287.4, "W", "287 W"),
        (291_954_688.0, "FLOP", "292 MFLOP"),
        (1.1e11, "FLOP/s", "110 GFLOP/s"),
        (5432.0, "FLOP/s", "5.43 kFLOP/s"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (0.4567, "share", "45.7 %"),
        (1.2, "share", "120 %"),
    ],
)
def test_a_quantity_is_shown_in_the_unit_that_suits_it(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_counts_are_whole_and_have_separators() -> None:
    assert quantity(109514298.0, "1") == "109,514,298"
    assert estimate(1472.0, low=1470.0, high=1475.0, unit="1") == "1,472 [1,470, 1,475]"


def test_one_scale_serves_a_whole_column() -> None:
    scale = scale_for("s", [0.0004, 0.012, 0.140])
    assert scale == Scale(1e-3, "ms")
    assert [scale.number(value) for value in (0.0004, 0.012, 0.140)] == ["0.400", "12.0", "140"]


def test_zeros_do_not_choose_the_scale() -> None:
    assert scale_for("B", [0.0, 0.0, 2.0**21]).unit == "MiB"


def test_a_column_without_values_has_a_scale() -> None:
    assert scale_for("s", []) == Scale(1.0, "s")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234.5, "1234"),
        (123.456, "123"),
        (1.0, "1.00"),
        (9.997, "10.0"),
        (0.00123456, "0.00123"),
        (0.0000123456, "1.23e-05"),
        (12345678.0, "1.23e+07"),
        (-2.5, "-2.50"),
        (float("inf"), "inf"),
    ],
)
def test_three_digits_are_significant(value: float, text: str) -> None:
    assert significant(value) == text


def test_an_estimate_and_its_interval_share_a_unit() -> None:
    assert estimate(0.0123, low=0.0119, high=0.0128, unit="s") == "12.3 ms [11.9, 12.8]"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (9.997, 10.62, "[10.0, 10.6]"),
        (9.95, 10.62, "[9.9, 10.6]"),
        (9.96, 10.62, "[9.96, 10.62]"),
        # An estimate between them stays between them.
        (9.96, 10.04, "[9.96, 10.04]"),
        (9.9972, 10.003, "[9.997, 10.003]"),
        (0.996, 1.004, "[0.996, 1.004]"),
        (96.4, 104.2, "[96, 104]"),
        (-1.25, 10.1, "[-1.25, 10.10]"),
        (0.012, 104.2, "[0.0120, 104]"),
        (2e-9, 104.2, "[2.00e-09, 104]"),
    ],
)
def test_both_ends_of_an_interval_have_as_many_decimals(low: float, high: float, text: str) -> None:
    assert Scale(1.0, "ms").interval(low, high) == text


def test_what_differs_in_rounding_alone_has_no_interval() -> None:
    assert Scale(1e9, "GB").interval(4999999999.999992, 5e9) == ""


def test_one_sample_has_no_interval() -> None:
    assert Scale(1.0, "x").interval(1.5, 1.5) == Scale(1.0, "J").interval(2.0, 2.0) == ""
    assert estimate(0.024, low=0.024, high=0.024, unit="J") == "24.0 mJ"


def test_the_least_of_a_column_has_digits() -> None:
    assert column_scale("B/s", [5.1e6, 1.17e12, 4e12]) == Scale(1e9, "GB/s")
    assert column_scale("B/s", [1.1e12, 4e12]) == scale_for("B/s", [1.1e12, 4e12])
    assert column_scale("s", [1e-15, 1.0]).unit == "ns"
    assert column_scale("share", [1e-9, 1.0]).unit == "%"
    assert column_scale("parsecs", [1e-9, 1.0]) == Scale(1.0, "parsecs")
    assert column_scale("s", []) == Scale(1.0, "s")


def test_a_ratio_has_no_space_before_its_unit() -> None:
    assert estimate(1.5, low=1.48, high=1.52, unit="x") == "1.50x [1.48, 1.52]"
    assert estimate(1.0, low=0.998, high=1.002, unit="x") == "1.00x [0.998, 1.002]"
    assert estimate(1.0, low=0.9999999, high=1.0000001, unit="x") == "1.00x [1.00, 1.00]"


@pytest.mark.parametrize(
    ("change", "text"), [(21.3, "+21.3 %"), (-3.0, "-3.0 %"), (-0.04, "0.0 %"), (960.4, "+960.4 %")]
)
def test_a_change_carries_its_sign(change: float, text: str) -> None:
    assert percent(change) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-4.0, "0 s"),
        (45.4, "45 s"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 05 min"),
        (273_600.0, "3 d 4 h"),
    ],
)
def test_a_duration_reads_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [
        (timedelta(seconds=30), "just now"),
        (timedelta(minutes=5), "5 min ago"),
        (timedelta(hours=47), "47 h ago"),
        (timedelta(days=12), "12 d ago"),
        (timedelta(seconds=-59), "just now"),
        (timedelta(hours=-3.5), "in 3 h"),
    ],
)
def test_an_age_reads_in_its_largest_unit(passed: timedelta, text: str) -> None:
    assert age(START, now=START + passed) == text


def test_a_moment_says_its_time_zone() -> None:
    assert moment(START) == "2026-01-01 02:30 UTC"


def test_known_metrics_have_readable_names_and_unknown_ones_keep_theirs() -> None:
    names = ("latency_s", "graph_breaks", "their_own_metric")
    assert [metric_label(name) for name in names] == [
        "latency",
        "graph breaks",
        "their_own_metric",
    ]


def test_outcomes_read_as_words() -> None:
    assert outcome_label("out_of_memory") == "out of memory"


def test_a_cut_is_visible() -> None:
    assert shortened("abcdefgh", limit=6) == "abc..."
    assert shortened("abcdef", limit=6) == "abcdef"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("latency_s", "latency"),
        ("forward_s", "forward"),
        ("graph_breaks", "graph breaks"),
        ("energy_j", "energy"),
        ("compile_cold_cpu_s", "cold compile (CPU time)"),
        ("their_time_s", "their_time_s"),
    ],
)
def test_a_label_leaves_out_the_unit_of_a_metric_that_is_ours(name: str, label: str) -> None:
    assert metric_label(name) == label


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "2026-03-29 23:45 UTC"),
        ("Europe/Athens", "2026-03-30 02:45 UTC+3"),
        ("Asia/Kathmandu", "2026-03-30 05:30 UTC+5:45"),
        ("America/Caracas", "2026-03-29 19:45 UTC-4"),
        ("America/St_Johns", "2026-03-29 21:15 UTC-2:30"),
    ],
)
def test_a_local_time_has_its_offset(zone: str, text: str) -> None:
    at = datetime(2026, 3, 29, 23, 45, tzinfo=timezone.utc)
    assert local_moment(at, ZoneInfo(zone)) == text
    assert moment(at) == "2026-03-29 23:45 UTC"


def test_an_offset_follows_daylight_saving() -> None:
    at = datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)
    zone = ZoneInfo("Europe/Madrid")
    texts = [local_moment(at + timedelta(hours=hours), zone) for hours in (0, 1)]
    assert texts == ["2026-10-25 02:30 UTC+2", "2026-10-25 02:30 UTC+1"]
