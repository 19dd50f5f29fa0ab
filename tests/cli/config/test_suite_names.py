"""Names in the suites of hud.toml that match nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from compile_hud.runner.config.load import load_config
from compile_hud.runner.config.suite_names import check_suite
from compile_hud.runner.errors import ConfigError
from tests.support.terminal import Terminal

HEADER = "[machine]\n[suites.other]\n"


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def config_of(terminal: Terminal, setting: str, *, suite: str) -> None:
    models = "" if setting.startswith("models") else "models = 'bert'\n"
    text = f"{HEADER}[suites.{suite}]\n{setting}\n{models}"
    (terminal.folder / "hud.toml").write_text(text)


@pytest.mark.parametrize("suite", ["quick", "mine"])
@pytest.mark.parametrize("key", ["models", "tags", "exclude", "modes", "shape", "phases", "dtypes"])
def test_a_name_that_matches_nothing_has_its_line(terminal: Terminal, key: str, suite: str) -> None:
    config_of(terminal, f"{key} = ['nosuch']", suite=suite)
    error = terminal.error("run", "--suite", suite, "--no-store")
    assert isinstance(error, ConfigError)
    assert error.parameters["line"] == 4
    assert (error.parameters["section"], error.parameters["key"]) == (f"suites.{suite}", key)
    assert "nosuch" in str(error)
    assert not terminal.executors


def test_a_name_like_one_in_the_catalog_has_a_suggestion(terminal: Terminal) -> None:
    config_of(terminal, "models = 'bertt'", suite="mine")
    error = terminal.error("run", "--suite", "mine")
    assert (error.parameters["line"], "mean bert" in str(error)) == (4, True)


@pytest.mark.parametrize("typed", [("--model", "bertt"), ("--model", "bert", "--shape", "smal")])
def test_a_typed_name_is_no_fault_of_the_file(terminal: Terminal, typed: tuple[str, ...]) -> None:
    config_of(terminal, "models = 'nosuch'", suite="mine")
    result = terminal.hud("run", "--suite", "mine", *typed)
    assert result.exit_code == 2
    assert typed[-1] in result.stderr
    assert "hud.toml" not in result.stderr


def test_suites_without_a_wrong_name_pass(terminal: Terminal) -> None:
    for text in ("modes = 'default'", "models = 'ref_copy'", "models = ['bert', 'ref_copy']"):
        config_of(terminal, text, suite="mine")
        config = load_config(None, env={})
        for suite in config.suites.values():
            check_suite(suite, config=config)
