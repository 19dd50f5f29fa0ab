from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import RunDocument
from compile_hud.runner.execution.environment import fingerprint
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.records.v3_records import make_record
from tests.support.stores.imports import import_records, report_of, runs
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def test_a_stored_run_and_its_result_file_give_the_same_log(terminal: Terminal) -> None:
    assert terminal.hud("run", "--suite", "mine", "--json", "run.json").exit_code == 0
    stored = terminal.hud("export", "latest", "--format", "mlperf")
    assert stored.exit_code == 0, stored.output
    lines = stored.stdout.splitlines()
    assert [line.startswith(":::MLLOG {") for line in lines] == [True] * len(lines)
    assert stored.stdout.count('"run_stop"') == 2
    assert terminal.hud("export", "run.json", "--format", "mlperf", "-o", "run.log").stdout == ""
    assert (terminal.folder / "run.log").read_text() == stored.stdout


def test_another_format_is_refused_with_what_there_is(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("export", "latest", "--format", "xml")
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize("format_name", ["v3", "csv", "openmetrics", "mlperf", "findings"])
@pytest.mark.parametrize("others", [(), ("--case", "t5")])
def test_a_case_that_no_run_has_is_an_error_with_the_nearest_name_in_each_format(
    terminal: Terminal, format_name: str, others: tuple[str, ...]
) -> None:
    put(terminal, night(1), night(2))
    names = ("--case", "brt", *others)
    result = terminal.hud("export", "all", "--format", format_name, *names)
    assert result.exit_code == 2
    assert "mean bert?" in result.stderr
    path = terminal.folder / "out"
    assert terminal.hud("export", "all", "--format", format_name, *names, "-o", str(path)).exit_code
    assert not path.exists()


def test_a_metric_that_no_run_has_is_an_error_with_the_nearest_name(terminal: Terminal) -> None:
    put(terminal, night(1))
    result = terminal.hud("export", "all", "--format", "csv", "--metric", "sped*")
    assert result.exit_code == 2
    assert "speedup" in result.stderr


def test_a_run_that_does_not_exist_is_one_line(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("export", "nothing", "--format", "mlperf")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_file_that_cannot_be_written_is_one_line(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    result = terminal.hud("export", "latest", "--format", "mlperf", "-o", "no/such/folder.log")
    assert result.exit_code == 2
    assert result.stderr == words


FACTS = {"device_name": "Some GPU", "device_kind": "cuda", "flags": {"tf32": True}, "num_cpus": 8}


def night(number: int) -> RunDocument:
    """Return a run of three cases, of which one failed, at night `number`."""
    at = START + timedelta(days=number)
    cases = [
        make_case("bert", device="cuda"),
        make_case("google/vit", mode="max-autotune", variant="mine", dtype="bf16", device="cuda"),
        make_case("t5", mode="eager", phase="training", device="cuda"),
    ]
    run = make_run(
        f"run-{number}",
        started_at=at,
        finished_at=at,
        plan=cases,
        environment=FACTS,
        fingerprint=fingerprint(FACTS),
        revision=f"2.13.0@{number:010x}",
    )
    speedup = make_measurement("speedup", samples=[1.1, 1.3, 1.2, 0.1 + 0.2], launches=(3, 1))
    counts = make_measurement("graph_breaks", samples=[2.0, 2.0, 2.0], launches=(1, 1, 1))
    odd = make_measurement("ttft_ms", unit="ms", samples=[1e-9, 7.0])
    return make_document(
        run,
        results=[
            make_result(f"a-{number}", run=run, case=cases[0], measurements=[speedup, counts]),
            make_result(f"b-{number}", run=run, case=cases[1], measurements=[odd]),
            make_result(
                f"c-{number}", run=run, case=cases[2], outcome="inaccurate", reason="off: 3 %"
            ),
        ],
    )


def put(terminal: Terminal, *documents: RunDocument) -> None:
    with terminal.store().write() as connection:
        put_documents(connection, documents, at=START)


def test_what_is_exported_as_v3_is_imported_as_it_was(terminal: Terminal) -> None:
    put(terminal, night(0), night(1))
    assert terminal.hud("export", "all", "--format", "v3", "-o", "out.json").exit_code == 0
    other = ("--store", "other.duckdb")
    assert terminal.hud("import", "out.json", *other).exit_code == 0
    again = terminal.hud("export", "all", "--format", "v3", "-o", "again.json", *other)
    assert again.exit_code == 0, again.output
    assert (terminal.folder / "again.json").read_text() == (
        terminal.folder / "out.json"
    ).read_text()


def test_imported_runs_keep_cases_samples_and_environment(terminal: Terminal) -> None:
    put(terminal, night(0))
    terminal.hud("export", "latest", "--format", "v3", "-o", "out.json")
    (terminal.folder / ".hud" / "store.duckdb").unlink()
    assert terminal.hud("import", "out.json").exit_code == 0
    (after,) = runs(terminal)
    before = night(0)
    for name in ("started_at", "suite", "revision", "machine", "fingerprint", "plan"):
        assert getattr(after.run, name) == getattr(before.run, name)
    origin = {"format": "v3", "workflow": "0", "attempt": "0", "run": before.run.id}
    assert after.run.environment == {**FACTS, "imported": origin}
    assert after.run.toolchain == "imported:stable"
    for ours, theirs in zip(before.results, after.results, strict=True):
        assert (ours.case, ours.outcome, ours.reason) == (
            theirs.case,
            theirs.outcome,
            theirs.reason,
        )
        measured = {item.metric: item for item in theirs.measurements}
        assert set(measured) == {item.metric for item in ours.measurements}
        for item in ours.measurements:
            read = measured[item.metric]
            assert (read.samples, read.unit) == (item.samples, item.unit)
            assert read.launches == (item.launches or (len(item.samples),))


def test_an_imported_history_is_exported_with_its_branch_and_workflow(terminal: Terminal) -> None:
    import_records(terminal, make_record("speedup", 1.5), make_record("abs_latency", 10.0))
    lines = terminal.hud("export", "latest", "--format", "v3").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["workflow_id"] for record in records} == {1000}
    assert {record["run_attempt"] for record in records} == {1}
    assert {record["repo"] for record in records} == {"pytorch/pytorch"}
    assert {record["head_branch"] for record in records} == {"main"}
    # What follows from the others is left out.
    names = [record["metric"]["name"] for record in records]
    assert names == ["accuracy", "latency_s", "speedup"]


def test_an_imported_history_that_comes_back_changes_nothing(terminal: Terminal) -> None:
    untimed = {name: make_record()[name] for name in ("benchmark", "model", "metric")}
    import_records(
        terminal,
        make_record("speedup", 1.5),
        make_record("speedup", 0.0, model="failed"),
        make_record("speedup", 1.4, workflow_id=0, timestamp=1_767_225_600_250),
        untimed,
    )
    before = [document.to_json() for document in runs(terminal)]
    assert len(before) == 3
    # What told no time has that of its file, and the export tells it.
    terminal.clock.moment = datetime.now(timezone.utc)
    terminal.hud("export", "all", "--format", "v3", "-o", "out.json")
    report = report_of(terminal, "out.json")
    assert (report["new"], report["changed"], report["known"]) == (0, 0, 4)
    assert [document.to_json() for document in runs(terminal)] == before


def test_measured_runs_that_come_back_change_nothing(terminal: Terminal) -> None:
    put(terminal, night(0), night(1))
    terminal.hud("export", "all", "--format", "v3", "-o", "out.json")
    report = report_of(terminal, "out.json")
    assert (report["new"], report["changed"], report["known"]) == (0, 0, 6)
    assert [document.run.trigger for document in runs(terminal)] == ["manual", "manual"]
    # Nor do they when they went through another store.
    other = ("--store", "other.duckdb")
    terminal.hud("import", "out.json", *other)
    terminal.hud("export", "all", "--format", "v3", "-o", "there.json", *other)
    (terminal.folder / "back.json").write_text((terminal.folder / "there.json").read_text() + "\n")
    assert report_of(terminal, "back.json")["known"] == 6
    assert report_of(terminal, "back.json", *other)["known"] == 6


def test_csv_has_a_row_for_each_measurement_and_each_case_without_one(terminal: Terminal) -> None:
    put(terminal, night(0))
    text = terminal.hud("export", "latest", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["model"], row["metric"], row["outcome"]) for row in rows] == [
        ("bert", "graph_breaks", "ok"),
        ("bert", "speedup", "ok"),
        ("google/vit", "ttft_ms", "ok"),
        ("t5", "", "inaccurate"),
    ]
    assert rows[1]["samples"] == "1.1 1.3 1.2 0.30000000000000004"
    assert rows[1]["launches"] == "3 1"
    assert rows[0]["started_at"] == "2026-01-01T02:30:00+00:00"


def test_parquet_holds_the_same_with_types(terminal: Terminal) -> None:
    put(terminal, night(0), night(1))
    assert terminal.hud("export", "all", "--format", "parquet", "-o", "out.parquet").exit_code == 0
    table = pq.read_table(terminal.folder / "out.parquet")
    rows = table.to_pylist()
    assert len(rows) == 8
    assert rows[1]["samples"] == [1.1, 1.3, 1.2, 0.1 + 0.2]
    assert rows[1]["started_at"] == START
    assert rows[3]["median"] is None
    streamed = terminal.hud("export", "all", "--format", "parquet").stdout_bytes
    assert pq.read_table(io.BytesIO(streamed)).equals(table)


def test_openmetrics_of_a_store_parses(terminal: Terminal) -> None:
    put(terminal, night(0), night(1))
    text = terminal.hud("export", "all", "--format", "openmetrics").stdout
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["hud_graph_breaks"].samples] == [2.0, 2.0]
    outcomes = families["hud_outcome"].samples
    assert sum(sample.value for sample in outcomes) == 6


