"""hud bisect over torch versions, with a Python that only pretends to install them."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import BisectError
from compile_hud.runner.system.toolchain_home import toolchain_home
from compile_hud.runner.toolchains.registry import built_toolchains, changing
from compile_hud.runner.toolchains.torch_releases import (
    TorchSource,
    TorchToolchains,
    expand,
    list_versions,
)
from tests.support.runs.bisection import CASE, BisectTerminal
from tests.support.runs.fake_python import Pretender

LEVELS = {"2.9.0": 0.010, "2.10.0": 0.010, "2.11.0": 0.010, "2.12.0": 0.014, "2.13.0": 0.014}
INDEX = "echo 'torch (2.13.0)'; echo 'Available versions: 2.13.0+cpu, 2.12.0+cpu, 2.11.0, 2.9.0'"


class TorchTerminal(BisectTerminal):
    """A terminal whose toolchains `bisect-VERSION-...` have the level of their version."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {})
        self.levels.update(LEVELS)

    def name_of(self, order: object, name: str) -> str:
        del order
        return name.split("-")[1]

    def versions(self) -> list[str]:
        """Return the versions of the toolchains that are there."""
        return [name.split("-")[1] for name in built_toolchains(self.folder / ".hud")]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TorchTerminal:
    monkeypatch.chdir(tmp_path)
    return TorchTerminal(tmp_path)


@pytest.fixture
def python(tmp_path: Path) -> Pretender:
    python = Pretender(tmp_path / "pretender")
    python.does("pip", f'case "$*" in *"index versions"*) {INDEX};; esac')
    return python


def over(python: Pretender, *versions: str) -> tuple[str, ...]:
    return ("--torch", *versions, *CASE, "--python", str(python.path))


def installed(python: Pretender) -> list[str]:
    """Return the torch versions that pip was asked to install, in order."""
    calls = [call.split()[-1] for call in python.calls()]
    return [call.removeprefix("torch==") for call in calls if call.startswith("torch==")]


def test_versions_are_built_when_they_are_needed_and_the_two_that_matter_stay(
    terminal: TorchTerminal, python: Pretender, words: SnapshotAssertion
) -> None:
    seen: list[set[str]] = []
    terminal.on_launch = lambda _name: seen.append(set(terminal.versions()))
    result = terminal.hud("bisect", *over(python, *LEVELS))
    assert result.exit_code == 0, result.output
    assert result.stdout == words
    command = f"reproduce: hud bisect --torch 2.11.0 --torch 2.12.0 --python {python.path} --model"
    assert command in result.stdout
    # 2.10.0 is never needed, and the bad end not any more once an older one is bad.
    assert installed(python) == ["2.9.0", "2.13.0", "2.11.0", "2.12.0"]
    assert max(len(versions) for versions in seen) == 4
    assert sorted(terminal.versions()) == ["2.11.0", "2.12.0"]


def test_a_version_that_cannot_be_installed_is_skipped(
    terminal: TorchTerminal, python: Pretender, words: SnapshotAssertion
) -> None:
    python.does("pip", 'case "$*" in *torch==2.11.0) echo "ERROR: Cannot install x"; exit 1;; esac')
    document = terminal.bisect(*over(python, *LEVELS))
    assert document["ending"] == "range"
    assert document["suspects"] == ["2.11.0", "2.12.0"]
    (skipped,) = (step for step in document["steps"] if step["mark"] == "skipped")
    assert skipped["reason"] == words


def test_a_range_is_what_the_index_has(terminal: TorchTerminal, python: Pretender) -> None:
    document = terminal.bisect(*over(python, "2.9.0..2.13.0"))
    names = [revision["name"] for revision in document["revisions"]]
    assert names == ["2.9.0", "2.11.0", "2.12.0", "2.13.0"]
    assert document["first_bad"]["name"] == "2.12.0"


