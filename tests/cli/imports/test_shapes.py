"""`hud import`: records whose values are those of several shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.series import find_series
from compile_hud.db.records.results import Outcome
from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores.imports import import_records, only_result, runs
from tests.support.terminal import Terminal


def shape_record(
    metric: str,
    values: Sequence[Any],
    shapes: Any,
    *,
    where: str = "record",
    key: str = "shape",
    night: int = 0,
) -> dict[str, Any]:
    """Return a record of an operator with `shapes` in one of its parts."""
    made = make_record(metric, night=night, model="rms_norm")
    made["metric"]["benchmark_values"] = list(values)
    made["metric"]["extra_info"] = {}
    made["benchmark"]["extra_info"] = {}
    parts = {
        "record": made,
        "metric": made["metric"],
        "metric.extra_info": made["metric"]["extra_info"],
        "benchmark.extra_info": made["benchmark"]["extra_info"],
    }
    parts[where][key] = shapes
    return made


@pytest.mark.parametrize("where", ["record", "metric", "metric.extra_info", "benchmark.extra_info"])
@pytest.mark.parametrize(
    ("key", "shapes", "names"),
    [
        ("shape", ["(16, 2)", "(16, 4)", "(8, 8)"], ["(16, 2)", "(16, 4)", "(8, 8)"]),
        ("shapes", [[16, 2], [16, 4], [8, 8]], ["(16, 2)", "(16, 4)", "(8, 8)"]),
        ("input_shapes", ["a/b", "c", "d"], ["a_b", "c", "d"]),
    ],
)
def test_a_list_of_shapes_next_to_the_values_makes_a_case_of_each(
    terminal: Terminal, where: str, key: str, shapes: list[Any], names: list[str]
) -> None:
    values = [1.5, 2.5, 3.5]
    import_records(terminal, shape_record("tile_ms", values, shapes, where=where, key=key))
    (document,) = runs(terminal)
    measured = {item.case.shape: item.measurements[0].samples for item in document.results}
    assert measured == {name: (value,) for name, value in zip(names, values, strict=True)}


@pytest.mark.parametrize("where", ["record", "metric.extra_info"])
@pytest.mark.parametrize("shape", ["(512, 64)", [512, 64]])
def test_one_shape_of_all_values_is_part_of_the_shape(
    terminal: Terminal, where: str, shape: Any
) -> None:
    # As many values as sizes.
    made = shape_record("tile_ms", [1.5, 2.5], shape, where=where, key="input_shape")
    made["benchmark"]["extra_info"] = {"batch_size": 4}
    import_records(terminal, made)
    result = only_result(terminal)
    assert result.case.shape == "bs4-(512, 64)"
    assert result.measurements[0].samples == (1.5, 2.5)


def test_the_same_shape_twice_is_two_launches_of_one_case(terminal: Terminal) -> None:
    import_records(terminal, shape_record("tile_ms", [1.5, 2.5], ["(8,)", "(8,)"]))
    assert only_result(terminal).measurements[0].launches == (1, 1)


def test_other_numbers_of_shapes_than_of_values_are_reported(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_lines(
        terminal.folder / "records.json", [shape_record("tile_ms", [1.5, 2.5], ["(8,)"] * 3)]
    )
    assert terminal.hud("import", "records.json").stdout.splitlines()[1] == words
    assert only_result(terminal).measurements[0].samples == (1.5, 2.5)


def test_a_step_of_one_shape_is_reported_and_a_failed_shape_is_failed(terminal: Terminal) -> None:
    shapes = ["(2, 3)", "(64, 3)", "(2048, 3)"]
    levels = [0.02, 0.3, 7.0]
    records = []
    for night in range(18):
        noise = 1 + 0.004 * (night % 4)
        times = [level * noise for level in levels]
        if night >= 9:
            times[1] *= 1.25
        if night == 13:
            times[2] = 0.0
        gains = [0.0 if time_ms == 0.0 else 2.0 / noise for time_ms in times]
        records.append(shape_record("mine_latency_ms", times, shapes, night=night))
        records.append(shape_record("mine_speedup", gains, shapes, night=night))
        records.append(shape_record("mine_correct", [float(gain > 0) for gain in gains], shapes))
        records[-1] |= {name: records[-2][name] for name in ("timestamp", "head_sha")}
        records[-1]["workflow_id"] = records[-2]["workflow_id"]
    import_records(terminal, *records)
    outcomes = {
        (night, item.case.shape): item.outcome
        for night, document in enumerate(runs(terminal))
        for item in document.results
    }
    assert [key for key, outcome in outcomes.items() if outcome is not Outcome.OK] == [
        (13, "(2048, 3)")
    ]
    assert outcomes[13, "(2048, 3)"] is Outcome.FAILED
    headers = find_series(terminal.store(), metric="mine_latency_ms")
    assert {item.case.shape: item.num_points for item in headers} == {
        "(2, 3)": 18,
        "(64, 3)": 18,
        "(2048, 3)": 17,
    }
    assert terminal.hud("detect").exit_code == 0
    alerts = terminal.json("regressions", "--state", "all", "--json")
    assert {(alert["metric"], alert["shape"]) for alert in alerts} == {
        ("mine_latency_ms", "(64, 3)"),
        ("outcome", "(2048, 3)"),
    }
    (alert,) = (alert for alert in alerts if alert["metric"] != "outcome")
    assert alert["change_pct"] == pytest.approx(25, abs=2)


def test_a_shape_with_a_text_for_its_value_fails_alone(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    values = [1.5, "CUDA OOM", None, 4.5]
    report = import_records(terminal, shape_record("tile_ms", values, ["a", "b", "c", "d"]))
    (document,) = runs(terminal)
    assert {item.case.shape: item.outcome for item in document.results} == {
        "a": Outcome.OK,
        "b": Outcome.OUT_OF_MEMORY,
        "d": Outcome.OK,
    }
    assert report["skipped_first"] == words


@pytest.mark.parametrize(
    ("metric", "has_number"),
    [
        ("tuned_latency", False),
        ("tuned latency(us)", False),
        ("avg_speedup_x", False),
        ("output_throughput (tokens/s)", False),
        ("latency_delta_ms", True),
        ("speedup_loss", True),
        ("queue_depth", True),
        ("nolatency", True),
    ],
)
def test_a_zero_of_a_metric_that_cannot_be_zero_is_no_number(
    terminal: Terminal, metric: str, has_number: bool
) -> None:
    import_records(terminal, make_record(metric, 0.0), make_record("tile_ms", 2.0))
    result = only_result(terminal)
    assert result.outcome is Outcome.OK
    names = {item.metric for item in result.measurements}
    assert names == ({metric, "tile_ms"} if has_number else {"tile_ms"})
    assert len(result.warnings) == int(not has_number)
    # A second file of the same run finds both.
    report = import_records(terminal, make_record("graph_breaks", 3.0), name="more.json")
    assert report["changed"] == 1
    assert {item.metric for item in only_result(terminal).measurements} == {*names, "graph_breaks"}
    assert len(only_result(terminal).warnings) == int(not has_number)
