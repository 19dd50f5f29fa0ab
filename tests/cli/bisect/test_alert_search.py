"""Confirmed alerts start searches, and the results become a part of their causes."""

from __future__ import annotations

import dataclasses
import json
import re
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreLocked
from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import MAX_ATTEMPTS, JobState
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.store import Store
from compile_hud.runner.cli.bisect.alert_search import queue_searches_safely
from compile_hud.runner.errors import BisectError, ExecutorError, SearchImpossible
from compile_hud.runner.scheduling.job_requests import JobRequest
from compile_hud.runner.toolchains.registry import Probe
from tests.support.builders import make_case, make_run_ref
from tests.support.runs.alert_searches import SETTINGS, AlertSearchDesk, commit_desk
from tests.support.runs.bisection import BisectTerminal, CommitTerminal

SUBJECTS = ("begin", "two", "three", "four", "five", "six")
COMMITS = dict(zip(SUBJECTS, [0.010, 0.010, 0.010, 0.012, 0.012, 0.012], strict=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def repository(folder: Path) -> tuple[CommitTerminal, AlertSearchDesk]:
    return commit_desk(folder, COMMITS)


def ends(terminal: CommitTerminal, good: str = "begin", bad: str = "six") -> tuple[str, str]:
    return terminal.commits[good][:10], terminal.commits[bad][:10]


def without_ids(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{10,40}\b", "COMMIT", text)


def test_a_confirmed_alert_is_searched_by_the_queue_and_has_the_first_bad_commit(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    waiting = desk.document()
    assert (waiting["state"], waiting["axis"]) == ("queued", "commit")
    assert without_ids(waiting["text"]) == words
    (job,) = load_health(terminal.store()).open_jobs
    assert (job.suite, job.machine, job.trigger) == ("bisect alert-1", "box", "alert")
    desk.worker().run_queued()
    result = desk.document()
    assert (result["state"], result["ending"]) == ("ended", "found")
    assert result["first_bad"]["name"] == terminal.commits["four"]
    assert result["last_good"]["name"] == terminal.commits["three"]
    low, high = result["interval_pct"]
    assert low < result["change_pct"] < high
    assert low < 20 < high
    assert result["num_pairs"] >= 4
    assert 0 < result["error_bound"] <= 0.01
    assert without_ids(result["text"]) == words
    (ended,) = load_health(terminal.store()).ended_jobs
    assert ended.state is JobState.DONE


def test_an_alert_is_searched_once(repository: tuple[CommitTerminal, AlertSearchDesk]) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    desk.queue()
    desk.worker().run_queued()
    launches = len(terminal.launches)
    desk.queue()
    desk.worker().run_queued()
    assert len(terminal.launches) == launches
    assert load_health(terminal.store()).num_jobs == {JobState.DONE: 1}
    # It came back after it was fixed: the old result is not its own, and no second job is made.
    desk.revise(bisection=None)
    desk.queue()
    assert desk.document()["text"].endswith("`hud bisect --alert alert-1` searches again")
    assert load_health(terminal.store()).num_jobs == {JobState.DONE: 1}


@pytest.mark.parametrize(
    "values",
    [
        {"is_confirmed": None},
        {"is_confirmed": False},
        {"state": AlertState.NOISE},
        {"state": AlertState.FIXED},
        {"verdict": "improvement"},
        {"machine": "elsewhere"},
    ],
)
def test_other_alerts_are_not_searched(
    repository: tuple[CommitTerminal, AlertSearchDesk], values: dict[str, Any]
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal), **values)
    desk.queue()
    assert desk.document() is None
    assert load_health(terminal.store()).open_jobs == ()


def test_a_muted_alert_is_searched_when_its_mute_has_ended(
    repository: tuple[CommitTerminal, AlertSearchDesk],
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.revise(muted_until=terminal.clock() + timedelta(hours=1))
    desk.queue()
    assert desk.document() is None
    terminal.clock.advance(3601)
    desk.queue()
    assert desk.document()["state"] == "queued"


def test_nothing_is_queued_without_the_setting(folder: Path) -> None:
    terminal, desk = commit_desk(folder, COMMITS, settings="")
    desk.save_alert(*ends(terminal))
    desk.queue()
    assert desk.document() is None


def test_a_single_revision_between_the_runs_is_the_answer_at_once(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal, "three", "four"))
    desk.queue()
    document = desk.document()
    assert (document["state"], document["ending"]) == ("ended", "found")
    assert document["first_bad"]["name"] == terminal.commits["four"]
    assert without_ids(document["text"]) == words
    assert (terminal.launches, load_health(terminal.store()).open_jobs) == ([], ())


def test_an_alert_without_revisions_says_so_and_queues_nothing(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    good, bad = ends(terminal)
    cases: tuple[tuple[tuple[str, Any], dict[str, Any]], ...] = (
        ((good, good), {}),
        ((good, f"{bad}+dirty(5f3a)"), {}),
        ((good, "fedcba9876"), {}),
        ((bad, good), {}),
        ((good, bad), {"toolchain": "removed"}),
        ((good, bad), {"last_good": None}),
        ((good, bad), {"last_good": make_run_ref()}),
        ((good, bad), {"kind": "variance"}),
        ((good, bad), {"metric": "flops"}),
        ((good, bad), {"case": make_case("gone", mode="eager")}),
        (({"models_zoo": "a"}, {"models_zoo": "b"}), {}),  # type: ignore[arg-type]
        ((good, good), {"torch": ("2.12.0@fedcba9876", "2.13.0@0123456789")}),
    )
    for revisions, values in cases:
        if values.get("case"):
            desk.case = values["case"]
            revisions = tuple({"gone": item} for item in revisions)  # type: ignore[assignment]
        desk.save_alert(*revisions, **values)
        desk.queue()
        document = desk.document()
        assert document["state"] == "not_searched", document
        text = without_ids(document["text"]).replace(str(terminal.folder), "FOLDER")
        assert text == words
        desk.revise(bisection=None)
        desk.case = make_case("net", family="own", shape="default", mode="eager")
    assert load_health(terminal.store()).open_jobs == ()
    assert terminal.launches == []


def test_a_due_run_goes_first_and_the_search_continues_after_it(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    # A run that was requested later is nevertheless taken first.
    terminal.store().enqueue_job(
        dedupe_key="first", suite="nothing", toolchain="current", trigger="manual", machine="box"
    )
    order: list[str] = []
    request = JobRequest(
        dedupe_key="night", suite="nothing", toolchain="current", trigger="schedule night"
    )

    def on_launch(name: str) -> None:
        if not order:
            # The schedule fires while the ends are measured.
            desk.requests.write(request)
        order.append(name)

    terminal.on_launch = on_launch
    desk.worker().run_queued()
    texts = [text for text in desk.messages() if text.startswith("job ")]
    assert [text.partition(":")[0] for text in texts if ", attempt" in text] == [
        "job first",
        "job bisect alert-1",
        "job night",
        "job bisect alert-1",
    ]
    assert texts == words
    # What was measured before the run was kept: the ends have their pairs once.
    assert desk.document()["first_bad"]["name"] == terminal.commits["four"]
    jobs = {job.dedupe_key: job for job in load_health(terminal.store()).ended_jobs}
    assert jobs["bisect alert-1"].num_attempts == 1


def test_the_budget_ends_a_search_with_a_range(folder: Path, words: SnapshotAssertion) -> None:
    terminal, desk = commit_desk(folder, COMMITS, settings=f"{SETTINGS}bisect_minutes = 1\n")
    terminal.launch_s = 5.0
    desk.save_alert(*ends(terminal))
    desk.queue()
    desk.worker().run_queued()
    document = desk.document()
    assert (document["ending"], document["first_bad"]) == (None, None)
    assert len(document["suspects"]) > 1
    assert document["took_s"] >= 60.0
    text = re.sub(r"--resume \w+", "--resume ID", without_ids(document["text"]))
    assert text == words
    # By hand it goes on without a budget, and the alert has the new result.
    continued = terminal.bisect("--resume")
    assert desk.document()["ending"] == continued["ending"] is not None
    assert desk.document()["suspects"] == continued["suspects"] != document["suspects"]


def test_a_search_that_fails_gives_its_reason_to_the_alert(
    repository: tuple[CommitTerminal, AlertSearchDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()

    def disconnected(*_values: Any, **_more: Any) -> Any:
        raise ExecutorError("the device is lost")

    monkeypatch.setattr(terminal, "make_executor", disconnected)
    for _ in range(3):
        desk.worker().run_queued()
        assert terminal.store() is not None
        terminal.clock.advance(3600)
    (job,) = load_health(terminal.store()).ended_jobs
    assert (job.state, job.num_attempts) == (JobState.FAILED, 3)
    assert job.reason in desk.document()["text"]


def test_a_search_whose_process_dies_three_times_gives_its_reason_to_the_alert(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    desk.lease_in_dead_processes(MAX_ATTEMPTS)
    assert desk.document()["state"] == "queued"
    desk.worker().run_queued()
    assert (desk.document()["state"], desk.document()["text"]) == ("not_searched", words)
    (job,) = load_health(terminal.store()).ended_jobs
    assert (job.state, job.num_attempts) == (JobState.FAILED, MAX_ATTEMPTS)
    assert job.reason in desk.messages()[-1]
    assert terminal.launches == []


def test_a_dead_search_leaves_the_result_of_one_by_hand(
    repository: tuple[CommitTerminal, AlertSearchDesk],
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    desk.lease_in_dead_processes(MAX_ATTEMPTS)
    terminal.bisect("--alert", "alert-1")
    result = desk.document()
    desk.worker().run_queued()
    assert desk.document() == result
    assert result["ending"] == "found"
    assert load_health(terminal.store()).num_jobs == {JobState.FAILED: 1}


def test_an_end_that_fails_now_is_the_reason(folder: Path, words: SnapshotAssertion) -> None:
    terminal, desk = commit_desk(folder, {**COMMITS, "six": -1.0})
    desk.save_alert(*ends(terminal))
    desk.queue()
    desk.worker().run_queued()
    assert desk.document()["text"] == words
    (job,) = load_health(terminal.store()).ended_jobs
    assert job.state is JobState.DONE


def test_ends_that_do_not_differ_now_are_not_decided(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal, desk = commit_desk(folder, dict.fromkeys(SUBJECTS, 0.010))
    torch = ("2.12.0@fedcba9876", "2.13.0@0123456789")
    desk.save_alert(*ends(terminal), torch=torch)
    desk.queue()
    desk.worker().run_queued()
    assert desk.document()["ending"] == "same_ends"
    assert without_ids(desk.document()["text"]) == words


def test_a_decision_meanwhile_ends_the_search_before_it_starts(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    desk.revise(state=AlertState.NOISE)
    desk.worker().run_queued()
    assert (desk.document()["state"], desk.document()["text"]) == ("not_searched", words)
    assert terminal.launches == []


TORCHES = {"t0": 0.010, "t1": 0.010, "t2": 0.013, "t3": 0.013}


def test_toolchains_with_versions_between_are_searched(folder: Path) -> None:
    terminal = BisectTerminal(folder, TORCHES)
    desk = AlertSearchDesk(terminal)
    terminal.probe = lambda python: Probe(
        torch_version=f"2.1{python.parts[-3][1:]}.0" if "opt" in python.parts else "9.9"
    )
    code = "0123456789"
    torch = ("2.10.0@a", "2.13.0@b")
    desk.save_alert(code, code, torch=torch, toolchain="t3")
    desk.queue()
    assert desk.document()["axis"] == "toolchain"
    desk.worker().run_queued()
    assert desk.document()["first_bad"]["name"] == "t2"
    assert desk.document()["last_good"]["name"] == "t1"


def test_versions_of_the_index_are_searched_where_the_toolchain_has_one(
    folder: Path, snapshot: SnapshotAssertion
) -> None:
    words = snapshot
    terminal = BisectTerminal(folder, TORCHES)
    venv = folder / ".hud" / "venvs" / "ours"
    venv.mkdir(parents=True)
    recipe = {"name": "ours", "torch": None, "python": "/usr/bin/python3", "index_url": "https://i"}
    (venv / "toolchain.json").write_text(json.dumps({"schema_version": 1, "recipe": recipe}))
    desk = AlertSearchDesk(terminal)
    desk.versions = ("2.10.0", "2.11.0", "2.12.0", "2.13.0", "2.14.0")
    torch = ("2.10.0+cu126@a", "2.13.0+cu126@b")
    desk.save_alert("0123456789", "0123456789", torch=torch, toolchain="ours")
    desk.queue()
    assert desk.document()["text"] == words
    assert (desk.document()["axis"], desk.sources[0].index_url) == ("torch", "https://i")
    # After a downgrade the last good version is the newer one.
    desk.save_alert("0123456789", "0123456789", torch=torch[::-1], toolchain="ours", id="alert-2")
    desk.queue()
    assert desk.document("alert-2")["text"] == words


def test_an_index_that_does_not_answer_is_asked_again_after_the_next_run(
    folder: Path, words: SnapshotAssertion
) -> None:
    terminal = BisectTerminal(folder, TORCHES)
    venv = folder / ".hud" / "venvs" / "ours"
    venv.mkdir(parents=True)
    recipe = {"name": "ours", "torch": None, "python": "/usr/bin/python3", "index_url": "https://i"}
    (venv / "toolchain.json").write_text(json.dumps({"schema_version": 1, "recipe": recipe}))
    desk = AlertSearchDesk(terminal)

    def silent(_source: Any) -> Any:
        raise BisectError("no answer")

    desk._versions_of = silent  # type: ignore[method-assign]
    torch = ("2.10.0@a", "2.13.0@b")
    desk.save_alert("0123456789", "0123456789", torch=torch, toolchain="ours")
    desk.queue()
    assert desk.document() is None
    assert desk.messages() == words


def test_by_hand_the_alert_has_its_options_and_gets_the_result(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    result = terminal.hud("bisect", "--alert", "alert")
    assert result.exit_code == 0, result.output
    assert terminal.commits["four"][:10] in result.stdout
    assert desk.document()["first_bad"]["name"] == terminal.commits["four"]
    shown = terminal.hud("alerts", "show", "alert-1").stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("bisect "))
    assert without_ids(line) == words
    document = terminal.json("alerts", "show", "alert-1", "--json")
    assert document["cause"]["bisection"] == desk.document()
    # The queue has nothing more to do for it.
    desk.queue()
    assert load_health(terminal.store()).open_jobs == ()


def test_by_hand_the_limits_may_be_others(
    repository: tuple[CommitTerminal, AlertSearchDesk],
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal), change_pct=4.0)
    small = terminal.bisect("--alert", "alert-1")
    assert small["limits"]["floor"] == pytest.approx(0.02)
    wide = terminal.bisect("--alert", "alert-1", "--floor", "30%", "--step-minutes", "2")
    assert wide["limits"]["floor"] == pytest.approx(0.30)
    assert wide["limits"]["step_s"] == pytest.approx(120.0)


@pytest.mark.parametrize(
    "options", [("--model", "net"), ("--metric", "latency_s"), ("--resume",), ("--good", "a")]
)
def test_an_alert_brings_its_own_options(
    repository: tuple[CommitTerminal, AlertSearchDesk],
    options: tuple[str, ...],
    words: SnapshotAssertion,
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    result = terminal.hud("bisect", "--alert", "alert-1", *options)
    assert result.exit_code == 2
    assert result.stderr == words


def test_by_hand_an_alert_without_revisions_or_of_another_machine_is_refused(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    good, bad = ends(terminal)
    desk.save_alert(good, good)
    error = terminal.error("bisect", "--alert", "alert-1")
    assert isinstance(error, SearchImpossible)
    assert without_ids(str(error)) == words
    desk.save_alert(good, bad, machine="elsewhere")
    assert str(terminal.error("bisect", "--alert", "alert-1")) == words


def test_the_case_file_of_an_alert_has_the_search(
    repository: tuple[CommitTerminal, AlertSearchDesk],
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal, "three", "four"))
    desk.queue()
    path = terminal.folder / "case.zip"
    assert terminal.hud("alerts", "export", "alert-1", "--output", str(path)).exit_code == 0
    with zipfile.ZipFile(path) as archive:
        alert = json.loads(archive.read("alert.json"))
        readme = archive.read("README.md").decode()
    assert alert["cause"]["bisection"] == desk.document()
    assert f"Search: {desk.document()['text']}" in readme


def test_a_store_that_is_locked_gets_the_searches_later(
    repository: tuple[CommitTerminal, AlertSearchDesk],
    monkeypatch: pytest.MonkeyPatch,
    words: SnapshotAssertion,
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))

    def locked(*_values: Any, **_more: Any) -> Any:
        raise StoreLocked("it is locked")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "enqueue_job", locked)
        queue_searches_safely(desk.workspace, notify=desk.events.append)
    assert desk.messages() == words
    desk.queue()
    assert desk.document()["state"] == "queued"


def test_a_search_needs_a_process_that_searches(
    repository: tuple[CommitTerminal, AlertSearchDesk], words: SnapshotAssertion
) -> None:
    terminal, desk = repository
    desk.save_alert(*ends(terminal))
    desk.queue()
    worker = desk.worker()
    services = dataclasses.replace(worker.services, searcher=None)
    dataclasses.replace(worker, services=services).run_queued()
    (job,) = load_health(terminal.store()).ended_jobs
    assert job.reason == words


def test_the_result_is_reported_in_a_notification_of_its_own(
    folder: Path, words: SnapshotAssertion
) -> None:
    settings = f'{SETTINGS}[receivers.ops]\nurl = "https://hooks.example.org/x"\n'
    terminal, desk = commit_desk(folder, COMMITS, settings=settings)
    desk.save_alert(*ends(terminal))
    desk.queue()
    outbox = terminal.json("alerts", "outbox", "--json")
    assert outbox == []
    desk.worker().run_queued()
    (message,) = terminal.json("alerts", "outbox", "--json")
    assert (message["kind"], message["alert_ids"]) == ("bisected", ["alert-1"])
    assert message["title"] == words
