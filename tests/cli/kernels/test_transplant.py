"""hud kernels transplant with toolchains whose kernels are made and whose launches are drawn."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.runner.cli.exit_codes import EXIT_INTERRUPTED
from tests.support.builders import make_alert, make_run, make_run_ref
from tests.support.fakes import FakeSession
from tests.support.runs.transplants import (
    CASE,
    SIDES,
    TransplantTerminal,
    net_case,
    versions,
)
from tests.support.stores.stored_results import save_alerts
from tests.support.words import replacing_numbers

ADD, MUL = "cpp_fused_add_0", "cpp_fused_mul_0"


@pytest.fixture
def words(snapshot: SnapshotAssertion, tmp_path: Path) -> SnapshotAssertion:
    """Return the snapshot of a surface's words, without decimal numbers."""
    return snapshot.with_defaults(matcher=replacing_numbers(tmp_path))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_old_kernel_takes_the_whole_loss_back(folder: Path, words: SnapshotAssertion) -> None:
    terminal = TransplantTerminal(folder, versions("add"), gains={ADD: 0.005})
    result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[2].startswith("with the old `cpp_fused_add` ")
    assert lines[2].endswith(" is gone")
    assert lines[-1].endswith("by kernels")
    assert len(lines) == 5
    assert result.stderr == words


def test_the_document_has_each_kernel_and_all_together(folder: Path) -> None:
    terminal = TransplantTerminal(
        folder,
        versions("add", bad_us=3000),
        versions("mul", bad_us=4000),
        gains={ADD: 0.001, MUL: 0.003},
    )
    document = terminal.transplant()
    assert [item["label"] for item in document["kernels"]] == ["cpp_fused_mul", "cpp_fused_add"]
    larger, smaller = (item["share_pct"] for item in document["kernels"])
    assert larger == pytest.approx(60, abs=8)
    assert smaller == pytest.approx(20, abs=8)
    together, rest = document["together"], document["rest"]
    assert together["share_pct"] == pytest.approx(80, abs=8)
    assert together["share_pct"] + rest["share_pct"] == pytest.approx(100)
    low, high = together["interval_pct"]
    assert low < together["share_pct"] < high
    assert document["loss"]["ratio"] == pytest.approx(1.5, rel=0.03)
    assert not document["loss"]["is_known"]
    assert document["sentence"].startswith("with 2 old kernels ")
    assert (document["good"], document["bad"]) == ("good", "bad")


