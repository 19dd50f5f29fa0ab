"""`hud import`: one line for each thing that is merged, skipped or not read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores.imports import import_records, report_of
from tests.support.terminal import Terminal


def test_each_thing_is_one_line_with_its_number_and_an_example(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    records: list[dict[str, Any]] = []
    for number in range(8):
        record = make_record("p90_ms", 3.0 + number, model=f"net{number % 2}")
        record["benchmark"]["extra_info"]["chunk"] = number // 2
        record["metric"] |= {"target_value": 4.0, "extra_info": {"aggregation": "p90"}}
        records.append(record | {"power_cap": 300, "note": None})
    records += [make_record("p90_ms", [], model="none"), make_record("p90_ms", ["n/a"])]
    write_lines(terminal.folder / "records.json", records)
    _, *lines = terminal.hud("import", "records.json").stdout.splitlines()
    assert lines == words
    report = report_of(terminal, "records.json", "--store", "other.duckdb")
    assert report["unread"] == {"the field metric.target_value": 8, "the field power_cap": 8}
    assert report["mixed"] == {"chunk": 6}
    assert report["mixed_first"] == {"chunk": ["net0 p90_ms"]}


def test_a_skipped_record_may_have_parts_of_any_form(terminal: Terminal) -> None:
    broken = [{"benchmark": "text"}, {"metric": {"extra_info": {}}, "benchmark": 1, "shape": 2}]
    report = import_records(terminal, *broken, make_record())
    assert (report["rows"], sum(report["skipped"].values())) == (1, 2)


def test_a_file_whose_fields_are_all_read_has_no_remark(terminal: Terminal) -> None:
    report = import_records(terminal, make_record(), make_record("speedup", 1.5))
    assert (report["unread"], report["mixed"], report["skipped"]) == ({}, {}, {})


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("inputs", {"inputs": {"x": {"dtype": "fp8"}}}, {"inputs": {"x": {"dtype": "fp16"}}}),
        ("inputs", {}, {"inputs": {"x": {"dtype": "fp16"}}}),
        ("metric.extra_info.method", "forward", "load"),
        ("model.extra_info", {"layers": 4}, {"layers": 8}),
    ],
)
def test_records_that_differ_outside_of_the_benchmark_are_counted(
    terminal: Terminal, name: str, first: Any, second: Any
) -> None:
    records = []
    for number, fields in enumerate((first, second)):
        record = make_record("p90_ms", 3.0 + number)
        if name == "inputs":
            record |= fields
        elif name == "model.extra_info":
            record["model"]["extra_info"] = fields
        else:
            record["metric"]["extra_info"] = {"method": fields}
        records.append(record)
    assert import_records(terminal, *records)["mixed"] == {name: 1}


def test_fields_of_a_torchbench_file_are_counted(terminal: Terminal) -> None:
    document = {"name": "suite", "metrics": {"loss": 2.0}, "github": {"id": 1}, "author": "x"}
    (terminal.folder / "file.json").write_text(json.dumps(document))
    report = report_of(terminal, "file.json")
    assert report["unread"] == {"the field author": 1, "the field github": 1}
