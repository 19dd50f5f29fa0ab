"""`hud import` of benchmark records, schema v3."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.series import find_series
from compile_hud.db.records.results import Dtype, Outcome, Phase
from compile_hud.runner.errors import ImportFailed
from compile_hud.runner.files.stream_reader import Source
from tests.support.records.v3_records import (
    A100,
    DAY_S,
    FIRST_NIGHT_S,
    commit_of,
    make_record,
    write_lines,
)
from tests.support.stores.imports import import_records, only_result, report_of, runs
from tests.support.terminal import Terminal
from tests.support.words import short_id

DYNAMO_NAME = "inductor_with_cudagraphs_huggingface_amp_training_cuda_performance.csv"


def contents(terminal: Terminal) -> list[Any]:
    """Return all that the store holds of runs and series."""
    return [[document.to_json() for document in runs(terminal)], find_series(terminal.store())]


def test_a_record_becomes_a_run_with_a_case_result(terminal: Terminal) -> None:
    report = import_records(terminal, make_record("abs_latency", [10.0, 10.4, 10.2]))
    assert (report["rows"], report["runs"], report["new"]) == (1, 1, 1)
    (document,) = runs(terminal)
    run, result = document.run, document.results[0]
    assert run.started_at == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert (run.suite, run.machine) == ("TorchInductor", A100)
    assert run.revision == commit_of(0)
    assert run.environment["device_name"] == A100
    case = result.case
    assert (case.model, case.family) == ("BertForMaskedLM", "huggingface")
    assert (case.phase, case.dtype, case.shape) == (Phase.INFERENCE, Dtype.BF16, "bs16")
    assert (case.mode, case.variant, case.backend) == ("default", "default", "inductor")
    assert case.device == "cuda"
    (latency,) = result.measurements
    assert (latency.metric, latency.unit) == ("latency_s", "s")
    assert latency.samples == pytest.approx((0.010, 0.0104, 0.0102))
    assert latency.median == pytest.approx(0.0102)


def test_an_imported_run_is_marked_as_imported(terminal: Terminal) -> None:
    import_records(terminal, make_record())
    (document,) = runs(terminal)
    assert document.run.trigger == "import"
    assert document.run.toolchain == "imported:pytorch/pytorch@main"
    assert document.run.environment["imported"] == {
        "format": "v3",
        "workflow": "1000",
        "attempt": "1",
    }
    assert "imported:pytorch/pytorch@main" in terminal.hud("runs").stdout


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(make_record()),
        json.dumps(make_record(), indent=2),
        json.dumps([make_record()]),
        json.dumps([make_record()], indent=1) + "\n",
        json.dumps([make_record()]) + "\n" + json.dumps([make_record()]),
        "\ufeff" + json.dumps(make_record()),
    ],
    ids=["object", "indented", "list", "indented list", "a list a line", "byte order mark"],
)
def test_every_form_of_a_file_gives_the_same_rows(terminal: Terminal, content: str) -> None:
    (terminal.folder / "records.json").write_text(content, encoding="utf-8")
    report_of(terminal, "records.json")
    assert only_result(terminal).measurement("latency_s")


def test_times_in_seconds_and_in_milliseconds_are_the_same_time(terminal: Terminal) -> None:
    import_records(
        terminal,
        make_record(timestamp=FIRST_NIGHT_S),
        make_record("speedup", 1.5, timestamp=FIRST_NIGHT_S * 1000),
        make_record("mfu", 0.4, timestamp=str(FIRST_NIGHT_S)),
    )
    (document,) = runs(terminal)
    assert len(document.results[0].measurements) == 4


def test_a_timestamp_of_hundreds_of_digits_is_refused(terminal: Terminal) -> None:
    path = write_lines(terminal.folder / "records.json", [make_record(timestamp=3 * 10**330)])
    result = terminal.hud("import", str(path))
    # Any other exception would have passed.
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2


def test_a_record_whose_variant_is_another_mode_is_skipped(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    contradictory = make_record("speedup", 1.4, mode="max-autotune")
    contradictory["benchmark"]["extra_info"]["variant"] = "eager"
    report = import_records(terminal, make_record("speedup", 1.2), contradictory)
    assert report["skipped"] == words
    assert only_result(terminal).case.variant == "default"


def test_rows_that_are_no_measurement_are_counted_by_what_they_lack(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    report = import_records(
        terminal,
        {},
        {"repo": "pytorch/pytorch"},
        make_record(),
        make_record(metric_is_gone=1) | {"metric": {"benchmark_values": [1.0]}},
        make_record("speedup", []),
        make_record("speedup", ["n/a"]),
        make_record("speedup", [float("nan")]),
        make_record("speedup", [1e308]),
        make_record() | {"model": {}},
    )
    assert report["rows"] == 1
    assert report["skipped"] == words


def test_the_same_file_twice_changes_nothing(terminal: Terminal) -> None:
    records = [make_record(night=night) for night in range(3)]
    assert import_records(terminal, *records)["new"] == 3
    before, version = contents(terminal), terminal.store().store_version()
    again = import_records(terminal, *records)
    assert (again["unchanged"], again["new"], again["rows"]) == (True, 0, None)
    assert terminal.store().store_version() == version
    packed = import_records(terminal, *records, name="other name.json.gz")
    assert packed["unchanged"]
    assert contents(terminal) == before


def test_a_longer_history_adds_only_what_is_new(terminal: Terminal) -> None:
    import_records(terminal, *(make_record(night=night) for night in range(3)))
    longer = import_records(
        terminal, *(make_record(night=night) for night in range(5)), name="longer.json"
    )
    assert (longer["new"], longer["changed"], longer["known"]) == (2, 0, 3)
    (series,) = find_series(terminal.store())
    assert series.num_points == 5
    # In another order and form it is the same history all the same.
    shuffled = [make_record(night=night) for night in (4, 2, 0, 3, 1)]
    (terminal.folder / "list.json").write_text(json.dumps(shuffled))
    assert report_of(terminal, "list.json")["known"] == 5


def test_what_several_files_say_of_a_case_adds_up(terminal: Terminal) -> None:
    import_records(terminal, make_record("speedup", 1.5), name="performance.json")
    added = import_records(terminal, make_record("accuracy", "pass"), name="accuracy.json")
    assert (added["new"], added["changed"]) == (0, 1)
    import_records(terminal, make_record("graph_breaks", 2), name="counts.json")
    other = make_record("speedup", 1.2, model="T5Small")
    assert import_records(terminal, other, name="shard.json")["new"] == 1
    (document,) = runs(terminal)
    bert, t5 = document.results
    assert {item.metric: item.median for item in bert.measurements} == {
        "speedup": 1.5,
        "graph_breaks": 2.0,
    }
    assert bert.details["imported"]["texts"] == {"accuracy": ["pass"]}
    assert t5.case.model == "T5Small"
    assert [case.model for case in document.run.plan] == ["BertForMaskedLM", "T5Small"]
    before = contents(terminal)
    for name in ("performance.json", "accuracy.json", "counts.json", "shard.json"):
        # The marks of the files are gone, as after a restore: only the rows tell.
        lines = (terminal.folder / name).read_text()
        (terminal.folder / f"again-{name}").write_text(lines + "\n")
        assert report_of(terminal, f"again-{name}")["known"] == 1
    assert contents(terminal) == before


def test_values_of_one_metric_in_one_run_are_launches(terminal: Terminal) -> None:
    import_records(
        terminal,
        make_record("speedup", [1.5, 1.6]),
        make_record("speedup", 1.4),
        make_record("speedup", 1.4),
    )
    measurement = only_result(terminal).measurement("speedup")
    assert measurement is not None
    assert (measurement.samples, measurement.launches) == ((1.5, 1.6, 1.4), (2, 1))


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("pass", Outcome.OK),
        ("pass_due_to_skip", Outcome.SKIPPED),
        ("fail_accuracy", Outcome.INACCURATE),
        ("eager_two_runs_differ", Outcome.INACCURATE),
        ("fail_to_run", Outcome.FAILED),
        ("eager_1st_run_OOM", Outcome.OUT_OF_MEMORY),
        ("timeout", Outcome.TIMEOUT),
        ("something new", Outcome.FAILED),
    ],
)
def test_the_word_of_an_accuracy_check_is_the_outcome(
    terminal: Terminal, word: str, outcome: Outcome
) -> None:
    import_records(terminal, make_record("accuracy", word), make_record("speedup", 1.5))
    result = only_result(terminal)
    assert result.outcome is outcome
    assert bool(result.measurements) is (outcome is Outcome.OK)
    assert (word in result.reason) is (outcome is not Outcome.OK)


def test_a_zero_is_a_failed_case_and_no_number(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    import_records(terminal, make_record("speedup", 0.0), make_record("compilation_latency", 12.5))
    result = only_result(terminal)
    assert (result.outcome, result.measurements) == (Outcome.FAILED, ())
    assert result.reason == words
    values = result.details["imported"]["values"]
    assert values["compile_cold_s"] == {"unit": "s", "launches": [[12.5]]}


def test_another_workflow_or_day_is_another_run(terminal: Terminal) -> None:
    at_noon = FIRST_NIGHT_S + DAY_S // 2
    import_records(
        terminal,
        make_record(),
        make_record("speedup", 1.5, timestamp=at_noon),
        make_record(workflow_id=2),
        make_record(run_attempt=2),
        make_record(head_branch="refs/heads/release"),
        make_record(timestamp=FIRST_NIGHT_S + DAY_S),
    )
    records = runs(terminal)
    assert len(records) == 5
    assert sum(len(item.results[0].measurements) == 3 for item in records) == 1
    assert {item.run.toolchain for item in records} == {
        "imported:pytorch/pytorch@main",
        "imported:pytorch/pytorch@release",
    }


def test_without_a_workflow_a_pause_ends_the_run(terminal: Terminal) -> None:
    times = [FIRST_NIGHT_S + minutes * 60 for minutes in (0, 20, 40, 100)]
    import_records(
        terminal,
        *(
            make_record(model=f"model{number}", timestamp=at, workflow_id=0)
            for number, at in enumerate(times)
        ),
    )
    assert [len(document.results) for document in runs(terminal)] == [3, 1]


def test_other_hardware_is_another_series(terminal: Terminal) -> None:
    import_records(terminal, make_record(), make_record(night=1, runner="NVIDIA H100 80GB HBM3"))
    series = find_series(terminal.store())
    assert len({header.case.key for header in series}) == 1
    assert len({header.fingerprint for header in series}) == 2


def test_files_without_a_time_take_the_one_that_is_given(terminal: Terminal) -> None:
    bare = {name: make_record()[name] for name in ("benchmark", "model", "metric")}
    write_lines(terminal.folder / "bare.json", [bare])
    report = report_of(
        terminal, "bare.json", "--at", "2026-02-03T04:05", "--revision", "abc", "--machine", "box"
    )
    assert report["untimed"] == 1
    (document,) = runs(terminal)
    assert document.run.started_at == datetime(2026, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert (document.run.revision, document.run.machine) == ("abc", "box")


def test_files_without_a_time_take_their_own_and_report_it(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    bare = {name: make_record()[name] for name in ("benchmark", "model", "metric")}
    path = write_lines(terminal.folder / "bare.json", [bare])
    os.utime(path, (FIRST_NIGHT_S, FIRST_NIGHT_S))
    shown = terminal.hud("import", "bare.json").stdout
    assert shown == words
    other = ("--at", "2026-01-01", "--store", "other.duckdb")
    assert terminal.hud("import", "bare.json", *other).stdout == words
    os.utime(path, (FIRST_NIGHT_S + DAY_S,) * 2)
    again = terminal.hud("import", "bare.json").stdout
    assert again == words


def test_import_names_the_command_that_judges(terminal: Terminal, words: SnapshotAssertion) -> None:
    (terminal.folder / "new.json").write_text(json.dumps([make_record()]))
    output = terminal.hud("import", "new.json").stdout
    assert output == words
    (document,) = runs(terminal)
    assert document.run.started_at == datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_a_plan_that_grew_by_a_second_file_leaves_none_that_no_run_has(terminal: Terminal) -> None:
    for model in ("BertForMaskedLM", "resnet50", "vit"):
        write_lines(terminal.folder / f"{model}.json", [make_record(model=model)])
        assert terminal.hud("import", f"{model}.json").exit_code == 0
    (document,) = runs(terminal)
    assert len(document.run.plan) == 3
    checked = terminal.hud("db", "check")
    assert (checked.exit_code, checked.stderr) == (0, "")


def test_an_unknown_format_is_refused_with_a_reference_to_the_help(
    terminal: Terminal,
    words: SnapshotAssertion,
) -> None:
    (terminal.folder / "notes.txt").write_text("root:x:0:0\n")
    error = terminal.hud("import", "notes.txt").stderr
    assert error == words


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"metric": {"name": "speedup"', 3),
        ('{"metric": {"name": "speed', 3),
        ('{"metric": speedup}', 3),
        ("[1, 2]", 3),
        ("null", 3),
        ('{"metric": 1' + "0" * 5_000 + "}", 3),
        ('"text"', 3),
        ('[{"metric": 1}', 3),
        ('[{"a": 1},\n{"b": 2}', 4),
        ("[" * 100_000, 3),
        ('{"a":' * 100_000, 3),
    ],
    ids=short_id,
)
def test_a_broken_file_is_one_error_with_its_line_and_leaves_nothing(
    terminal: Terminal, text: str, line: int, words: SnapshotAssertion
) -> None:
    good = json.dumps(make_record())
    (terminal.folder / "broken.json").write_text(f"{good}\n{good}\n{text}")
    write_lines(terminal.folder / "good.json", [make_record(night=1)])
    result = terminal.hud("import", "broken.json", "good.json")
    assert result.exit_code == 2
    (error,) = result.stderr.splitlines()
    assert error.startswith(f"hud: broken.json:{line}: ")
    assert error == words
    # The other file was imported all the same.
    (document,) = runs(terminal)
    assert document.run.revision == commit_of(1)


def test_an_invalid_time_is_reported_with_its_line(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    for broken in ("yesterday", -5, 1e30, True, "1" * 5_001, "\u00b2"):
        records = [make_record(), make_record(timestamp=broken)]
        write_lines(terminal.folder / "records.json", records)
        result = terminal.hud("import", "records.json")
        assert result.exit_code == 2
        assert result.stderr == words


def test_a_file_that_cannot_be_opened_is_one_error(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    with pytest.raises(ImportFailed) as caught:
        list(Source(tmp_path / "gone.json").texts())
    assert str(caught.value) == words


def test_a_file_that_changes_while_it_is_read_is_one_error(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    source = Source(write_lines(tmp_path / "records.json", [make_record()]))
    digest = source.read_digest()
    write_lines(source.path, [make_record(), make_record(night=1)])
    assert sum(1 for _ in source.objects()) == 2
    with pytest.raises(ImportFailed) as caught:
        source.check_digest(digest)
    assert str(caught.value) == words


def test_packed_files_that_are_cut_off_are_one_error(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    packed = gzip.compress(json.dumps([make_record()] * 100).encode())
    (terminal.folder / "cut.json.gz").write_bytes(packed[: len(packed) // 2])
    result = terminal.hud("import", "cut.json.gz")
    assert result.exit_code == 2
    assert result.stderr == words
    (terminal.folder / "latin.json").write_bytes(b'{"model": "\xfcber"}')
    assert "no UTF-8 text" in terminal.hud("import", "latin.json").stderr


def test_errors_in_json_stand_next_to_what_was_imported(terminal: Terminal) -> None:
    (terminal.folder / "broken.json").write_text("{")
    write_lines(terminal.folder / "good.json", [make_record()])
    result = terminal.hud("import", "broken.json", "good.json", "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert [item["file"] for item in document["errors"]] == ["broken.json"]
    assert [item["file"] for item in document["files"]] == ["good.json"]


def test_hostile_names_are_safe_and_stay_apart(terminal: Terminal) -> None:
    names = [
        "../../etc/passwd",
        "/absolute",
        "\x1b[31mred\x1b[0m",
        "nul\0name",
        "half \ud800 surrogate",
        "x" * 100_000,
        "x" * 99_999 + "y",
        "<script>alert(1)</script>",
        "'; DROP TABLE runs; --",
    ]
    import_records(terminal, *(make_record(model=name) for name in names))
    (document,) = runs(terminal)
    models = [result.case.model for result in document.results]
    assert len(set(models)) == len(names)
    assert all(model.isprintable() and len(model) <= 160 for model in models)
    assert terminal.hud("detect").exit_code == 0
    shown = terminal.hud("show", "latest").stdout
    assert "\x1b[31m" not in shown
    assert "../../etc/passwd" in shown
    assert import_records(terminal, *(make_record(model=name) for name in names))["unchanged"]


def test_a_slash_in_what_a_case_is_made_of_makes_no_other_case(terminal: Terminal) -> None:
    record = make_record(model="google/vit", mode="a/b")
    import_records(terminal, record)
    assert only_result(terminal).case.key == "google/vit/inference/bs16/bf16/a_b/cuda"


def test_a_family_that_would_witness_for_the_machine_is_taken_for_unknown(
    terminal: Terminal,
) -> None:
    record = make_record()
    record["model"]["origins"] = ["reference"]
    import_records(terminal, record)
    assert not only_result(terminal).case.is_reference


def test_the_row_of_a_nightly_suite_is_read_from_its_output_file(terminal: Terminal) -> None:
    record = make_record()
    record["benchmark"]["extra_info"] = {"backend": "inductor", "output": f"/reports/{DYNAMO_NAME}"}
    import_records(terminal, record)
    case = only_result(terminal).case
    assert (case.mode, case.backend) == ("inductor_with_cudagraphs", "inductor")


def test_the_format_can_be_given(terminal: Terminal) -> None:
    write_lines(terminal.folder / "records", [make_record()])
    assert report_of(terminal, "records", "--format", "v3")["format"] == "v3"
    result = terminal.hud("import", "records", "--format", "xml")
    assert result.exit_code == 2
    assert "'v3', 'dynamo-csv', 'torchbench'" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "format_name"),
    [("empty.json", "", "v3"), ("empty.json", "[]", "v3"), ("empty.csv", "\n", "dynamo-csv")],
)
def test_a_file_without_a_row_is_an_error_next_to_the_others(
    terminal: Terminal, name: str, content: str, format_name: str, words: SnapshotAssertion
) -> None:
    (terminal.folder / name).write_text(content)
    write_lines(terminal.folder / "good.json", [make_record()])
    result = terminal.hud("import", name, "good.json")
    assert result.exit_code == 2
    assert f" {format_name} " in result.stderr
    assert result.stderr == words
    assert result.stdout.startswith("good.json: 1 row ")


@pytest.mark.parametrize(
    ("content", "name"), [({}, "v3"), ({"metrics": {"latency": None}}, "torchbench")]
)
def test_a_file_whose_rows_are_all_skipped_is_an_error(
    terminal: Terminal, content: Any, name: str, words: SnapshotAssertion
) -> None:
    write_lines(terminal.folder / "records.json", [content])
    result = terminal.hud("import", "records.json")
    assert result.exit_code == 2
    assert f" {name} " in result.stderr
    assert result.stderr == words


def test_a_value_that_is_too_long_is_not_called_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr("compile_hud.runner.files.stream_reader.MAX_VALUE_CHARS", 1 << 20)
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"text": "x" * (3 << 20)}))
    with pytest.raises(ImportFailed) as caught:
        list(Source(path).objects())
    assert str(caught.value) == words


def test_an_unreadable_time_is_refused(terminal: Terminal, words: SnapshotAssertion) -> None:
    write_lines(terminal.folder / "records.json", [make_record()])
    result = terminal.hud("import", "records.json", "--at", "tomorrow")
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.nightly
def test_a_large_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    num_records = 20_000
    path = write_lines(tmp_path / "large.json", [make_record()] * num_records)
    in_one_list = tmp_path / "list.json"
    in_one_list.write_text(json.dumps([make_record()] * num_records))
    assert path.stat().st_size > 8_000_000
    for file in (path, in_one_list):
        tracemalloc.start()
        assert sum(1 for _ in Source(file).objects()) == num_records
        _now, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # A few pieces of 1 MiB, as bytes and as text.
        assert peak_bytes < 6_000_000
