"""A model of hud.toml without its file is reported once, before anything is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.terminal import Terminal


@pytest.fixture
def without_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    (tmp_path / "net.py").unlink()
    return terminal


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--suite", "mine"),
        ("run", "--suite", "mine", "--executor", "ray", "--device", "cpu"),
        ("compare", "--suite", "mine", "--toolchain", "current", "--toolchain", "current"),
    ],
)
def test_a_model_without_its_file_is_refused_with_its_line(
    without_file: Terminal, command: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = without_file.hud(*command)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert str((without_file.folder / "net.py").resolve()) in line
    assert line == words
    assert without_file.executors == []


def test_models_that_are_not_requested_need_no_file(without_file: Terminal) -> None:
    assert without_file.hud("run", "--model", "softmax", "--mode", "eager").exit_code == 0
