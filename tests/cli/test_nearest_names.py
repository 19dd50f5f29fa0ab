"""A misspelt name is answered with the nearest one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.builders import make_alert, make_case, make_run
from tests.support.stores.mode_stores import fill_modes
from tests.support.stores.stored_results import save_alerts
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


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("modes", "--machine", "bax"), "box"),
        (("modes", "--toolchain", "stabl"), "stable"),
        (("modes", "--model", "brt"), "bert"),
        (("modes", "--shape", "ful"), "full"),
        (("modes", "--phase", "infrence"), "inference"),
        (("trends", "--model", "brt", "--since", "9999d"), "bert"),
        (("trends", "--metric", "speedpu"), "speedup"),
        (("report", "--toolchain", "stabl"), "stable"),
        (("regressions", "--state", "opn"), "open"),
        (("compare", "latst", "previous"), "latest"),
        (("compare", "modes-bx-stable", "previous"), "modes-box-stable"),
        (("import", "x.json", "--format", "asvv"), "asv"),
        (("run", "--device", "cdua"), "cuda"),
        (("alerts", "show", "first-alret"), "first-alert"),
        (("alerts", "ack", "--model", "brt"), "bert"),
        (("alerts", "ack", "--mode", "dfault"), "default"),
        (("alerts", "floor", "brt/*#latency_s", "7%"), "bert"),
        (("alerts", "list", "--state", "opn"), "open"),
        (("alerts", "list", "--severity", "mnor"), "minor"),
    ],
)
def test_a_misspelt_value_is_answered_with_the_nearest(
    terminal: Terminal, arguments: tuple[str, ...], nearest: str
) -> None:
    fill_modes(terminal.store())
    save_alerts(terminal.store(), [make_alert("first-alert", case=make_case("bert"))])
    (terminal.folder / "x.json").write_text("[]")
    result = terminal.hud(*arguments)
    assert result.exit_code == 2
    assert re.search(rf"Did you mean [^?]*\b{nearest}\b[^?]*\?", result.stderr), result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("modes", "--machine", "unlike"),
        ("modes", "--model", "unlike"),
        ("trends", "--model", "zzz"),
        ("alerts", "ack", "--model", "ranker"),
        ("alerts", "ack", "--model", "b*", "--mode", "eager"),
        ("alerts", "floor", "bert/x#latency_s", "7%"),
        ("alerts", "show", "zzz"),
        ("compare", "zzz", "previous"),
        ("run", "--device", "zzz"),
    ],
)
def test_a_value_unlike_any_is_answered_without_another(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    fill_modes(terminal.store())
    save_alerts(terminal.store(), [make_alert("first-alert", case=make_case("bert"))])
    result = terminal.hud(*arguments)
    assert result.exit_code == 2
    assert "Did you mean" not in result.stderr


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
