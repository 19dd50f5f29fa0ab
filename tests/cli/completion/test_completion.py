"""Completion of `hud` in a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.cli.main import main
from tests.support.sources import ROOT
from tests.support.terminal import CONFIG


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hud.toml").write_text(CONFIG)
    return tmp_path


def completed(*typed: str, incomplete: str = "") -> list[str]:
    complete = ShellComplete(main, {}, "hud", "_HUD_COMPLETE")
    return [item.value for item in complete.get_completions(list(typed), incomplete)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_hud_for_names(shell: str, folder: Path) -> None:
    (folder / "hud.toml").write_text("broken [")
    done = subprocess.run(
        [sys.executable, "-m", "compile_hud.runner", "completion", shell],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_HUD_COMPLETE={shell}_complete" in done.stdout
    assert done.stderr == ""


def test_commands_and_options_complete() -> None:
    assert completed(incomplete="comp") == ["compiles", "compare", "completion"]
    assert completed("alerts", incomplete="ass") == ["assign"]
    assert completed("run", incomplete="--dry") == ["--dry-run"]
    assert completed("completion") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("typed", "incomplete", "names"),
    [
        (("run", "--suite"), "mi", ["mine"]),
        (("run", "--model"), "fai", ["fails"]),
        (("run", "--model"), "ber", [name for name in CATALOG if name.startswith("ber")]),
        (("run", "--mode"), "max", [name for name in VARIANTS if name.startswith("max")]),
        (("run", "--toolchain"), "", ["current"]),
        (("release",), "cur", ["current"]),
        (("bisect", "--metric"), "latency_c", ["latency_cpu_s"]),
        (("export", "--metric"), "graph_b", ["graph_breaks"]),
        (("alerts", "list", "--model"), "ne", ["net"]),
    ],
)
def test_names_of_the_settings_complete(
    typed: tuple[str, ...], incomplete: str, names: list[str]
) -> None:
    assert completed(*typed, incomplete=incomplete) == names


def test_the_named_settings_count(folder: Path) -> None:
    (folder / "other.toml").write_text('[suites.theirs]\nmodels = "bert"\n')
    assert completed("run", "--config", "other.toml", "--suite", incomplete="th") == ["theirs"]


def test_broken_settings_and_a_missing_store_have_no_names_and_no_error(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "hud.toml").write_text("broken [")
    assert completed("run", "--suite") == []
    assert completed("show") == []
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in folder.iterdir()] == ["hud.toml"]
