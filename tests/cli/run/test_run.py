from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Outcome
from compile_hud.runner.cli.option_types import Percentage
from compile_hud.runner.cli.run.command import shorten
from compile_hud.runner.errors import (
    DocumentNotWritten,
    ExecutorError,
    NoSuchDocument,
    NoSuchResult,
)
from compile_hud.runner.execution.executor import CaseOrder
from tests.support.builders import make_case, make_measurement, make_result, make_run
from tests.support.fakes import FakeExecutor
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def test_version(terminal: Terminal) -> None:
    assert terminal.hud("--version").output.startswith("hud")


def test_a_run_prints_lines_and_a_table(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines == words
    assert result.stdout.splitlines() == words


def test_git_ignores_measured_data(terminal: Terminal) -> None:
    terminal.hud("run", "--model", "net", "--mode", "eager")
    subprocess.run(["git", "init", "--quiet"], check=True)
    listed = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=all"], capture_output=True, text=True
    ).stdout.splitlines()
    assert "?? hud.toml" in listed
    assert Path(".hud/store.duckdb").exists()
    assert [line for line in listed if ".hud/" in line] == []


def test_a_state_directory_of_another_name_gets_no_file(terminal: Terminal) -> None:
    with Path("hud.toml").open("a", encoding="utf-8") as file:
        file.write('[paths]\nstate = "."\n')
    terminal.hud("run", "--model", "net", "--mode", "eager")
    assert not Path(".gitignore").exists()


def test_json_goes_to_standard_output_alone(terminal: Terminal) -> None:
    result = terminal.hud("run", "--suite", "mine", "--json", "-")
    document = json.loads(result.stdout)
    assert document["schema_version"] == 1
    assert [item["outcome"] for item in document["results"]] == ["ok", "ok"]
    assert "compile cold" in result.stderr


def test_a_result_file_is_written(terminal: Terminal) -> None:
    terminal.hud("run", "--suite", "mine", "--json", "out.json")
    document = json.loads((terminal.folder / "out.json").read_text())
    assert document["run"]["suite"] == "mine"


