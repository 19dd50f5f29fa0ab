"""hud isolate --resume: what is stored is not measured again."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED
from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.isolate.record import StoredIsolation
from tests.support.nightly import daily_first
from tests.support.runs.bisection import CASE
from tests.support.runs.isolation import (
    NEW,
    OLD,
    IsolateTerminal,
    names_of,
    slow_part,
    write_package,
)

START = ("isolate", "old", "new", *CASE)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def crash() -> None:
    raise ZeroDivisionError


def stop_at(
    terminal: IsolateTerminal, name: str, *arguments: str, stop: Callable[[], None] = interrupt
) -> Any:
    """Isolate until the first launch of the toolchain or mixture `name`, and return the result."""

    def on_launch(launched: str) -> None:
        if launched == name:
            terminal.on_launch = lambda _name: None
            stop()

    terminal.on_launch = on_launch
    result = terminal.hud(*(arguments or START))
    terminal.on_launch = lambda _name: None
    return result


def stored_file(folder: Path) -> Path:
    (path,) = (folder / ".hud" / "isolate").glob("*.json")
    return path


def site_of(folder: Path, toolchain: str) -> Path:
    return next((folder / toolchain / "env" / "lib").glob("python*")) / "site-packages"


def next_command(result: Any) -> list[str]:
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("next: hud "))
    return shlex.split(line.removeprefix("next: hud "))


@pytest.mark.parametrize(
    ("number", "stop"),
    daily_first([(2, crash), (1, interrupt), (3, interrupt), (4, interrupt)], num_daily=2),
)
def test_no_mixture_is_measured_twice(folder: Path, number: int, stop: Callable[[], None]) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    stop_at(terminal, f"mixture-{number}", stop=stop)
    earlier = [f"mixture-{earlier}" for earlier in range(1, number)]
    assert set(terminal.launches) == {"old", "new", *earlier, f"mixture-{number}"}
    assert not list((folder / ".hud" / "isolate").glob("mixture-*"))
    terminal.launches.clear()
    result = terminal.hud("isolate", "--resume")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-2].endswith("part-3 1.0 -> 2.0")
    later = {f"mixture-{later}" for later in range(number, 5)}
    assert set(terminal.launches) == {"old", *later}


def test_a_stop_names_what_is_stored_and_what_continues(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    result = stop_at(terminal, "mixture-3")
    assert result.exit_code == EXIT_INTERRUPTED
    assert result.stderr == words(name="stopped")
    assert stored_file(folder).stem in result.stderr
    assert terminal.hud("isolate", "--resume").stderr == words(name="resumed")
    assert terminal.hud("isolate", "--resume").stderr == words(name="complete")


@pytest.mark.parametrize("name", ["old", "mixture-1"])
def test_a_stop_before_the_first_mixture(folder: Path, name: str, words: SnapshotAssertion) -> None:
    result = stop_at(IsolateTerminal(folder, OLD, NEW, cost=slow_part), name)
    assert result.exit_code == EXIT_INTERRUPTED
    assert result.stderr.splitlines()[-1] == words
    has_file = bool(list((folder / ".hud" / "isolate").glob("*.json")))
    assert has_file is (name != "old")


def test_a_mixture_that_does_not_run_is_not_built_again(
    folder: Path, words: SnapshotAssertion
) -> None:
    def cost(facts: Mapping[str, str]) -> float:
        if facts["part-0"] != facts["part-1"]:
            return 0
        return 0.013 if facts["part-1"] == "2.0" else 0.010

    terminal = IsolateTerminal(
        folder, {"part-0": "1.0", "part-1": "1.0"}, {"part-0": "2.0", "part-1": "2.0"}, cost=cost
    )
    first = terminal.hud(*START)
    assert first.stdout == words
    num_started = len(terminal.executors)
    again = terminal.hud("isolate", "--resume", stored_file(folder).stem)
    assert (again.stdout, again.exit_code) == (first.stdout, 1)
    assert len(terminal.executors) == num_started


def test_a_mixture_that_ctrl_c_ended_is_not_unusable(folder: Path) -> None:
    def cost(facts: Mapping[str, str]) -> float:
        if len(set(facts.values()) & {"1.0", "2.0"}) < 2:
            return slow_part(facts)
        # Ctrl-C ends the process of the mixture too, and its end is noticed first.
        with contextlib.suppress(RunInterrupted):
            interrupt()
        return 0

    result = IsolateTerminal(folder, OLD, NEW, cost=cost).hud(*START)
    assert result.exit_code == EXIT_INTERRUPTED
    assert StoredIsolation.from_json(_read(stored_file(folder))).answers == ()


def test_one_that_has_ended_can_be_shown_again(folder: Path) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    first = terminal.hud(*START)
    terminal.launches.clear()
    again = terminal.hud("isolate", "--resume", stored_file(folder).stem[:6])
    assert (again.stdout, again.exit_code) == (first.stdout, 0)
    assert terminal.launches == []


def test_of_several_the_latest_that_was_stopped_continues(folder: Path) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    stop_at(terminal, "mixture-2")
    first = stored_file(folder)
    stop_at(terminal, "mixture-2")
    terminal.hud(*START)
    assert terminal.hud("isolate", "--resume").exit_code == 0
    assert not StoredIsolation.from_json(_read(first)).is_complete
    assert terminal.hud("isolate", "--resume", first.stem).exit_code == 0
    assert StoredIsolation.from_json(_read(first)).is_complete


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_more_toolchains_search_further(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    result = terminal.hud(*START, "--max-toolchains", "4")
    assert result.exit_code == 1
    command = next_command(result)
    assert shlex.join(command) == words
    measured = set(terminal.launches) - {"old"}
    terminal.launches.clear()
    result = terminal.hud(*command)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-2].endswith("part-3 1.0 -> 2.0")
    assert {"new", "mixture-1"} <= measured
    assert not {"new", "mixture-1"} & set(terminal.launches)


def test_the_latest_that_its_limit_ended_continues_without_an_id(folder: Path) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    assert terminal.hud(*START, "--max-toolchains", "4").exit_code == 1
    terminal.launches.clear()
    # With the same limit nothing is left to measure.
    assert terminal.hud("isolate", "--resume").exit_code == 1
    assert terminal.launches == []
    result = terminal.hud("isolate", "--resume", "--max-toolchains", "8")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-2].endswith("part-3 1.0 -> 2.0")


def test_ends_that_are_not_clear_are_measured_longer(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = IsolateTerminal(
        folder, OLD, NEW, cost=lambda facts: 0.0104 if facts["part-3"] == "2.0" else 0.010
    )
    result = terminal.hud(*START, "--max-launches", "2", "--step-minutes", "2")
    assert result.stdout == words
    command = next_command(result)
    assert shlex.join(command) == words
    terminal.launches.clear()
    terminal.hud(*command)
    assert {"old", "new"} <= set(terminal.launches)
    limits = StoredIsolation.from_json(_read(stored_file(folder))).limits
    assert (limits.max_launches, limits.step_s) == (4, 240)


def _newer(folder: Path) -> None:
    (site_of(folder, "new") / "part_3-2.0.dist-info" / "METADATA").write_text(
        "Name: part-3\nVersion: 2.1\n"
    )


def _other_files(folder: Path) -> None:
    for number in (2, 3):
        (site_of(folder, "old") / f"part_{number}.py").write_text("VERSION = 'patched'\n")


def _more(folder: Path) -> None:
    write_package(site_of(folder, "old"), "part-9", "1.0")


def _variable(folder: Path) -> None:
    python = folder / "new" / "python"
    python.write_text(python.read_text().replace("exec ", "export HUD_NEW=S3CRET\nexec "))


@pytest.mark.parametrize("change", [_newer, _other_files, _more, _variable])
def test_a_toolchain_that_has_changed_is_refused(
    folder: Path, change: Callable[[Path], None], words: SnapshotAssertion
) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    stop_at(terminal, "mixture-2")
    change(folder)
    before = stored_file(folder).read_bytes()
    terminal.launches.clear()
    result = terminal.hud("isolate", "--resume")
    assert result.exit_code == 2
    assert result.stderr == words
    assert terminal.launches == []
    assert stored_file(folder).read_bytes() == before


def test_variables_of_the_shell_count_if_compilers_read_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    stop_at(terminal, "mixture-2")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("WINDOWID", "42")
    assert "OMP_NUM_THREADS has another value." in terminal.hud("isolate", "--resume").stderr
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert terminal.hud("isolate", "--resume").exit_code == 0


def test_values_of_variables_are_not_stored(folder: Path) -> None:
    variables = {"HUD_API_TOKEN": "T0KEN-of-42"}
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part, variables=variables)
    document = terminal.isolate()
    assert names_of(document) == [["part-3"]]
    text = stored_file(folder).read_text()
    assert "HUD_API_TOKEN" in text
    assert "T0KEN" not in text


def test_a_damaged_file_is_reported_by_name(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    stop_at(terminal, "mixture-2")
    path = stored_file(folder)
    whole = path.read_text()
    for content, advice in (
        (whole[: len(whole) // 2], "remove it"),
        ('{"schema_version": 0}', "remove it"),
        ('{"schema_version": 9}', "continue it with the version that wrote it"),
    ):
        path.write_text(content)
        result = terminal.hud("isolate", "--resume")
        assert result.exit_code == 2
        start = f"hud: cannot resume: .hud/isolate/{path.name} is no isolation: "
        assert result.stderr.startswith(start)
        assert result.stderr.endswith(f"; {advice}\n")
    assert result.stderr == words


def test_what_cannot_be_resumed_is_refused(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    result = terminal.hud("isolate", "--resume", "x")
    assert result.exit_code == 2
    assert result.stderr == words
    for arguments in (
        ("old", "new", "--resume"),
        ("--resume", "x", "--model", "net"),
        ("--resume", "x", "--floor", "1%"),
        ("--resume", "x", "--metric", "peak_bytes"),
    ):
        result = terminal.hud("isolate", *arguments)
        assert result.exit_code == 2
        assert result.stderr == words(name="usage")
    result = terminal.hud("isolate", "old", "old", "--model", "net")
    assert result.exit_code == 2
    assert result.stderr == words(name="same")


def test_a_toolchain_that_is_gone_is_reported(folder: Path, words: SnapshotAssertion) -> None:
    terminal = IsolateTerminal(folder, OLD, NEW, cost=slow_part)
    stop_at(terminal, "mixture-2")
    config = folder / "hud.toml"
    config.write_text(config.read_text().replace("new =", "newer ="))
    result = terminal.hud("isolate", "--resume")
    assert result.exit_code == 2
    assert result.stderr == words
