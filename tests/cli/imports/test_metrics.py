"""`hud import`: which metric is which, and what is judged of those that are none of ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.series import find_series
from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.runner.analysis.judging.attribution import EAGER_OR_MACHINE
from tests.support.builders import make_case, make_document, make_result, make_run
from tests.support.records.v3_records import make_record, write_lines
from tests.support.sources import text_of
from tests.support.stores.imports import import_records, only_result, report_of, runs
from tests.support.terminal import Terminal


def test_unknown_metrics_keep_their_name_with_a_direction(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    record = make_record("queue_depth", 3.0)
    record["metric"]["extra_info"] = {"direction": "higher_is_better", "unit": "requests"}
    report = import_records(
        terminal, record, make_record("output_tokens_per_s", 90.0), make_record("ttft_ms", 12.0)
    )
    assert report["metrics"] == [
        {
            "name": "output_tokens_per_s",
            "unit": "1",
            "direction": "higher_is_better",
            "guessed": True,
            "judged": True,
        },
        {
            "name": "queue_depth",
            "unit": "requests",
            "direction": "higher_is_better",
            "guessed": False,
            "judged": True,
        },
        {
            "name": "ttft_ms",
            "unit": "ms",
            "direction": "lower_is_better",
            "guessed": True,
            "judged": True,
        },
    ]
    measured = {
        item.metric: (item.median, item.unit) for item in only_result(terminal).measurements
    }
    assert measured["ttft_ms"] == (12.0, "ms")
    assert only_result(terminal).details["imported"]["directions"] == words
    # What was given is given on; what was guessed is for the next reader to guess.
    lines = terminal.hud("export", "latest", "--format", "v3").stdout.splitlines()
    metrics = [json.loads(line)["metric"] for line in lines]
    assert {item["name"]: item["extra_info"].get("direction") for item in metrics[1:]} == {
        "output_tokens_per_s": None,
        "queue_depth": "higher_is_better",
        "ttft_ms": None,
    }


def test_what_is_judged_and_how_is_reported(terminal: Terminal, words: SnapshotAssertion) -> None:
    records = [
        make_record(name, 3.0) for name in ("queue", "depth", "fill_gb", "speedup", "ttft_ms")
    ]
    records[1]["metric"]["extra_info"] = {"direction": "lower"}
    records[2]["metric"]["extra_info"] = {"direction": "up"}
    write_lines(terminal.folder / "records.json", records)
    _, *lines, _ = terminal.hud("import", "records.json").stdout.splitlines()
    assert lines == words


@pytest.mark.parametrize(
    ("metric", "levels", "verdict"),
    [
        ("ttft_ms", (10.0, 13.0), "regression"),
        ("output_tokens_per_s", (90.0, 60.0), "regression"),
        ("output_tokens_per_s", (60.0, 90.0), "improvement"),
        ("queue_depth", (10.0, 13.0), None),
    ],
)
def test_a_metric_of_others_is_judged_when_its_name_gives_the_direction(
    terminal: Terminal, metric: str, levels: tuple[float, float], verdict: str | None
) -> None:
    before, after = levels
    records = [
        make_record(
            metric, (before if night < 12 else after) * (1 + 0.01 * (night % 3)), night=night
        )
        for night in range(20)
    ]
    import_records(terminal, *records)
    alerts = terminal.json("detect", "--json")
    assert [item["verdict"] for item in alerts] == ([verdict] if verdict else [])


def test_a_metric_is_judged_in_the_direction_that_the_import_reports(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    records = [
        make_record("foo", (100.0 if night < 12 else 80.0) * (1 + 0.01 * (night % 3)), night=night)
        for night in range(20)
    ]
    for record in records:
        record["metric"]["extra_info"] = {"unit": "samples/s"}
    write_lines(terminal.folder / "records.json", records)
    shown = terminal.hud("import", "records.json").stdout
    assert shown == words
    report = import_records(terminal, *records[::-1], name="again.json")
    assert [metric["direction"] for metric in report["metrics"]] == ["higher_is_better"]
    assert [item["verdict"] for item in terminal.json("detect", "--json")] == ["regression"]


def stated(direction: str, *, nights: range, rises_at: int = 12) -> list[dict[str, Any]]:
    """Return a metric of which only the records say which way is better, 30 % up at some night."""
    records = [
        make_record(
            "queue_depth",
            (10.0 if night < rises_at else 13.0) * (1 + 0.01 * (night % 3)),
            night=night,
        )
        for night in nights
    ]
    for record in records:
        record["metric"]["extra_info"] = {"direction": direction} if direction else {}
    return records


@pytest.mark.parametrize(
    ("direction", "verdicts"),
    [("lower", ["regression"]), ("higher", ["improvement"]), ("neither", [])],
)
def test_a_direction_that_only_the_records_state_is_judged(
    terminal: Terminal, direction: str, verdicts: list[str]
) -> None:
    records = stated(direction, nights=range(20))
    import_records(terminal, *records)
    assert [item["verdict"] for item in terminal.json("detect", "--json")] == verdicts
    # The same again, in another file, is nothing new.
    report = import_records(terminal, *records[::-1], name="again.json")
    assert (report["new"], report["changed"], report["known"]) == (0, 0, 20)
    (header,) = find_series(terminal.store())
    assert str(header.direction).startswith(direction)


def test_the_newest_run_that_states_a_direction_counts_in_whatever_order_files_come(
    terminal: Terminal,
) -> None:
    import_records(terminal, *stated("higher", nights=range(10, 15)))
    import_records(terminal, *stated("lower", nights=range(10)), name="older.json")
    import_records(terminal, *stated("", nights=range(15, 20)), name="silent.json")
    (alert,) = terminal.json("detect", "--json")
    assert (alert["verdict"], alert["change_pct"] > 0) == ("improvement", True)
    import_records(terminal, *stated("lower", nights=range(20, 21)), name="newest.json")
    (alert,) = terminal.json("detect", "--json")
    assert (alert["verdict"], alert["change_pct"] > 0) == ("regression", True)


def test_records_of_one_run_that_contradict_each_other_say_neither(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (terminal.folder / "records.json").write_text(
        json.dumps([*stated("lower", nights=range(1)), *stated("higher", nights=range(1))])
    )
    shown = terminal.hud("import", "records.json").stdout
    assert shown == words
    (header,) = find_series(terminal.store())
    assert header.direction is Direction.NEITHER


def test_a_unit_that_is_reported_counts_and_one_that_cannot_be_is_skipped(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    records = [make_record("abs_latency", 0.010), make_record("speedup", 1.5)]
    records[0]["metric"]["extra_info"] = {"unit": "s"}
    records[1]["metric"]["extra_info"] = {"unit": "parsec"}
    report = import_records(terminal, *records)
    assert list(report["skipped"].values()) == [1]
    assert list(report["skipped"]) == words
    assert only_result(terminal).measurements[0].median == 0.010


def with_settings(value: float, **settings: Any) -> dict[str, Any]:
    record = make_record("tokens_per_s", value)
    record["benchmark"]["extra_info"].update(settings)
    return record


def test_another_number_of_devices_is_another_case(terminal: Terminal) -> None:
    report = import_records(
        terminal,
        with_settings(100.0, tensor_parallel_size=1),
        with_settings(300.0, tensor_parallel_size=4),
        with_settings(500.0, args={"tensor_parallel_size": 8, "input_len": 128}),
    )
    assert report["mixed"] == {}
    (document,) = runs(terminal)
    assert [result.case.shape for result in document.results] == [
        "bs16",
        "bs16-tensor_parallel_size=4",
        "bs16-input_len=128-tensor_parallel_size=8",
    ]


def test_launches_that_were_set_otherwise_are_counted_and_reported(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    records = [
        with_settings(100.0, chunk=1, fast=True, output="/a.csv"),
        with_settings(101.0, chunk=1, fast=True, output="/b.csv"),
        with_settings(150.0, chunk=2, fast=False),
    ]
    write_lines(terminal.folder / "records.json", records)
    shown = terminal.hud("import", "records.json").stdout
    assert shown == words
    # Another run may be set as it likes.
    other = with_settings(150.0, chunk=3) | {"workflow_id": 5}
    assert import_records(terminal, records[0], other, name="other.json")["mixed"] == {}


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("backend", {"backend": "hidet"}),
        ("family", {"origins": ["timm"]}),
        ("mode", {"backend": "ipex"}),
    ],
)
def test_cases_of_one_key_are_one_result_with_a_count(
    terminal: Terminal, part: str, fields: dict[str, Any]
) -> None:
    first, second = (with_settings(value, variant="tuned") for value in (40.0, 44.0))
    second["model"] |= fields
    if part == "mode":
        for record in (first, second):
            del record["benchmark"]["extra_info"]["compile_mode"]
    report = import_records(terminal, first, second)
    ((names, count),) = report["mixed"].items()
    assert (part in names, count) == (True, 1)
    (measurement,) = only_result(terminal).measurements
    assert measurement.samples == (40.0, 44.0)


def test_nothing_is_guessed_of_what_became_an_outcome(terminal: Terminal) -> None:
    report = import_records(terminal, make_record("accuracy", "pass"), make_record("speedup", 1.5))
    assert [(metric["name"], metric["judged"]) for metric in report["metrics"]] == [
        ("speedup", True)
    ]


def test_eager_latency_follows_from_speedup_and_latency(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    import_records(terminal, make_record("speedup", 1.5), make_record("abs_latency", 10.0))
    eager = only_result(terminal).measurement("eager_latency_s")
    assert eager is not None
    assert eager.samples == pytest.approx((0.015,))
    assert eager.method == words


def test_numbers_beyond_the_largest_float_are_left_out(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (terminal.folder / "records.json").write_text(
        json.dumps(make_record("speedup", [1.5])).replace("1.5", "1.5, 1" + "0" * 400 + ", 1e999")
    )
    report = report_of(terminal, "records.json")
    measurement = only_result(terminal).measurement("speedup")
    assert measurement is not None
    assert measurement.samples == (1.5,)
    assert list(report["skipped"].values()) == [2]
    assert list(report["skipped"]) == words


def test_a_reference_case_that_was_exported_comes_back_as_any_other(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    case = make_case("pace", family=REFERENCE_FAMILY)
    document = make_document(make_run(plan=[case]), results=[make_result(case=case)])
    (terminal.folder / "run.json").write_text(json.dumps(document.to_json()))
    (terminal.folder / "out.json").write_text(
        terminal.hud("export", "run.json", "--format", "v3").stdout
    )
    report_of(terminal, "out.json")
    assert only_result(terminal).case == replace(case, family="unknown")
    # Without a witness nobody can tell the machine from eager.
    (row,) = [
        line for line in text_of("docs/how-to/interop.md").splitlines() if line[:7] == "| `v3` "
    ]
    assert row == words
    assert f"`{EAGER_OR_MACHINE}`" in row


def test_values_that_are_no_numbers_are_counted_and_named_next_to_those_that_are(
    terminal: Terminal,
) -> None:
    record = json.dumps(make_record("speedup", [0.25]))
    text = record.replace("[0.25]", '["0.5", null, true, 0.25, 1e400, [[1]]]')
    (terminal.folder / "records.json").write_text(f"{record}\n{text}\n")
    why = "a value that no measurement can have (0, or 1e-100 to 1e+100 with either sign)"
    names = [
        f"line 2, BertForMaskedLM speedup {value}"
        for value in ('"0.5"', "null", "true", "Infinity", "a list")
    ]
    shown = terminal.hud("import", "records.json").stdout
    assert f"  skipped 5: {why} ({'; '.join(names)})\n" in shown
    report = report_of(terminal, "records.json", "--store", "other.duckdb")
    assert (report["rows"], report["skipped"]) == (2, {why: 5})
    assert report["skipped_first"] == {why: names}
