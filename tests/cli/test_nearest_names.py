"""A misspelt name is answered with the nearest one."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.builders import make_run
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("kernels", "shw"), "'show'"),
        (("show", "lates"), " latest?"),
        (("show", "nightly-08"), " nightly-0008?"),
        (("suites",), "'list suites'"),
        (("export", "--format", "cvs", "latest"), " csv?"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    terminal: Terminal, arguments: tuple[str, ...], nearest: str, words: SnapshotAssertion
) -> None:
    terminal.store().save_run(make_run("nightly-0008"))
    result = terminal.hud(*arguments)
    assert result.exit_code == 2
    assert nearest in result.stderr
    assert result.stderr == words


def test_a_misspelt_run_is_an_error_with_the_nearest_run(terminal: Terminal) -> None:
    terminal.store().save_run(make_run("nightly-0008"))
    error = terminal.error("show", "nightly-08")
    assert error.code == "not-found"
    assert (error.parameters["run"], error.parameters["near"]) == ("nightly-08", "nightly-0008")


@pytest.mark.parametrize(
    "arguments", [("kernels", "unlike"), ("show", "unlike"), ("unlike",), ("kernels", "rank", "x")]
)
def test_a_name_unlike_any_is_answered_without_another(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    terminal.store().save_run(make_run("nightly-0008"))
    result = terminal.hud(*arguments)
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr
