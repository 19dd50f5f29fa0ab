"""The list of toolchains, and the facts that their interpreters report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.toolchains.registry import Probe, probe
from tests.support.runs.fake_python import make_built
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


PROBES = {
    ".hud/venvs/old/bin/python": Probe(python_version="3.11.7", torch_version="2.12.0"),
    "/opt/mine/bin/python": Probe(problem="No module named 'torch'"),
    sys.executable: Probe(python_version="3.12.1", torch_version="2.13.0"),
}


@pytest.mark.parametrize("command", [("toolchain", "list"), ("list", "toolchains")])
def test_the_list_reports_what_works_and_where_it_is_from(
    terminal: Terminal, command: tuple[str, ...], words: SnapshotAssertion
) -> None:
    make_built(terminal)
    (terminal.folder / "hud.toml").write_text('[toolchains]\nmine = "/opt/mine/bin/python"')
    terminal.probe = lambda python: PROBES[str(python)]
    lines = [line.split() for line in terminal.hud(*command).stdout.splitlines()]
    old = next(iter(PROBES))
    assert lines == [
        ["toolchain", "torch", "python", "state", "from", "interpreter"],
        ["current", "2.13.0", "3.12.1", "works", "hud", "itself", sys.executable],
        ["old", "2.12.0", "3.11.7", "works", "hud", "toolchain", "add", old],
        [
            "mine",
            "-",
            "-",
            *["No", "module", "named", "'torch'", "hud.toml", "/opt/mine/bin/python"],
        ],
    ]
    rows = terminal.json(*command, "--json")
    assert rows[2] == words
    assert [row["works"] for row in rows] == [True, True, False]


def test_a_toolchain_of_hud_toml_hides_a_built_one_with_a_warning(
    terminal: Terminal, caplog: pytest.LogCaptureFixture, words: SnapshotAssertion
) -> None:
    make_built(terminal)
    (terminal.folder / "hud.toml").write_text('[toolchains]\nold = "/opt/mine/bin/python"')
    terminal.probe = lambda python: PROBES[str(python)]
    rows = terminal.json("toolchain", "list", "--json")
    assert [(row["name"], row["from"]) for row in rows] == [
        ("current", "hud itself"),
        ("old", "hud.toml"),
    ]
    assert caplog.messages == words


def test_naming_the_built_interpreter_in_hud_toml_hides_nothing(
    terminal: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    make_built(terminal)
    (terminal.folder / "hud.toml").write_text('[toolchains]\nold = ".hud/venvs/old/bin/python"')
    assert terminal.hud("list", "suites").exit_code == 0
    assert "hides" not in caplog.text


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_reports_its_torch(tmp_path: Path) -> None:
    python = script(tmp_path / "python", """echo noise; echo '["3.11.7", "2.12.0"]'""")
    assert probe(python) == Probe(python_version="3.11.7", torch_version="2.12.0")


@pytest.mark.parametrize(
    "text",
    [
        "echo Traceback >&2; echo 'ImportError: no torch' >&2; exit 1",
        "exit 7",
        "exec tail -f /dev/null",
    ],
)
def test_an_interpreter_that_has_no_torch_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: SnapshotAssertion
) -> None:
    if "tail" in text:
        monkeypatch.setattr("compile_hud.runner.toolchains.registry.PROBE_TIMEOUT_S", 0.0)
    result = probe(script(tmp_path / "python", text))
    assert (result.python_version, result.torch_version) == ("", "")
    assert result.problem == words


def test_an_interpreter_that_is_not_there_is_a_problem_as_well(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    assert probe(tmp_path / "python").problem == words
