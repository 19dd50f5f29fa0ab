"""Reference cases, and one case in full, on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.results import load_document, load_profiled_document
from compile_hud.db.records.results import RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.cli.results import show
from compile_hud.runner.documents import results
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def with_references(terminal: Terminal) -> None:
    path = terminal.folder / "hud.toml"
    path.write_text(path.read_text().replace("reference_cases = false", ""))


def test_a_run_starts_with_the_reference_cases_by_default(terminal: Terminal) -> None:
    with_references(terminal)
    for options, expected in (([], 3), (["--no-reference"], 0)):
        document = terminal.json("run", "--suite", "mine", "--json", "-", *options)
        families = [item["case"]["family"] for item in document["results"]]
        assert families == ["reference"] * expected + ["own"] * 2


def test_reference_cases_are_no_models_in_a_list(terminal: Terminal) -> None:
    names = [item["name"] for item in terminal.json("list", "models", "--json")]
    assert names
    assert not [name for name in names if name.startswith("ref_")]


def test_compare_reports_that_the_machine_moved(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    with_references(terminal)
    for path, latency_s in (("a.json", 0.010), ("b.json", 0.020)):
        terminal.latency_s = latency_s
        assert terminal.hud("run", "--suite", "mine", "--json", path).exit_code == 0
    result = terminal.hud("compare", "a.json", "b.json", "--all")
    assert result.stdout == words
    assert result.exit_code == 0
    document = json.loads(terminal.hud("compare", "a.json", "b.json", "--json").stdout)
    assert {item["verdict"] for item in document["machine"]} == {"moved"}
    assert {item["kind"] for item in document["machine"]} == {"compute", "memory", "launch"}
    assert all(not row["case"]["model"].startswith("ref_") for row in document["rows"])


@pytest.mark.parametrize("has_probe", [True, False])
def test_without_reference_cases_table_and_footer_agree_on_the_machine(
    terminal: Terminal, has_probe: bool
) -> None:
    case = make_case(model="net")
    for name, factor in (("a", 1.0), ("b", 1.2)):
        metrics = {"latency_s": 0.01 * factor, **({"pace_s": 0.001 * factor} if has_probe else {})}
        measured = [
            make_measurement(metric, samples=[value] * 6, launches=(3, 3))
            for metric, value in metrics.items()
        ]
        run = make_run(name, plan=[case])
        result = make_result(run=run, measurements=measured)
        Path(f"{name}.json").write_text(json.dumps(make_document(run, results=[result]).to_json()))
    output = terminal.hud("compare", "a.json", "b.json", "--all").stdout
    footer = output.splitlines()[-1]
    assert (" machine " in output.replace(footer, "")) is has_probe
    assert footer.startswith("machine by " if has_probe else "machine not checked")


def test_show_reports_how_the_reference_cases_did(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    with_references(terminal)
    for _ in range(4):
        assert terminal.hud("run", "--suite", "mine").exit_code == 0
    terminal.latency_s = 0.020
    run = terminal.hud("run", "--suite", "mine")
    text = "reference cases, wall time: ref_gemm 20.0 ms, ref_copy 20.0 ms, ref_chain 20.0 ms"
    assert text in run.stdout
    assert "ref_gemm" not in run.stdout.replace(text, "")
    assert terminal.hud("show", "latest").stdout == words


def test_show_shows_one_case_in_full(terminal: Terminal, words: SnapshotAssertion) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    output = terminal.hud("show", "latest", "eager").stdout
    assert output == words
    document = terminal.json("show", "latest", "*/default/cpu", "--json")
    assert [item["case"]["variant"] for item in document["results"]] == ["default"]


def test_a_case_has_the_time_of_eager_alone_where_the_load_differed(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    eager, default, other = (
        make_case("net", mode="eager"),
        make_case("net", mode="default"),
        make_case("vit", mode="default"),
    )
    levels = {
        eager: {"latency_s": 0.004},
        default: {"eager_latency_s": 0.005, "latency_s": 0.0025, "speedup": 2.0},
        other: {"latency_s": 0.003},
    }
    run = make_run(plan=tuple(levels))
    results = [
        make_result(
            case.key,
            run=run,
            case=case,
            measurements=[
                make_measurement(name, samples=(0.99 * level, level, 1.01 * level))
                for name, level in values.items()
            ],
        )
        for case, values in levels.items()
    ]
    with terminal.store().write() as connection:
        put_documents(connection, [make_document(run, results=results)], at=START)
    output = terminal.hud("show", run.id, "net/*/default/*").stdout
    assert output.splitlines()[-1] == words
    for name in ("net/*/eager/*", "vit"):
        assert "load differed" not in terminal.hud("show", run.id, name).stdout


def test_a_case_loads_the_code_of_its_variants_alone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        terminal.hud("run", "--model", "net", "--model", "fails", "--mode", "eager").exit_code == 1
    )
    loaded: list[set[str]] = []

    def noting(load: Callable[..., RunDocument]) -> Callable[..., RunDocument]:
        def note(store: Store, run_id: str, **options: Any) -> RunDocument:
            document = load(store, run_id, **options)
            loaded.append({result.case.model for result in document.results})
            return document

        return note

    # A whole run is read without samples and code.
    for module, load in ((results, load_document), (show, load_profiled_document)):
        monkeypatch.setattr(module, load.__name__, noting(load))
    assert terminal.hud("show", "latest", "net").exit_code == 0
    assert loaded == [{"net"}]
    assert terminal.hud("show", "latest").exit_code == 0
    assert loaded[1] == {"net", "fails"}


@pytest.mark.parametrize(
    "name",
    [
        "nett",
        "zzz",
        "net",
    ],
)
def test_a_case_that_is_not_there_or_not_alone_is_reported(
    terminal: Terminal, name: str, words: SnapshotAssertion
) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    result = terminal.hud("show", "latest", name)
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_failed_case_shows_its_reason(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("run", "--model", "fails", "--mode", "eager")
    output = terminal.hud("show", "latest", "fails").stdout
    assert output == words
    assert "metric" not in output


def test_a_run_of_reference_cases_alone_has_no_empty_table(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--model", "ref_copy", "--no-reference")
    assert result.stdout == words
