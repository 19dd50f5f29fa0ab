"""Reference cases, and one case in full, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def with_references(terminal: Terminal) -> None:
    path = terminal.folder / "hud.toml"
    path.write_text(path.read_text().replace("reference_cases = false", ""))


def test_a_run_starts_with_the_reference_cases_unless_told_otherwise(terminal: Terminal) -> None:
    with_references(terminal)
    for options, expected in (([], 3), (["--no-reference"], 0)):
        document = terminal.json("run", "--suite", "mine", "--json", "-", *options)
        families = [item["case"]["family"] for item in document["results"]]
        assert families == ["reference"] * expected + ["own"] * 2


def test_reference_cases_are_no_models_in_a_list(terminal: Terminal) -> None:
    names = [item["name"] for item in terminal.json("list", "models", "--json")]
    assert names
    assert not [name for name in names if name.startswith("ref_")]


def test_compare_says_that_the_machine_moved(terminal: Terminal) -> None:
    with_references(terminal)
    for path, latency_s in (("a.json", 0.010), ("b.json", 0.020)):
        terminal.latency_s = latency_s
        assert terminal.hud("run", "--suite", "mine", "--json", path).exit_code == 0
    result = terminal.hud("compare", "a.json", "b.json", "--all")
    assert "machine moved: ref_gemm (compute) +100.0 %" in result.stdout
    assert result.exit_code == 0
    document = json.loads(terminal.hud("compare", "a.json", "b.json", "--json").stdout)
    assert {item["verdict"] for item in document["machine"]} == {"moved"}
    assert {item["kind"] for item in document["machine"]} == {"compute", "memory", "launch"}
    assert all(not row["case"]["model"].startswith("ref_") for row in document["rows"])


def test_show_says_how_the_reference_cases_did(terminal: Terminal) -> None:
    with_references(terminal)
    for _ in range(4):
        assert terminal.hud("run", "--suite", "mine").exit_code == 0
    terminal.latency_s = 0.020
    run = terminal.hud("run", "--suite", "mine")
    text = "reference cases: ref_gemm 20.0 ms, ref_copy 20.0 ms, ref_chain 20.0 ms"
    assert text in run.stdout
    assert "ref_gemm" not in run.stdout.replace(text, "")
    assert "machine is moved: ref_gemm (compute) +100.0 %" in terminal.hud("show", "latest").stdout


def test_show_shows_one_case_in_full(terminal: Terminal) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    output = terminal.hud("show", "latest", "eager").stdout
    assert output.startswith("case       net/inference/default/fp32/eager/cpu\n")
    assert "latency_s  10.0 ms  9.90 ms .. 10.1 ms        3" in output
    document = terminal.json("show", "latest", "*/default/cpu", "--json")
    assert [item["case"]["variant"] for item in document["results"]] == ["default"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nett", "has no result of 'nett'. Did you mean net? It has net/"),
        ("zzz", "has no result of 'zzz'. It has net/"),
        ("net", "more than one result fits 'net'"),
    ],
)
def test_a_case_that_is_not_there_or_not_alone_is_said(
    terminal: Terminal, name: str, message: str
) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    result = terminal.hud("show", "latest", name)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_failed_case_shows_its_reason(terminal: Terminal) -> None:
    terminal.hud("run", "--model", "fails", "--mode", "eager")
    output = terminal.hud("show", "latest", "fails").stdout
    assert "outcome    failed: failed on purpose" in output
    assert "metric" not in output


def test_a_run_of_reference_cases_alone_has_no_empty_table(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--model", "ref_copy", "--no-reference")
    assert result.stdout == words
