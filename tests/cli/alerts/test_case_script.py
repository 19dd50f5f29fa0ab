"""`hud alerts export --script`: a script with the code and settings that both runs had."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Run, RunRef
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.graphs import CapturedCase
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_document,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.fakes import FakeExecutor, make_captured_case
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

RUN = ("run", "--model", "net", "--mode", "default")
CASE = make_case("net", shape="default", device="cpu")


def graphs_of(order: CaseOrder) -> CapturedCase:
    """Return a graph that names the code and the settings that it would be built with."""
    code = Path(order.workload.build).read_text(encoding="utf-8").strip()
    settings = order.workload.compile.flat
    return make_captured_case(f"code {code}, passes {order.workload.config}, {settings}")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)

    def use(executor: FakeExecutor, _python: Path) -> None:
        executor.graphs = graphs_of  # type: ignore[method-assign]

    terminal.on_executor = use
    return terminal


def two_runs(terminal: Terminal, *, keeps: tuple[bool, bool]) -> tuple[RunRef, RunRef]:
    """Measure two runs between which the code changed, and return their references."""
    config = terminal.folder / "hud.toml"
    plain = config.read_text()
    for keep, text in zip(keeps, ("old", "new"), strict=True):
        setting = f"[models.net]\nkeep_source = {'true' if keep else 'false'}\n"
        config.write_text(plain.replace("[models.net]\n", setting))
        (terminal.folder / "net.py").write_text(f"# {text}\n")
        assert terminal.hud(*RUN).exit_code == 0
    after, before = (summary.run for summary in load_runs(terminal.store(), limit=2))
    return make_run_ref(before), make_run_ref(after)


def stored(terminal: Terminal, name: str, details: Mapping[str, Any]) -> RunRef:
    """Store a run whose result has `details`, and return its reference."""
    run: Run = make_run(name, finished_at=START, plan=[CASE])
    result = make_result(f"result-{name}", run=run, details=details)
    with terminal.store().write() as connection:
        put_documents(connection, [make_document(run, results=[result])], at=START)
    return make_run_ref(run)


def exported(
    terminal: Terminal, last_good: RunRef | None, first_bad: RunRef
) -> tuple[Result, str, str]:
    """Return the answer of the command, the script and the README of the archive."""
    document = load_document(terminal.store(), first_bad.run_id)
    alert = make_alert(
        "alert-1",
        case=document.results[0].case,
        toolchain="current",
        last_good=last_good,
        first_bad=first_bad,
    )
    save_alerts(terminal.store(), [alert])
    result = terminal.hud("alerts", "export", "alert-1", "-o", "case.zip", "--script")
    assert result.exit_code == 0, result.output
    with zipfile.ZipFile(terminal.folder / "case.zip") as archive:
        texts = [archive.read(name).decode() for name in ("script.py", "README.md")]
    return result, texts[0], texts[1]


def test_each_side_has_the_code_that_its_run_kept(terminal: Terminal) -> None:
    before, after = two_runs(terminal, keeps=(True, True))
    # The present code is of neither run.
    (terminal.folder / "net.py").write_text("# later\n")
    result, script, readme = exported(terminal, before, after)
    sides = script.split("class CandidateGraph0")
    assert ["code # old" in side for side in sides] == [True, False]
    assert ["code # new" in side for side in sides] == [False, True]
    assert "later" not in script
    assert '"metric": "latency_s"' in script
    assert "Note:" not in readme
    assert "script.py" not in result.stderr


def test_without_the_old_code_the_script_has_the_candidate_alone(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    before, after = two_runs(terminal, keeps=(False, True))
    result, script, readme = exported(terminal, before, after)
    assert "code # new" in script
    assert "Baseline" not in script
    note = result.stderr.splitlines()[-1].replace(before.run_id, "RUN")
    assert note == words
    assert note.removeprefix("script.py: ") in readme.replace(before.run_id, "RUN")


def test_changed_files_that_no_run_kept_are_noted_for_the_candidate_too(
    terminal: Terminal,
) -> None:
    before, after = two_runs(terminal, keeps=(False, False))
    (terminal.folder / "net.py").write_text("# later\n")
    result, script, _ = exported(terminal, before, after)
    assert "code # later" in script
    lines = [line for line in result.stderr.splitlines() if line.startswith("script.py: ")]
    assert [run.run_id in line for run, line in zip((after, before), lines, strict=True)] == [
        True,
        True,
    ]


def test_the_configuration_and_the_settings_are_those_of_each_run(terminal: Terminal) -> None:
    before = stored(terminal, "run-a", {"workload": {"build": "net.py", "config": {"passes": 2}}})
    variant = {"inductor.cpp.simdlen": 256, "options.max_fusion_size": 8, "env.A": "1"}
    workload = {"build": "net.py", "config": {"passes": 3}, "variant": variant}
    after = stored(terminal, "run-b", {"workload": workload})
    _, script, _ = exported(terminal, before, after)
    old, new = script.split("class CandidateGraph0")
    assert "passes {'passes': 2}, {}" in old
    assert "passes {'passes': 3}" in new
    assert all(f"{name!r}: {value!r}" in new for name, value in variant.items())


@pytest.mark.parametrize("lacking", ["no good run", "pruned", "no result", "same", "broken"])
def test_a_note_says_why_a_side_is_missing(
    terminal: Terminal, lacking: str, words: SnapshotAssertion
) -> None:
    after = stored(terminal, "run-b", {})
    before: RunRef | None = None
    if lacking == "pruned":
        before = make_run_ref(make_run("run-a"))
    elif lacking == "no result":
        run = make_run("run-a", finished_at=START, plan=[])
        with terminal.store().write() as connection:
            put_documents(connection, [make_document(run)], at=START)
        before = make_run_ref(run)
    elif lacking == "same":
        before = stored(terminal, "run-a", {})
    elif lacking == "broken":
        before = stored(terminal, "run-a", {"workload": {"config": {"passes": 2}}})

        def use(executor: FakeExecutor, _python: Path) -> None:
            def graphs(order: CaseOrder) -> CapturedCase:
                if order.run_id == "run-a":
                    raise ExecutorError(f"no script of {order.case.key}: it broke")
                return graphs_of(order)

            executor.graphs = graphs  # type: ignore[method-assign]

        terminal.on_executor = use
    result, script, _ = exported(terminal, before, after)
    assert "Baseline" not in script
    assert result.stderr.splitlines()[-1] == words


def test_a_candidate_that_does_not_run_as_stored_has_the_present_code(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    after = stored(terminal, "run-b", {"workload": {"config": {"passes": 3}}})

    def use(executor: FakeExecutor, _python: Path) -> None:
        def graphs(order: CaseOrder) -> CapturedCase:
            if order.workload.config.get("passes") == 3:
                raise ExecutorError(f"no script of {order.case.key}: it broke")
            return graphs_of(order)

        executor.graphs = graphs  # type: ignore[method-assign]

    terminal.on_executor = use
    result, script, _ = exported(terminal, None, after)
    assert "Candidate" in script
    assert result.stderr == words


def test_kept_files_are_unpacked_where_they_were(terminal: Terminal) -> None:
    config = terminal.folder / "hud.toml"
    text = config.read_text().replace(
        '[models.net]\nbuild = "net.py"', '[models.net]\nkeep_source = true\nbuild = "own/net.py"'
    )
    config.write_text(text)
    own = terminal.folder / "own"
    own.mkdir()
    (own / "net.py").write_text("import common\n")
    common = terminal.folder / "common.py"
    refs = []
    for passes in ("2", "3"):
        common.write_text(f"PASSES = {passes}\n")
        assert terminal.hud(*RUN).exit_code == 0
        refs.append(make_run_ref(next(iter(load_runs(terminal.store(), limit=1))).run))
    common.write_text("PASSES = 4\n")

    def use(executor: FakeExecutor, _python: Path) -> None:
        def graphs(order: CaseOrder) -> CapturedCase:
            checkout = order.workload.checkout
            assert checkout is not None
            assert checkout.repository == str(terminal.folder)
            assert Path(order.workload.build) == Path(checkout.folder, "own", "net.py")
            return make_captured_case(Path(checkout.folder, "common.py").read_text().strip())

        executor.graphs = graphs  # type: ignore[method-assign]

    terminal.on_executor = use
    _, script, _ = exported(terminal, *refs)
    assert [number for number in "234" if f"PASSES = {number}" in script] == ["2", "3"]
