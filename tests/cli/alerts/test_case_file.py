"""`hud alerts export` and `verify`: an archive about an alert, whose numbers follow from it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.codec import encode
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Measurement, RunDocument
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.launch_noise import launch_spread
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.execution.launch_aggregation import break_even
from tests.support.builders import START, make_document, make_measurement, make_result, make_run
from tests.support.records.kernel_diffs import product
from tests.support.terminal import Terminal


def measured(level: float, *, metric: str = "speedup") -> Measurement:
    """Return a metric of two launches, with the median and the interval of a real run."""
    samples = [level * (1 + 0.002 * number) for number in range(8)]
    launches = (4, 4)
    spread = launch_spread(metric, device="cpu")
    known = estimate(samples, launches=launches, prior=spread)
    return make_measurement(
        metric,
        samples=samples,
        launches=launches,
        median=known.value,
        interval=(known.low, known.high),
    )


def night(number: int, level: float) -> RunDocument:
    at = START + timedelta(days=number)
    torch_git = "a" * 40 if number < 12 else "b" * 40
    run = make_run(
        f"run-{number:02d}", started_at=at, finished_at=at, environment={"torch_git": torch_git}
    )
    text = f"def triton_add():  # {level}\n    pass\n"
    source = KernelSource(hash=f"{number:016x}", language="triton", text=text)
    result = make_result(
        f"r-{number}",
        run_id=run.id,
        measurements=[measured(level * (1 + 0.002 * (number % 3)))],
        kernels=(replace(product("layers.0"), source_hash=source.hash),),
        sources=(source,),
    )
    return make_document(run, results=[result])


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal whose store has an alert that the detector made."""
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    store = terminal.store()
    documents = [night(number, 2.0 if number < 12 else 1.7) for number in range(16)]
    with store.write() as connection:
        put_documents(connection, documents, at=START)
    assert len(detect(store).new) == 1
    return terminal


def alert_id(terminal: Terminal) -> str:
    (alert,) = terminal.json("alerts", "list", "--state", "all", "--json")
    return str(alert["id"])


def exported(terminal: Terminal, *options: str) -> Path:
    result = terminal.hud("alerts", "export", alert_id(terminal)[:8], "-o", "case.zip", *options)
    assert result.exit_code == 0, result.output
    return terminal.folder / "case.zip"


def rewritten(path: Path, name: str, change: Callable[[Any], None]) -> None:
    """Change one document of an archive."""
    with zipfile.ZipFile(path) as archive:
        texts = {item: archive.read(item) for item in archive.namelist()}
    document = json.loads(texts[name])
    change(document)
    texts[name] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for item, text in texts.items():
            archive.writestr(item, text)


def test_every_number_of_a_case_file_follows_from_it(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    path = exported(terminal)
    with zipfile.ZipFile(path) as archive:
        assert sorted(name.split("/")[0] for name in archive.namelist()) == words
        readme = archive.read("README.md").decode()
        code_diff = archive.read("kernels.diff").decode()
    assert f"compare/{'a' * 40}...{'b' * 40}" in readme
    assert "-def triton_add():  # 2.0" in code_diff
    assert "+def triton_add():  # 1.7" in code_diff
    result = terminal.hud("alerts", "verify", "case.zip")
    assert (result.exit_code, result.stdout) == (0, words)
    names = {
        item["name"] for item in terminal.json("alerts", "verify", str(path), "--json")["numbers"]
    }
    assert {"change_pct", "interval_pct", "before default speedup"} <= names


@pytest.mark.parametrize("state", ["expect", "noise", "ack"])
def test_a_decision_of_a_person_changes_no_number(terminal: Terminal, state: str) -> None:
    decided = terminal.hud("alerts", state, alert_id(terminal), "--by", "ada", "--why", "known")
    assert decided.exit_code == 0
    assert terminal.hud("alerts", "verify", str(exported(terminal))).exit_code == 0


def test_a_value_without_samples_of_its_own_follows_from_the_others(terminal: Terminal) -> None:
    path = exported(terminal)
    levels = {"latency_cpu_s": 0.01, "compile_cold_s": 5.0, "speedup": 2.0}
    own = {name: measured(level, metric=name) for name, level in levels.items()}
    (calls,) = break_even(own)

    def write(document: Any) -> None:
        items = [encode(item) for item in (*own.values(), calls)]
        document["results"][0]["measurements"] = items

    def change(document: Any) -> None:
        document["results"][0]["measurements"][-1]["interval"][1] += 1

    rewritten(path, "before.json", write)
    assert terminal.hud("alerts", "verify", "case.zip").exit_code == 0
    rewritten(path, "before.json", change)
    result = terminal.hud("alerts", "verify", "case.zip")
    assert result.exit_code == 1
    assert "before default break_even_calls: stored" in result.stdout


def test_a_changed_sample_or_point_is_noticed(terminal: Terminal, words: SnapshotAssertion) -> None:
    path = exported(terminal)

    def change_sample(document: Any) -> None:
        document["results"][0]["measurements"][0]["samples"][0] *= 1.5

    def change_point(document: Any) -> None:
        for point in document["series"][0]["points"]:
            point["median"] *= 1 + 0.1 * (point["run_id"] > "run-11")

    rewritten(path, "before.json", change_sample)
    result = terminal.hud("alerts", "verify", "case.zip")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == words
    rewritten(path, "judged.json", change_point)
    assert "change_pct: stored" in terminal.hud("alerts", "verify", "case.zip").stdout


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("alert.json", "verdict", "improvement"),
        ("alert.json", "unit", "s"),
        ("before.json", "run", None),
    ],
)
def test_a_changed_verdict_or_run_is_noticed(
    terminal: Terminal, name: str, key: str, value: str | None
) -> None:
    path = exported(terminal)

    def change(document: Any) -> None:
        document[key] = value or {**document[key], "id": "run-03"}

    rewritten(path, name, change)
    assert terminal.hud("alerts", "verify", "case.zip").exit_code == 1


def test_the_runs_of_a_case_file_are_compared_and_stored_elsewhere(
    terminal: Terminal, tmp_path: Path
) -> None:
    with zipfile.ZipFile(exported(terminal)) as archive:
        archive.extractall(tmp_path / "case")
    compared = terminal.hud("compare", "case/before.json", "case/after.json")
    assert compared.exit_code == 1, compared.output
    terminal.clock.advance(timedelta(days=30).total_seconds())
    other = ("--store", f"duckdb:///{tmp_path}/other.duckdb")
    stored = terminal.hud("ingest", "case/before.json", "case/after.json", *other)
    assert stored.exit_code == 0, stored.output


def test_a_file_is_not_written_over(terminal: Terminal, words: SnapshotAssertion) -> None:
    path = exported(terminal)
    content = path.read_bytes()
    result = terminal.hud("alerts", "export", alert_id(terminal), "-o", "case.zip")
    assert (result.exit_code, result.stderr) == (2, words)
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", ["text", "cut", "other zip", "no version", "no id"])
def test_what_is_no_case_file_is_refused(
    terminal: Terminal, damage: str, words: SnapshotAssertion
) -> None:
    path = exported(terminal)
    if damage == "text":
        path.write_text("hello")
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:200])
    elif damage == "other zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "b")
    elif damage == "no id":
        rewritten(path, "alert.json", lambda document: document.pop("id"))
    else:
        rewritten(path, "judged.json", lambda document: document.pop("schema_version"))
    result = terminal.hud("alerts", "verify", "case.zip")
    assert result.exit_code == 2
    assert result.stderr == words
