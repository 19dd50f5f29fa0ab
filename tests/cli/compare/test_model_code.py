"""The diff of a model's code between two runs that stored it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.maintenance.consistency import find_orphans
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.shared.model_code import code_change_text
from tests.support.terminal import Terminal

FILES = ("before.json", "after.json")
RUN = ("run", "--model", "net", "--mode", "eager", "--mode", "default")


def two_runs(folder: Path, *, keeps: tuple[bool, bool]) -> Terminal:
    """Return a terminal with two runs between which the model changed."""
    terminal = Terminal(folder)
    config = folder / "hud.toml"
    plain = config.read_text()
    for file, keep, text in zip(FILES, keeps, ("x = 1\n", "x = '<b>'\n"), strict=True):
        setting = f"[models.net]\nkeep_source = {'true' if keep else 'false'}\n"
        config.write_text(plain.replace("[models.net]\n", setting))
        (folder / "net.py").write_text(text)
        assert terminal.hud(*RUN, "--json", str(folder / file)).exit_code == 0
    return terminal


def names(terminal: Terminal) -> tuple[str, str]:
    after, before = (summary.run.id for summary in load_runs(terminal.store(), limit=2))
    return before, after


def compare(terminal: Terminal) -> Any:
    return json.loads(terminal.hud("compare", *names(terminal), "--json").stdout)


def test_both_sides_that_kept_the_files_have_a_diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = two_runs(tmp_path, keeps=(True, True))
    (change,) = compare(terminal)["model_code_changes"]
    assert change["diff"][-3:] == ["-x = 1", "+x = '<b>'", " "]
    assert change["note"] == ""
    lines = terminal.hud("compare", *names(terminal)).stdout.splitlines()
    first = lines.index(
        f"differs   {code_change_text(change['baseline'], change['candidate'])} (net)"
    )
    assert [line.strip() for line in lines[first + 1 :]][:5] == [
        "--- baseline/net.py",
        "+++ candidate/net.py",
        "@@ -1,2 +1,2 @@",
        "-x = 1",
        "+x = '<b>'",
    ]
    # The fact with the hashes of the sources is no difference of the environments.
    assert not any("model_sources" in line for line in lines)
    assert find_orphans(terminal.store()) == ()


@pytest.mark.parametrize("keeps", [(False, False), (False, True), (True, False)])
def test_without_both_files_the_setting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: tuple[bool, bool]
) -> None:
    monkeypatch.chdir(tmp_path)
    (change,) = compare(two_runs(tmp_path, keeps=keeps))["model_code_changes"]
    assert change["diff"] == []
    assert "[models.net] keep_source" in change["note"]


def test_result_files_have_the_diff_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    two_runs(tmp_path, keeps=(True, True))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Terminal(elsewhere)
    answer = other.hud("compare", *(str(tmp_path / file) for file in FILES), "--json")
    (change,) = json.loads(answer.stdout)["model_code_changes"]
    assert change["diff"][-3:] == ["-x = 1", "+x = '<b>'", " "]
