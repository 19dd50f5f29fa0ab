"""`hud import`: which machine a record is of."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.series import find_series
from tests.support.records.v3_records import DAY_S, FIRST_NIGHT_S, make_record, write_lines
from tests.support.stores.imports import import_records, report_of, runs
from tests.support.terminal import Terminal

NIGHTS = 18


def record_on(
    name: str, kind: str, *, value: float = 5.0, night: int = 0, **fields: Any
) -> dict[str, Any]:
    """Return a record of a runner of this name and type."""
    runner = {key: text for key, text in (("name", name), ("type", kind)) if text}
    made = make_record("p50_ms", value, night=night, **fields)
    made["benchmark"]["extra_info"] = {}
    return made | {"runners": [runner] if runner else []}


@pytest.mark.parametrize(
    ("name", "kind", "machine"),
    [
        ("Pixel 9 Pro", "Android 15", "Pixel 9 Pro"),
        ("iPad Air (M2)", "iPadOS 17.6.1", "iPad Air (M2)"),
        ("surface-3", "Windows 11", "surface-3"),
        ("rack 7", "ubuntu", "rack 7"),
        ("i-0ab12", "linux.aws.a100", "linux.aws.a100"),
        ("runner 3", "ubuntu-22.04", "ubuntu-22.04"),
        ("", "Android 15", "Android 15"),
        ("pool-9", "", "pool-9"),
        ("", "", "unknown"),
    ],
)
def test_an_operating_system_is_no_machine_where_the_runner_has_a_name(
    terminal: Terminal, name: str, kind: str, machine: str
) -> None:
    import_records(terminal, record_on(name, kind))
    (document,) = runs(terminal)
    assert document.run.machine == machine


def test_a_slower_phone_is_reported_as_that_phone(terminal: Terminal) -> None:
    levels = {"Pixel 9": 6.0, "Pixel 9 Pro": 4.5, "Galaxy A55": 21.0}
    records = [
        record_on(
            name,
            "Android 15",
            value=level * (1 + 0.004 * (night % 3)) * (1.4 if slow and night >= 10 else 1),
            night=night,
        )
        for night in range(NIGHTS)
        for name, level in levels.items()
        for slow in (name == "Pixel 9 Pro",)
    ]
    assert import_records(terminal, *records)["mixed"] == {}
    headers = find_series(terminal.store(), metric="p50_ms")
    assert {item.machine: item.num_points for item in headers} == dict.fromkeys(levels, NIGHTS)
    assert terminal.hud("detect").exit_code == 0
    (alert,) = terminal.json("regressions", "--state", "all", "--json")
    assert alert["machine"] == "Pixel 9 Pro"
    assert alert["change_pct"] == pytest.approx(40, abs=2)


def test_runners_of_one_type_are_counted_where_they_measure_one_result(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    records = [record_on(f"host-{number}", "dgx", value=5.0 + number) for number in range(3)]
    write_lines(terminal.folder / "records.json", records)
    lines = terminal.hud("import", "records.json").stdout.splitlines()
    assert [line for line in lines if "runners[0]" in line] == words


@pytest.mark.parametrize("fields", [{}, {"workflow_id": 0, "head_sha": ""}])
def test_a_type_with_another_host_each_night_is_one_machine_without_a_remark(
    terminal: Terminal, fields: dict[str, Any]
) -> None:
    records = [record_on(f"i-{night:03}", "dgx", night=night, **fields) for night in range(NIGHTS)]
    report = import_records(terminal, *records)
    assert (report["mixed"], report["changing_machines"]) == ({}, 0)
    (header,) = find_series(terminal.store(), metric="p50_ms")
    assert (header.machine, header.num_points) == ("dgx", NIGHTS)


@pytest.mark.parametrize("kind", ["", "Ubuntu 24.04"])
def test_names_that_change_every_night_are_counted_and_machine_replaces_them(
    terminal: Terminal, kind: str, words: SnapshotAssertion
) -> None:
    records = [record_on(f"ip-10-0-7-{night}", kind, night=night) for night in range(NIGHTS)]
    write_lines(terminal.folder / "records.json", records)
    lines = terminal.hud("import", "records.json", "--store", "other.duckdb").stdout.splitlines()
    assert [line for line in lines if "--machine" in line] == words
    report = report_of(terminal, "records.json", "--machine", "pool")
    assert (report["changing_machines"], report["mixed"]) == (0, {})
    (header,) = find_series(terminal.store(), metric="p50_ms")
    assert (header.machine, header.num_points) == ("pool", NIGHTS)


@pytest.mark.parametrize("name", ["", "node", "node-{night}", "{night}.pool.example"])
def test_types_that_change_every_night_are_counted_and_machine_replaces_them(
    terminal: Terminal, name: str, words: SnapshotAssertion
) -> None:
    records = [
        record_on(name.format(night=night), f"node-{night}", value=level, night=night, model=model)
        for night in range(NIGHTS)
        for model, level in (("tts", 5.0 + night % 2), ("asr", 9.0))
    ]
    write_lines(terminal.folder / "records.json", records)
    lines = terminal.hud("import", "records.json", "--store", "other.duckdb").stdout.splitlines()
    assert [line for line in lines if "--machine" in line] == words
    report = report_of(terminal, "records.json", "--machine", "pool")
    assert (report["changing_machines"], report["mixed"]) == (0, {})
    headers = find_series(terminal.store(), metric="p50_ms")
    assert [(item.machine, item.num_points) for item in headers] == [("pool", NIGHTS)] * 2
    # One environment: the fingerprint has no name of a night.
    assert len({document.run.fingerprint for document in runs(terminal)}) == 1


def test_several_new_runners_each_night_and_runs_hours_apart_are_counted(
    terminal: Terminal,
) -> None:
    records = [
        record_on(
            f"vm-{night}-{shard}",
            "",
            model=f"m{shard}",
            timestamp=FIRST_NIGHT_S + night * DAY_S + hour * 3_600,
            # Without a workflow, two hours make another run.
            workflow_id=0,
        )
        for night in range(7)
        for shard in range(3)
        for hour in (0, 2)
    ]
    assert import_records(terminal, *records)["changing_machines"] == 21


def test_machine_replaces_a_type_and_counts_what_it_merges(terminal: Terminal) -> None:
    records = [record_on("", kind, value=value) for kind, value in (("l40", 5.0), ("b300", 3.0))]
    write_lines(terminal.folder / "records.json", records)
    report = report_of(terminal, "records.json", "--machine", "lab")
    assert report["mixed"] == {"runners[0].type": 1}
    (document,) = runs(terminal)
    assert document.run.machine == "lab"


def test_a_kind_of_device_stays_where_machine_replaces_the_type(terminal: Terminal) -> None:
    made = record_on("host-8", "rocm")
    write_lines(terminal.folder / "records.json", [made])
    report_of(terminal, "records.json", "--machine", "lab")
    (document,) = runs(terminal)
    assert (document.run.machine, document.results[0].case.device) == ("lab", "rocm")


@pytest.mark.parametrize("is_folder", [False, True])
def test_runners_are_compared_across_files_of_one_night_each(
    terminal: Terminal, is_folder: bool, words: SnapshotAssertion
) -> None:
    folder = terminal.folder / "nights"
    folder.mkdir()
    for night in range(6):
        write_lines(folder / f"{night}.json", [record_on(f"gpu-{night}", "", night=night)])
    names = ["nights"] if is_folder else [f"nights/{night}.json" for night in range(6)]
    document = terminal.json("import", *names, "--json", "--store", "other.duckdb")
    assert document["changing_machines"] == 6
    lines = terminal.hud("import", *names).stdout.splitlines()
    assert [line for line in lines if "--machine" in line] == words


@pytest.mark.parametrize(
    "names",
    [
        # Several devices of one night, or of two.
        [("one", 0), ("two", 0), ("three", 0), ("four", 1)],
        # Lasting names, of which one left early.
        [*((name, night) for name in ("one", "two") for night in range(9)), ("three", 0)],
    ],
)
def test_lasting_names_are_no_names_that_change(
    terminal: Terminal, names: list[tuple[str, int]]
) -> None:
    records = [record_on(name, "", night=night) for name, night in names]
    assert import_records(terminal, *records)["changing_machines"] == 0


def test_a_benchmark_names_the_device_where_no_runner_does(terminal: Terminal) -> None:
    records = []
    for arch in ("NVIDIA L4", "NVIDIA A10G"):
        made = record_on("", "")
        made["benchmark"]["extra_info"] = {"arch": arch}
        records.append(made)
    import_records(terminal, *records)
    assert {item.run.machine for item in runs(terminal)} == {"NVIDIA L4", "NVIDIA A10G"}
    report_of(terminal, "records.json", "--machine", "box", "--store", "other.duckdb")