def test_a_result_file_without_a_place_is_reported_before_measuring(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--suite", "mine", "--json", "no/such/out.json")
    assert result.exit_code == 2
    assert result.stderr == words
    assert terminal.executors == []


def test_no_store_stores_nothing(terminal: Terminal) -> None:
    assert terminal.hud("run", "--suite", "mine", "--no-store").exit_code == 0
    assert not (terminal.folder / ".hud").exists()


def test_options_select_cases_of_no_suite(terminal: Terminal) -> None:
    document = json.loads(
        terminal.hud("run", "--model", "net", "--mode", "eage?", "--json", "-").stdout
    )
    assert document["run"]["suite"] == "custom"
    assert [item["case"]["variant"] for item in document["results"]] == ["eager"]


def test_options_narrow_a_suite(terminal: Terminal) -> None:
    document = json.loads(
        terminal.hud("run", "--suite", "mine", "--mode", "default", "--json", "-").stdout
    )
    assert document["run"]["suite"] == "mine"
    assert [item["case"]["variant"] for item in document["results"]] == ["default"]


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [((), 1), (("--fail-on", "failure"), 1), (("--fail-on", "none"), 0)],
)
def test_a_failed_case_exits_with_1(
    terminal: Terminal, options: tuple[str, ...], exit_code: int, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--model", "fails", "--mode", "eager", *options)
    assert result.exit_code == exit_code
    assert result.stderr == words


@pytest.mark.parametrize(
    ("reason", "shown"),
    [("short\ntrace", "short"), ("x" * 101, "x" * 97 + "..."), ("x" * 100, "x" * 100)],
)
def test_a_long_reason_is_cut_in_the_table(reason: str, shown: str) -> None:
    assert shorten(reason) == shown


def test_the_gpu_is_taken_when_there_is_one(terminal: Terminal) -> None:
    terminal.has_gpu = True
    terminal.hud("run", "--suite", "mine")
    assert terminal.devices == ["cuda"]


def test_a_named_device_is_taken(terminal: Terminal) -> None:
    terminal.has_gpu = True
    terminal.hud("run", "--suite", "mine", "--device", "cpu")
    assert terminal.devices == ["cpu"]


def test_a_gpu_that_torch_cannot_use_is_reported(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    terminal.has_gpu = True
    make = terminal.make_executor

    def make_executor(*, device: str, **options: Any) -> FakeExecutor:
        executor = make(device=device, **options)
        if device == "cuda":
            monkeypatch.setattr(executor, "open", refuse)
        return executor

    def refuse() -> None:
        raise ExecutorError("no CUDA device is usable by torch 2.13.0+cpu")

    monkeypatch.setattr(terminal, "make_executor", make_executor)
    result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 0
    assert terminal.devices == ["cuda", "cpu"]
    assert result.stderr == words


def interrupt_second(terminal: Terminal) -> None:
    orders: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        orders.append(order)
        if len(orders) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    terminal.on_execute = on_execute


def test_ctrl_c_explains_how_to_go_on_and_resume_does(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    interrupt_second(terminal)
    result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 130
    last = result.stderr.splitlines()[-1]
    assert last == words
    terminal.on_execute = lambda _order: None
    run_id = last.split("`")[1].split()[-1]
    result = terminal.hud("run", "--resume", run_id)
    assert result.exit_code == 0
    assert "[2/2] net default" in result.stderr
    assert terminal.executors[-1].executed == ["net/inference/default/fp32/default/cpu"]


def test_resume_alone_means_the_latest_run(terminal: Terminal, words: SnapshotAssertion) -> None:
    interrupt_second(terminal)
    terminal.hud("run", "--suite", "mine")
    terminal.on_execute = lambda _order: None
    assert terminal.hud("run", "--resume").exit_code == 0
    result = terminal.hud("run", "--resume")
    assert result.exit_code == 2
    assert result.stderr == words


def test_resume_alone_finds_the_interrupted_run_behind_one_that_finished(
    terminal: Terminal,
) -> None:
    interrupt_second(terminal)
    terminal.hud("run", "--suite", "mine")
    terminal.on_execute = lambda _order: None
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    result = terminal.hud("run", "--resume")
    assert result.exit_code == 0
    assert terminal.executors[-1].executed == ["net/inference/default/fp32/default/cpu"]


def test_resume_needs_the_store(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("run", "--resume", "--no-store")
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--model", "nett"],
        ["run", "--mode", "defalt"],
        ["run", "--mode", "fastest"],
        ["run", "--mode", "reduce"],
        ["run", "--suite", "quik"],
        ["run", "--suite", "mine", "--toolchain", "nigh"],
        ["show", "latest"],
        ["show", "abc"],
        ["compare", "a", "b"],
        ["compare", "previous", "latest"],
        ["compare", "hud.toml", "latest"],
        ["runs", "--store", "mysql://x"],
        ["runs", "--config", "none.toml"],
        ["ingest", "hud.toml"],
    ],
)
def test_an_expected_error_is_one_line(
    terminal: Terminal, arguments: list[str], words: SnapshotAssertion
) -> None:
    result = terminal.hud(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("hud: ")
    assert result.stderr == words
    assert result.stderr.count("\n") == 1


def test_an_error_of_the_system_is_one_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> FakeExecutor:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(terminal, "make_executor", fail)
    result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 2
    assert result.stderr.startswith("hud: [Errno ")
    assert result.stderr.count("\n") == 1


def test_a_broken_config_is_reported_with_line_and_key(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (terminal.folder / "hud.toml").write_text("[run]\nlanches = 2\n")
    result = terminal.hud("runs")
    assert result.exit_code == 2
    assert result.stderr == (words)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["show", "latest"], NoSuchResult),
        (["compare", "a", "b"], NoSuchDocument),
        (["run", "--suite", "mine", "--json", "no/out.json"], DocumentNotWritten),
    ],
)
def test_debug_shows_the_traceback(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    kind: type[Exception],
) -> None:
    monkeypatch.setenv("HUD_DEBUG", "1")
    assert isinstance(terminal.hud(*arguments).exception, kind)


def test_lists_show_what_there_is(terminal: Terminal) -> None:
    assert "net" in terminal.hud("list", "models").stdout
    assert {item["name"] for item in terminal.json("list", "models", "--json")} > {"net", "bert"}
    assert "max-autotune-no-cudagraphs" in terminal.hud("list", "modes").stdout
    variants = {row["name"]: row for row in terminal.json("list", "modes", "--json")}
    assert next(iter(variants)) == "eager"
    assert variants["checkpointing"]["phases"] == ["training"]
    assert "mine" in terminal.hud("list", "suites").stdout
    assert terminal.json("list", "suites", "--json")[-1]["modes"] == ["eager", "default"]
    assert "lower is better" in terminal.hud("list", "metrics").stdout
    assert terminal.json("list", "metrics", "--json")[0]["unit"] == "s"
    assert terminal.hud("list", "toolchains").stdout.startswith("toolchain  torch ")
    assert terminal.json("list", "toolchains", "--json")[0]["name"] == "current"


def test_runs_lists_the_newest_first(terminal: Terminal, words: SnapshotAssertion) -> None:
    store = terminal.store()
    store.save_run(make_run("old"))
    terminal.clock.advance(3600)
    run = make_run("new", started_at=terminal.clock(), finished_at=terminal.clock())
    store.ingest(run, make_result(run=run), spool_id="a")
    assert terminal.hud("runs").stdout.splitlines() == words
    runs = terminal.json("runs", "--json", "--limit", "1")
    assert [item["id"] for item in runs] == ["new"]
    assert runs[0]["outcomes"] == {"ok": 1}
    assert runs[0]["num_planned"] == 1


def test_show_shows_one_run(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("show", "latest")
    assert result.stdout == words
    assert "machine    box (Fake CPU)" in result.stdout
    assert len(terminal.json("show", "latest", "--json")["results"]) == 2


def write_document(path: Path, *, latency_s: float) -> None:
    run = make_run(path.stem, plan=[make_case()])
    samples = [latency_s * factor for factor in (0.999, 1.0, 1.001)] * 3
    measurements = [
        make_measurement(name, samples=samples, launches=[3, 3, 3])
        for name in ("latency_s", "latency_cpu_s")
    ]
    result = make_result(f"{path.stem}-1", run=run, measurements=measurements)
    document = {"schema_version": 1, "run": run.to_json(), "results": [result.to_json()]}
    path.write_text(json.dumps(document))


def test_compare_exits_with_0_on_equal_files_and_1_on_a_slower_one(terminal: Terminal) -> None:
    for name, latency_s in [("a", 0.010), ("b", 0.010), ("slow", 0.020)]:
        write_document(terminal.folder / f"{name}.json", latency_s=latency_s)
    same = terminal.hud("compare", "a.json", "b.json")
    assert same.exit_code == 0
    assert "no regressions" in same.stdout
    slower = terminal.hud("compare", "a.json", "slow.json", "--fail-above", "15%")
    assert slower.exit_code == 1
    assert metric_label("latency_s") in slower.stdout
    assert "+100.0 %" in slower.stdout
    document = json.loads(terminal.hud("compare", "a.json", "slow.json", "--json").stdout)
    assert document["failed"] is True
    assert document["candidate"]["run_id"] == "slow"
    rows = {row["metric"]: row for row in document["rows"]}
    assert rows["latency_cpu_s"]["verdict"] == "regression"
    assert rows["latency_cpu_s"]["ratio"] == pytest.approx(2.0)
    assert rows["outcome"]["ratio"] is None


def test_compare_finds_runs_by_their_names(terminal: Terminal) -> None:
    terminal.hud("run", "--suite", "mine")
    terminal.facts["torch_version"] = "2.14.0"
    terminal.hud("run", "--suite", "mine")
    for names in (
        ("previous", "latest"),
        ("2.13.0+cpu@0123456789", "2.14.0@0123456789"),
        ("2.13.0+cpu", "2.14.0"),
    ):
        document = json.loads(terminal.hud("compare", *names, "--json").stdout)
        assert document["baseline"]["revision"] == "2.13.0+cpu@0123456789"
        assert document["candidate"]["revision"] == "2.14.0@0123456789"


def test_a_run_compared_with_itself_reports_it(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("compare", "latest", "latest")
    assert result.exit_code == 0
    assert result.stderr == words


def test_runs_of_other_environments_do_not_compare(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("run", "--suite", "mine")
    terminal.facts["cpu_model"] = "Other CPU"
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("compare", "previous", "latest")
    assert result.exit_code == 2
    assert result.stderr == words


@pytest.mark.parametrize(("text", "fraction"), [("5%", 0.05), ("0.05", 0.05), (" 15 % ", 0.15)])
def test_a_percentage_is_a_fraction(text: str, fraction: float) -> None:
    assert Percentage().convert(text, None, None) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["5", "-5%", "x", "100%", ""])
def test_an_invalid_percentage_is_refused(text: str, words: SnapshotAssertion) -> None:
    with pytest.raises(click.BadParameter) as caught:
        Percentage().convert(text, None, None)
    assert str(caught.value) == words


def test_ingest_takes_result_files_once(terminal: Terminal, words: SnapshotAssertion) -> None:
    write_document(terminal.folder / "a.json", latency_s=0.010)
    first = terminal.json("ingest", "a.json", "--json")
    assert (first["ingested"], first["duplicates"]) == (1, 0)
    again = terminal.hud("ingest", "a.json")
    assert again.stdout == words


def test_ingest_reports_what_it_sets_aside(terminal: Terminal, words: SnapshotAssertion) -> None:
    spool = terminal.folder / ".hud" / "spool"
    spool.mkdir(parents=True)
    (spool / "1.json").write_text("{")
    result = terminal.hud("ingest")
    assert result.exit_code == 1
    assert result.stderr == words


def test_detect_is_idempotent(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("run", "--suite", "mine")
    first = terminal.json("detect", "--json")
    assert terminal.json("detect", "--json") == first
    assert terminal.hud("detect").stdout == words


def test_a_case_that_fails_after_it_was_ok_is_a_regression(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("run", "--suite", "mine")
    terminal.clock.advance(86400)

    def make_executor(**_: object) -> FakeExecutor:
        executor = FakeExecutor(clock=terminal.clock)
        executor.ENDINGS = {"net": Outcome.FAILED}
        return executor

    terminal.make_executor = make_executor  # type: ignore[method-assign]
    result = terminal.hud("run", "--suite", "mine")
    assert result.exit_code == 1
    # Cases that failed at once are measured again in any order.
    assert sorted(result.stderr.splitlines()) == words


def test_the_demo_goes_to_a_store_of_its_own(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("demo", "--nights", "3")
    assert result.exit_code == 0
    assert result.stdout == words
    assert result.stderr.splitlines() == words
    assert not (terminal.folder / ".hud" / "store.duckdb").exists()
    assert terminal.json("runs", "--store", ".hud/demo.duckdb", "--json")[0]["is_synthetic"]


@pytest.mark.nightly
def test_the_demo_never_goes_to_the_configured_store(terminal: Terminal) -> None:
    (terminal.folder / "hud.toml").write_text('[store]\nurl = "duckdb:///real.duckdb"\n')
    terminal.hud("demo", "--nights", "3")
    assert not (terminal.folder / "real.duckdb").exists()
    terminal.hud("demo", "--nights", "3", "--store", "other.duckdb")
    assert (terminal.folder / "other.duckdb").exists()


def test_serve_becomes_the_dashboard(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    executed: list[list[str]] = []
    stores: list[str] = []

    def execve(_path: str, command: list[str], env: dict[str, str]) -> None:
        executed.append(command)
        stores.append(env["HUD_DATABASE_URL"])

    monkeypatch.setattr(os, "execve", execve)
    result = terminal.hud("serve", "--host", "127.0.0.1", "--port", "0")
    assert result.stderr.startswith("dashboard: http://127.0.0.1:")
    assert executed[0][1:4] == ["-P", "-m", "compile_hud.app"]
    assert stores == ["duckdb:///.hud/store.duckdb"]


def test_serve_listens_wider_where_that_is_meant(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, command, _env: executed.append(command))
    terminal.hud("serve", "--host", "0.0.0.0", "--port", "0", "--without-sign-in")
    with (terminal.folder / "hud.toml").open("a") as stream:
        stream.write("[server]\nwithout_sign_in = true\n")
    terminal.hud("serve", "--host", "0.0.0.0", "--port", "0")
    assert [command[-1] for command in executed] == ["--without-sign-in"] * 2


def test_migrate_creates_the_store(terminal: Terminal, words: SnapshotAssertion) -> None:
    assert terminal.hud("db", "migrate").stdout == words
    assert (terminal.folder / ".hud" / "store.duckdb").exists()
