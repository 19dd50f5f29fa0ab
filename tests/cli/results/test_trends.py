"""The output of `hud trends`."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import NoSuchResult
from tests.support.builders import make_alert, make_case, make_run_ref
from tests.support.stores.stored_results import save_alerts
from tests.support.stores.trend_stores import NUM_NIGHTS, fill_trends, night
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.clock.advance((night(NUM_NIGHTS) - terminal.clock()).total_seconds())
    return terminal


@pytest.fixture
def filled(terminal: Terminal) -> Terminal:
    store = terminal.store()
    fill_trends(store)
    save_alerts(store, [make_alert(case=make_case("bert"), first_bad=make_run_ref())])
    return terminal


def test_each_metric_has_a_table_with_trend_change_and_cohort(
    filled: Terminal, words: SnapshotAssertion
) -> None:
    result = filled.hud("trends")
    assert result.exit_code == 0
    assert result.stdout == words


def test_dimension_has_a_column(filled: Terminal, words: SnapshotAssertion) -> None:
    result = filled.hud("trends", "--by", "family", "--metric", "speedup", "--mode", "default")
    assert re.sub(" +", " ", result.stdout) == words


def test_json_has_every_point(filled: Terminal) -> None:
    document = filled.json("trends", "--metric", "speedup", "--mode", "max-autotune", "--json")
    assert (document["machine"], document["toolchain"]) == ("box", "stable")
    assert len(document["runs"]) == NUM_NIGHTS
    (trend,) = document["trends"]
    assert (trend["unit"], trend["direction"]) == ("x", "higher_is_better")
    assert [point["num_counted"] for point in trend["points"]] == [2, 2, 2, 3, 2, 2]
    assert trend["change"]["ratio"] == pytest.approx(2**0.5)
    assert trend["change"]["to_run_id"] == "night-5-box"
    assert {mark["kind"] for mark in document["marks"]} == {
        *("environment", "model_code", "revision"),
    }


def test_json_of_a_pass_rate_has_a_difference(filled: Terminal) -> None:
    options = ("--metric", "pass_rate", "--mode", "max-autotune", "--json")
    (trend,) = filled.json("trends", *options)["trends"]
    assert trend["change"]["difference"] == pytest.approx(-1 / 3)
    assert trend["change"]["interval"] is None


def test_csv_has_a_row_for_each_point(filled: Terminal) -> None:
    result = filled.hud("trends", "--csv", "--metric", "speedup", "--mode", "default")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [row["run_id"] for row in rows] == [f"night-{n}-box" for n in range(NUM_NIGHTS)]
    assert rows[3]["joined"] == "t5/inference/tiny/fp32/cpu"
    assert float(rows[-1]["value"]) == pytest.approx(32**0.5)


@pytest.mark.parametrize(
    ("since", "num_runs"),
    [
        ("2d", 2),
        ("1w", 6),
        ("50h", 2),
        ("9999d", 6),
        (f"{night(2):%Y-%m-%d}", 4),
        (night(4).isoformat(), 2),
    ],
)
def test_range_is_a_length_or_a_first_date(filled: Terminal, since: str, num_runs: int) -> None:
    document = filled.json("trends", "--since", since, "--metric", "speedup", "--json")
    assert len(document["runs"]) == num_runs


@pytest.mark.parametrize(
    "since", ["0d", "0h", "3 months", "-4d", "10000d", "12345678w", "99999999999d"]
)
def test_other_ranges_are_refused(filled: Terminal, since: str, words: SnapshotAssertion) -> None:
    result = filled.hud("trends", "--since", since)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == words


def test_json_and_csv_exclude_each_other(filled: Terminal, words: SnapshotAssertion) -> None:
    result = filled.hud("trends", "--json", "--csv")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == words


def test_filters_without_a_result_are_an_error(filled: Terminal, words: SnapshotAssertion) -> None:
    error = filled.error("trends", "--model", "gpt*")
    assert isinstance(error, NoSuchResult)
    assert str(error) == words
    assert (
        filled.error("trends", "--since", "1d", "--machine", "elsewhere").parameters["machine"]
        == "elsewhere"
    )


def test_alerts_before_the_range_are_not_marked(filled: Terminal) -> None:
    since = (night(1) + timedelta(hours=1)).isoformat()
    document = filled.json("trends", "--since", since, "--json")
    assert "alert" not in {mark["kind"] for mark in document["marks"]}


def test_until_ends_the_range_and_a_date_is_in_it_whole(filled: Terminal) -> None:
    whole = filled.json("trends", "--metric", "speedup", "--json")
    assert whole["until"] is None
    last = f"{night(3):%Y-%m-%d}"
    part = filled.json("trends", "--metric", "speedup", "--until", last, "--json")
    assert [run["id"] for run in part["runs"]] == [run["id"] for run in whole["runs"]][:4]
    before = f"{night(3) - timedelta(minutes=1):%Y-%m-%dT%H:%M}"
    assert len(filled.json("trends", "--until", before, "--json")["runs"]) == 3
    days = (night(NUM_NIGHTS) - night(2)).days
    assert len(filled.json("trends", "--until", f"{days}d", "--json")["runs"]) == 3


@pytest.mark.parametrize("end", ["2001-02-03", "99999d", "someday"])
def test_an_end_before_the_range_is_refused(
    filled: Terminal, end: str, words: SnapshotAssertion
) -> None:
    result = filled.hud("trends", "--until", end)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == words


def test_report_takes_the_end_as_well(filled: Terminal) -> None:
    last = f"{night(1):%Y-%m-%d}"
    text = filled.hud("report", "--until", last).stdout
    assert f": 2 runs from {night(0):%Y-%m-%d} to {last}" in text
