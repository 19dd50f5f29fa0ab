from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.shared.text import counted, short_revision
from compile_hud.runner.format import (
    clock,
    distinct,
    levels,
    metric,
    mode_text,
    percent,
    quantity,
    sparkline,
)
from tests.support.builders import make_case, make_measurement, make_result


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "-"),
        (0.0, "s", "0 ns"),
        (1.234, "s", "1.23 s"),
        (83.4, "s", "83.4 s"),
        (834.2, "s", "834 s"),
        (0.0123456, "s", "12.3 ms"),
        (0.000123456, "s", "123 us"),
        (0.0000000004, "s", "0.400 ns"),
        (512, "B", "512 B"),
        (2048, "B", "2.0 KiB"),
        (3 * 1024**2, "B", "3.0 MiB"),
        (5000 * 1024**3, "B", "5000.0 GiB"),
        (1.5, "x", "1.50x"),
        (3, "1", "3"),
        (12345.6, "calls", "12,346 calls"),
        (1472.0, "1", "1,472"),
        (0.5, "1", "0.5"),
        (999.7, "1", "1,000"),
        (0.009997, "s", "10.0 ms"),
        (3830.0, "samples/s", "3.83 k samples/s"),
        (1_306_586.0, "tokens/s", "1.31 M tokens/s"),
        (12.3, "tokens/s", "12.3 tokens/s"),
        (1_306_586.0, "parsecs", "1,306,586 parsecs"),
        (0.01234, "J", "12.3 mJ"),
        (1234.5, "J", "1.23 kJ"),
        (287.4, "W", "287 W"),
        (291_954_688, "FLOP", "292 MFLOP"),
        (12, "FLOP", "12.0 FLOP"),
        (1.1e11, "FLOP/s", "110 GFLOP/s"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (0.4567, "share", "45.7 %"),
        (1.2, "share", "120 %"),
        (0.05432, "share", "5.43 %"),
        (0.0, "share", "0 %"),
        (1e-9, "share", "1.00e-07 %"),
    ],
)
def test_a_quantity_has_a_fitting_unit(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit=unit) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (75.0, "1:15"), (3725, "1:02:05")])
def test_a_duration_reads_like_a_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_change_has_its_sign() -> None:
    assert percent(5.04) == "+5.0 %"
    assert percent(-0.5) == "-0.5 %"
    assert percent(None) == "-"


def test_a_metric_that_is_not_there_is_a_dash() -> None:
    result = make_result(measurements=[make_measurement("latency_s", samples=[0.002])])
    assert metric(result, "latency_s") == "2.00 ms"
    assert metric(result, "peak_bytes") == "-"


def test_a_mode_that_ran_as_another_says_so(words: SnapshotAssertion) -> None:
    case = make_case(mode="reduce-overhead")
    assert mode_text(make_result(case=case)) == "reduce-overhead"
    assert mode_text(make_result(case=case, effective_mode="")) == "reduce-overhead"
    fallback = make_result(case=case, effective_mode="default")
    assert mode_text(fallback) == words


def test_names_that_repeat_are_numbered() -> None:
    assert distinct(["stable", "nightly", "stable", "stable"]) == [
        "stable",
        "nightly",
        "stable 2",
        "stable 3",
    ]


@pytest.mark.parametrize(("number", "text"), [(0, "no jobs"), (1, "1 job"), (2, "2 jobs")])
def test_a_count_of_one_is_singular(number: int, text: str) -> None:
    assert counted(number, "job") == text


@pytest.mark.parametrize(
    ("revision", "text"),
    [
        ("c5f3a9e1b2d4f6a8c0e1" * 2, "c5f3a9e1b2"),
        ("c5f3a9e1b2d4", "c5f3a9e1b2d4"),
        (f"2.13.0@{'c5f3a9e1b2' * 4}", f"2.13.0@{'c5f3a9e1b2' * 4}"),
        ("a" * 41, "a" * 41),
        ("", ""),
    ],
)
def test_a_whole_commit_hash_alone_is_reported_by_its_beginning(revision: str, text: str) -> None:
    assert short_revision(revision) == text


@pytest.mark.parametrize(
    ("baseline", "candidate", "text"),
    [(0.0, 4096.0, "0 B -> 4.0 KiB"), (None, 1.0, ""), (1.0, None, "")],
)
def test_levels_have_both_sides_or_are_empty(
    baseline: float | None, candidate: float | None, text: str
) -> None:
    assert levels(baseline, candidate, unit="B") == text


def test_a_sparkline_has_a_bar_a_value_between_the_least_and_the_most() -> None:
    assert sparkline([1.0, 2.0, 3.0]) == "\u2581\u2585\u2588"
    assert sparkline([1.0]) == ""


def test_a_series_within_its_noise_is_flat() -> None:
    assert set(sparkline([1.0, 1.001, 0.999, 1.0])) == {"\u2581"}


def test_a_series_of_zeros_is_flat() -> None:
    assert sparkline([0.0, 0.0]) == "\u2581\u2581"


def test_bounds_give_the_height_also_where_nothing_changes() -> None:
    assert sparkline([1.0, 1.0], bounds=(0.0, 1.0)) == "\u2588\u2588"
    assert sparkline([0.0, 0.5, 1.0], bounds=(0.0, 1.0)) == "\u2581\u2585\u2588"


def test_a_smaller_least_range_shows_smaller_changes() -> None:
    assert sparkline([1.0, 1.01], least_range=0.01) == "\u2581\u2588"
