"""`hud import`: the unit of a series that changes."""

from __future__ import annotations

from typing import Any

import pytest

from compile_hud.db.queries.series import find_series
from tests.support.records.v3_records import make_record
from tests.support.stores.imports import import_records, only_result
from tests.support.terminal import Terminal

NIGHTS = 24


def record(value: float, unit: str, *, night: int, metric: str = "alpha") -> dict[str, Any]:
    made = make_record(metric, value * (1 + 0.01 * (night % 3)), night=night)
    made["metric"]["extra_info"] = {"unit": unit, "direction": "lower"}
    return made


def nights(before: tuple[float, str], after: tuple[float, str]) -> list[dict[str, Any]]:
    return [
        record(*(before if night < NIGHTS // 2 else after), night=night) for night in range(NIGHTS)
    ]


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((10.0, "ms"), (0.010, "s")),
        ((0.010, "s"), (10.0, "ms")),
        ((10.0, "ms"), (10_000.0, "us")),
        ((3.0, "GiB"), (3072.0, "MiB")),
        ((2.0, "MB/s"), (2000.0, "kB/s")),
    ],
)
def test_units_of_one_dimension_make_one_series_without_a_step(
    terminal: Terminal, before: tuple[float, str], after: tuple[float, str], is_at_once: bool
) -> None:
    records = nights(before, after)
    if not is_at_once:
        import_records(terminal, *records[: NIGHTS // 2])
        records = records[NIGHTS // 2 :]
    report = import_records(terminal, *records)
    (header,) = find_series(terminal.store(), metric="alpha")
    assert (header.unit, header.num_points) == (before[1], NIGHTS)
    assert header.last_value == pytest.approx(before[0], rel=0.03)
    assert report["unit_changes"] == [
        {
            "metric": "alpha",
            "series_unit": before[1],
            "stated_unit": after[1],
            "imported_as": "alpha",
        }
    ]
    assert terminal.hud("detect").exit_code == 0
    assert terminal.json("regressions", "--state", "all", "--json") == []


def test_units_without_a_common_dimension_make_two_series(terminal: Terminal) -> None:
    report = import_records(terminal, *nights((10.0, "requests"), (900.0, "bytes")))
    assert [change["imported_as"] for change in report["unit_changes"]] == ["alpha (bytes)"]
    # A later file finds the same two series.
    import_records(terminal, record(900.0, "bytes", night=NIGHTS))
    points = {
        name: [header.num_points for header in find_series(terminal.store(), metric=name)]
        for name in ("alpha", "alpha (bytes)")
    }
    assert points == {"alpha": [NIGHTS // 2], "alpha (bytes)": [NIGHTS // 2 + 1]}
    terminal.hud("detect")
    assert terminal.json("regressions", "--state", "all", "--json") == []


def test_a_record_without_a_unit_changes_none(terminal: Terminal) -> None:
    bare = make_record("alpha", 10.0, night=1)
    report = import_records(terminal, record(10.0, "ms", night=0), bare)
    assert report["unit_changes"] == []
    (header,) = find_series(terminal.store(), metric="alpha")
    assert (header.unit, header.num_points) == ("ms", 2)


def test_other_cases_may_have_other_units(terminal: Terminal) -> None:
    other = record(10.0, "requests", night=0)
    other["model"]["name"] = "other"
    report = import_records(terminal, record(10.0, "ms", night=0), other)
    assert report["unit_changes"] == []
    headers = find_series(terminal.store(), metric="alpha")
    assert sorted(header.unit for header in headers) == ["ms", "requests"]


@pytest.mark.parametrize("is_further_fact", [True, False])
def test_unit_and_direction_of_the_metric_itself_count_as_well(
    terminal: Terminal, is_further_fact: bool
) -> None:
    made = make_record("cache footprint", 640.0)
    stated = {"unit": "KiB", "direction": "higher"}
    made["metric"] |= {"extra_info": stated} if is_further_fact else stated
    (metric,) = import_records(terminal, made)["metrics"]
    assert (metric["unit"], metric["direction"], metric["judged"], metric["guessed"]) == (
        "KiB",
        "higher_is_better",
        True,
        False,
    )


def test_a_unit_of_the_metric_itself_scales_and_is_checked(terminal: Terminal) -> None:
    good, bad = make_record("abs_latency", 2500.0), make_record("abs_latency", 1.0, model="other")
    good["metric"]["unit"] = "us"
    bad["metric"]["unit"] = "GB"
    report = import_records(terminal, good, bad)
    assert list(report["skipped"].values()) == [1]
    (latency,) = only_result(terminal).measurements
    assert (latency.metric, latency.median) == ("latency_s", pytest.approx(0.0025))


@pytest.mark.parametrize(
    ("unit", "name", "value"),
    [
        ("us", "latency_s", 0.000042),
        ("ms", "latency_s", 0.042),
        ("s", "latency_s", 42.0),
        ("", "latency", 42.0),
        ("cycles", "latency", 42.0),
    ],
)
def test_a_latency_with_a_unit_of_time_is_ours(
    terminal: Terminal, unit: str, name: str, value: float
) -> None:
    made = make_record("latency", 42.0)
    made["metric"]["unit"] = unit
    import_records(terminal, made)
    (latency,) = only_result(terminal).measurements
    assert (latency.metric, latency.median) == (name, pytest.approx(value))


def test_operators_in_units_of_the_metric_are_judged_in_either_mode(terminal: Terminal) -> None:
    metrics = (
        ("latency", "us", 75.0),
        ("peak memory", "KB", 320.0),
        ("memory bandwidth", "GB/s", 88.0),
    )
    records = []
    for name, unit, value in metrics:
        for is_compiled, factor in ((False, 1.0), (True, 1.5)):
            made = make_record(name, value * factor, model="softmax_R3_C5_cpu")
            made["metric"]["unit"] = unit
            made["benchmark"]["extra_info"] = {"use_compile": is_compiled, "device": "cpu"}
            made["model"] = {"name": "softmax_R3_C5_cpu", "type": "micro-benchmark"}
            records.append(made)
    report = import_records(terminal, *records)
    assert {metric["name"] for metric in report["metrics"] if metric["judged"]} == {
        "latency_s",
        "peak memory",
        "memory bandwidth",
    }
    headers = find_series(terminal.store(), metric="latency_s")
    levels = {header.case.mode: header.last_value for header in headers}
    assert levels == pytest.approx({"eager": 75e-6, "default": 112.5e-6})