ODD = (
    "=cmd|'/c calc'!A0",
    "+1",
    "@SUM(1)",
    "-2",
    "<script>x</script>",
    'a,b;"c"',
    "x" * 10_000,
)


def odd_night() -> RunDocument:
    """Return a run whose every text is one that somebody might take for more than text."""
    cases = [make_case(name, device="cuda") for name in ODD]
    run = make_run(
        "run-odd",
        started_at=START,
        finished_at=START,
        plan=cases,
        environment=FACTS,
        fingerprint=fingerprint(FACTS),
        revision="=HYPERLINK(1)",
        machine="@box",
    )
    ends = (5e-324, 1.7e308)
    results = [
        make_result(
            f"odd-{number}",
            run=run,
            case=case,
            outcome="ok" if number % 2 else "failed",
            reason="" if number % 2 else "-1+1 \u202e \t=1",
            measurements=[make_measurement(samples=ends)] if number % 2 else [],
        )
        for number, case in enumerate(cases)
    ]
    return make_document(run, results=results)


def test_no_text_of_a_csv_file_is_a_formula(terminal: Terminal) -> None:
    put(terminal, odd_night())
    text = terminal.hud("export", "all", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(ODD)
    cells = [cell for row in rows for cell in row.values()]
    assert [cell for cell in cells if cell.lstrip()[:1] in tuple("=+-@")] == []
    assert {row["model"] for row in rows} == {
        f"'{name}" if name[0] in "=+@-" else name for name in ODD
    }
    assert rows[0]["reason"] == "'-1+1 ? ?=1"
    assert rows[1]["samples"] == "5e-324 1.7e+308"


@pytest.mark.parametrize("format", ["v3", "parquet", "openmetrics", "mlperf"])
def test_formats_for_programs_keep_every_text_and_number(terminal: Terminal, format: str) -> None:
    put(terminal, odd_night())
    streamed = terminal.hud("export", "all", "--format", format).stdout_bytes
    if format == "parquet":
        rows = pq.read_table(io.BytesIO(streamed)).to_pylist()
        assert [row["model"] for row in rows] == list(ODD)
        assert rows[1]["samples"] == [5e-324, 1.7e308]
        assert rows[0]["reason"] == "-1+1 \u202e \t=1"
        return
    text = streamed.decode("utf-8")
    if format == "openmetrics":
        families = {family.name: family for family in text_string_to_metric_families(text)}
        models = {sample.labels["model"] for sample in families["hud_outcome"].samples}
        assert models == set(ODD)
        return
    documents = [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines()]
    assert all(
        any(name in json.dumps(documents) for name in (odd, json.dumps(odd)[1:-1])) for odd in ODD
    )


def test_runs_cases_and_metrics_can_be_chosen(terminal: Terminal, words: SnapshotAssertion) -> None:
    put(terminal, night(0), night(1))

    def chosen(*options: str) -> list[tuple[str, str, str]]:
        text = terminal.hud("export", *options, "--format", "csv").stdout
        rows = csv.DictReader(io.StringIO(text))
        return [(row["run_id"], row["model"], row["metric"]) for row in rows]

    assert chosen("run-1", "--metric", "graph*") == [("run-1", "bert", "graph_breaks")]
    assert chosen("run-0", "run-0", "--case", "vit") == [("run-0", "google/vit", "ttft_ms")]
    assert chosen("all", "--case", "*/eager/*") == [("run-0", "t5", ""), ("run-1", "t5", "")]
    nothing = terminal.hud("export", "all", "--format", "csv", "--case", "nobody")
    assert nothing.exit_code == 2
    assert nothing.stderr == words


def test_several_runs_make_one_log(terminal: Terminal) -> None:
    put(terminal, night(0), night(1))
    text = terminal.hud("export", "all", "--format", "mlperf").stdout
    assert text.count('"run_start"') == 6