def test_the_command_to_reproduce_it_asks_the_same_index(
    terminal: TorchTerminal, python: Pretender, words: SnapshotAssertion
) -> None:
    options = ("--nightly", "--index-url", "https://a.example/cpu")
    document = terminal.bisect(*over(python, "2.11.0", "2.12.0"), *options)
    assert document["repro"] == words
    assert document["repro"].endswith(" --nightly")


def test_nightlies_are_requested_where_they_are(
    python: Pretender, words: SnapshotAssertion
) -> None:
    source = TorchSource(python=python.path, index_url="https://a.example/cpu", is_nightly=True)
    assert list_versions(source) == ("2.9.0", "2.11.0", "2.12.0", "2.13.0")
    (call,) = (python.folder / "calls").read_text().splitlines()
    assert call == words
    assert TorchSource.from_json(source.to_json()) == source


@pytest.mark.parametrize(
    "script",
    [
        "echo 'ERROR: No matching distribution found for torch'; exit 1",
        "echo 'NewConnectionError'; exit 1",
        "exit 1",
        "echo 'unknown command index'",
    ],
)
def test_an_index_that_cannot_be_queried_leads_to_naming_each_version(
    python: Pretender, script: str, words: SnapshotAssertion
) -> None:
    python.does("pip", script)
    with pytest.raises(BisectError) as caught:
        list_versions(TorchSource(python=python.path))
    assert str(caught.value) == words


def test_an_index_that_never_answers_is_given_up(
    python: Pretender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compile_hud.runner.toolchains.torch_releases.INDEX_TIMEOUT_S", 0.1)
    python.does("pip", "exec tail -f /dev/null")
    with pytest.raises(BisectError, match="no answer after 0 s"):
        list_versions(TorchSource(python=python.path))


def test_a_python_that_cannot_be_started_is_reported(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    with pytest.raises(BisectError) as caught:
        list_versions(TorchSource(python=tmp_path / "none"))
    assert str(caught.value) == words


AVAILABLE = ("2.9.0", "2.10.0", "2.11.0", "2.12.0")


def test_the_index_is_queried_for_ranges_alone() -> None:
    def fail() -> tuple[str, ...]:
        raise AssertionError("nobody needs to know")

    assert expand(["2.10.0", "2.12.0"], available=fail) == ("2.10.0", "2.12.0")
    between = expand(["2.9.0", "2.10.0..2.12.0"], available=lambda: AVAILABLE)
    assert between == AVAILABLE


@pytest.mark.parametrize(
    "text",
    [
        "2.10.0..2.14.0",
        "2.12.0..2.10.0",
    ],
)
def test_an_invalid_range_is_refused(text: str, words: SnapshotAssertion) -> None:
    with pytest.raises(BisectError) as caught:
        expand([text], available=lambda: AVAILABLE)
    assert str(caught.value) == words


def test_a_toolchain_in_use_is_not_removed(terminal: TorchTerminal, python: Pretender) -> None:
    terminal.hud("bisect", *over(python, *LEVELS))
    state_dir = terminal.folder / ".hud"
    source = TorchSource(python=python.path)
    toolchains = TorchToolchains(source, state_dir=state_dir, dependencies=None)  # type: ignore[arg-type]
    with changing(toolchains.name("2.12.0"), state_dir=state_dir):
        toolchains.drop("2.12.0")
    assert "2.12.0" in terminal.versions()
    home = toolchain_home(state_dir, python=toolchains.find_python("2.12.0"))
    home.mkdir(parents=True)
    toolchains.drop("2.12.0")
    toolchains.drop("2.12.0")
    assert terminal.versions() == ["2.11.0"]
    assert not home.exists()


def test_other_sources_have_other_toolchains(python: Pretender, tmp_path: Path) -> None:
    def name(index_url: str) -> str:
        source = TorchSource(python=python.path, index_url=index_url)
        return TorchToolchains(source, state_dir=tmp_path, dependencies=None).name("2.9.0")  # type: ignore[arg-type]

    assert name("") != name("https://a.example/cu130")