def test_the_sides_of_a_round_are_launched_next_to_each_other(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"), gains={ADD: 0.005})
    terminal.transplant()
    first, *rounds = [terminal.launches[number : number + 3] for number in range(0, 15, 3)]
    sides = ["bad", "good", f"bad+{ADD}"]
    # The first launches compile.
    assert first == sides
    assert rounds[0] == sides
    assert rounds[1] == sides[::-1]


def test_a_loss_elsewhere_is_not_explained(folder: Path, words: SnapshotAssertion) -> None:
    terminal = TransplantTerminal(folder, versions("add", bad_us=1500))
    result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
    assert result.exit_code == 1
    assert result.stdout == words


def test_no_kernel_with_other_code_explains_nothing(folder: Path, words: SnapshotAssertion) -> None:
    fast, _ = versions("add")
    document = TransplantTerminal(folder, [fast, fast]).transplant()
    assert document["together"] is None
    assert document["sentence"] == words


def test_refused_kernels_are_named_with_reasons(folder: Path, words: SnapshotAssertion) -> None:
    fast, slow = versions("mul")
    other = slow.text.replace("float* out_ptr0", "double* out_ptr0")
    terminal = TransplantTerminal(
        folder,
        versions("add"),
        [fast, type(slow)(kernel=slow.kernel, text=other, language="cpp")],
        gains={ADD: 0.005},
    )
    result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == words


def test_only_refused_kernels_have_no_answer(folder: Path, words: SnapshotAssertion) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    terminal.endings[ADD] = (0, Outcome.FAILED)
    document = terminal.transplant()
    assert document["sentence"] == words
    (refusal,) = document["refused"]
    assert refusal["reason"] == "failed"
    assert refusal["text"].endswith(f"failed: {ADD} broke")


@pytest.mark.parametrize("first", [0, 3], ids=["at once", "in a round"])
def test_other_results_are_refused(folder: Path, first: int) -> None:
    terminal = TransplantTerminal(
        folder, versions("add"), versions("mul"), gains={ADD: 0.002, MUL: 0.002}
    )
    terminal.endings[ADD] = (first, Outcome.INACCURATE)
    document = terminal.transplant()
    assert [item["label"] for item in document["kernels"]] == ["cpp_fused_mul"]
    assert "results" in {item["reason"] for item in document["refused"]}


def test_a_launch_that_does_not_confirm_its_code_is_no_number(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"), gains={ADD: 0.005})
    terminal.confirms = False
    document = terminal.transplant()
    assert document["together"] is None
    assert "does not confirm" in document["refused"][0]["text"]


def test_builds_of_one_speed_have_no_loss(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"), bad_s=0.0101)
    document = terminal.transplant()
    assert document["loss"]["verdict"] == "same"
    assert "no loss" in document["sentence"]


def test_a_build_that_fails_ends_the_experiment(folder: Path, words: SnapshotAssertion) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    terminal.levels["good"] = -1
    result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == words


def test_a_time_limit_without_a_round_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    monkeypatch.setattr(FakeSession, "has_time", False)
    result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
    assert result.exit_code == 2
    assert "--step-minutes" in result.stderr.splitlines()[-1]


def test_ctrl_c_ends_the_experiment(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"), gains={ADD: 0.005})
    terminal.on_launch = lambda _name: os.kill(os.getpid(), signal.SIGINT)
    result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
    assert result.exit_code == EXIT_INTERRUPTED
    assert "stopped" in result.stderr


RUNS = ("--run-a", "a.json", "--run-b", "b.json", "--case", net_case().key)


def test_stored_code_of_a_good_run_is_enough(folder: Path, words: SnapshotAssertion) -> None:
    terminal = TransplantTerminal(folder, versions("add"), gains={ADD: 0.005})
    terminal.write_runs()
    result = terminal.hud("kernels", "transplant", *RUNS)
    assert "in earlier runs" in result.stdout, result.output
    assert "good" not in terminal.launches
    assert result.stderr == words
    document = terminal.transplant(*RUNS)
    assert document["loss"]["is_known"]
    assert document["loss"]["ratio"] == pytest.approx(1.5)
    assert document["together"]["share_pct"] == pytest.approx(100, abs=6)


@pytest.mark.parametrize("other", ["a.json", "run-a"])
def test_one_run_is_not_compared_with_itself(
    folder: Path, other: str, words: SnapshotAssertion
) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    terminal.write_runs()
    assert terminal.hud("ingest", "a.json").exit_code == 0
    result = terminal.hud(
        "kernels", "transplant", "--run-a", "a.json", "--run-b", other, "--case", net_case().key
    )
    assert result.exit_code == 2
    assert result.stderr == words
    assert (terminal.executors, terminal.launches) == ([], [])


def test_a_toolchain_that_is_another_one_now_is_refused(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    terminal.write_runs(revision="8.bad@0123456789")
    result = terminal.hud("kernels", "transplant", *RUNS)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == words


def test_a_toolchain_that_is_gone_is_refused(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    terminal.write_runs(toolchain="gone")
    assert "toolchain gone" in str(terminal.error("kernels", "transplant", *RUNS))


def test_code_that_changed_since_is_refused(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    terminal.write_runs()
    terminal.kernels = (versions("mul"),)
    error = terminal.error("kernels", "transplant", *RUNS)
    assert "other kernels now" in str(error)


def test_an_alert_names_both_runs(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"), gains={ADD: 0.005})
    terminal.write_runs()
    assert terminal.hud("ingest", "a.json", "b.json").exit_code == 0
    store = terminal.store()
    save_alerts(
        store,
        [
            make_alert(
                "abc1",
                case=net_case(),
                toolchain="bad",
                first_bad=make_run_ref(make_run("run-b")),
                last_good=make_run_ref(make_run("run-a")),
                change_pct=50.0,
                interval_pct=(48.0, 52.0),
            )
        ],
    )
    document = terminal.transplant("abc1")
    assert document["loss"]["low"] == pytest.approx(1.48)
    assert document["kernels"][0]["label"] == "cpp_fused_add"
    assert (document["good"], document["bad"]) == ("run run-a", "run run-b")


def test_an_alert_about_something_else_has_no_kernels(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    store = terminal.store()
    store.save_run(make_run())
    save_alerts(store, [make_alert("abc1", metric="compile_cold_s")])
    error = terminal.error("kernels", "transplant", "abc1")
    assert "is about compile_cold_s" in str(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name an ALERT"),
        (("--run-a", "x"), "name an ALERT"),
        (("abc", "--run-a", "x"), "name an ALERT"),
        ((*SIDES, "--run-a", "x"), "either stored runs"),
        (("abc", "--model", "net"), "--model goes with revisions"),
        (("--toolchain", "good", "bad", "good", *CASE), "two"),
    ],
)
def test_the_builds_are_named_in_one_way(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = TransplantTerminal(folder, versions("add")).hud("kernels", "transplant", *arguments)
    assert result.exit_code != 0
    assert message in result.stderr


def test_a_second_experiment_waits_for_the_first(folder: Path) -> None:
    terminal = TransplantTerminal(folder, versions("add"))
    inner: list[str] = []

    def again(_name: str) -> None:
        if not inner:
            inner.append("")
            result = terminal.hud("kernels", "transplant", *SIDES, *CASE)
            inner[0] = result.stderr

    terminal.on_launch = again
    terminal.transplant()
    assert "is transplanting in" in inner[0]
