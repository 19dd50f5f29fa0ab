"""The output of `hud modes`."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.results import RunDocument
from compile_hud.runner.errors import NoSuchResult
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_measurement,
    make_result,
    make_run,
)
from tests.support.stores.mode_stores import INACCURATE, fill_modes
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


@pytest.fixture
def filled(terminal: Terminal) -> Terminal:
    fill_modes(terminal.store())
    return terminal


def test_each_group_has_its_answer_and_its_table(
    filled: Terminal, words: SnapshotAssertion
) -> None:
    result = filled.hud("modes")
    assert result.exit_code == 0
    assert re.sub(" +", " ", result.stdout) == words


def test_json_has_every_number_and_reason(filled: Terminal) -> None:
    document = filled.json("modes", "--json")
    assert (document["machine"], document["toolchain"]) == ("box", "stable")
    assert (document["cache"], document["calls"], document["min_gain"]) == ("cold", None, 0.05)
    full, small, training = document["groups"]
    assert [small[name] for name in ("phase", "shape", "dtype", "device")] == [
        *("inference", "small", "fp32", "cpu"),
    ]
    assert small["recommendation"] == {
        "decision": "ship",
        "mode": "max-autotune",
        "best": "max-autotune",
        "gain": pytest.approx({"value": 1.0, "low": 0.986, "high": 1.014}, abs=1e-3),
        "break_even_calls": pytest.approx({"value": 1e4, "low": 9790, "high": 10214}, rel=1e-3),
        "relative_time": None,
        "exceptions": [
            {
                "model": "ranker",
                "reason": "inaccurate",
                "is_failure": True,
                "mode": "default",
                "speedup": pytest.approx({"value": 1.5, "low": 1.485, "high": 1.515}),
            }
        ],
    }
    assert small["num_models"] == 3
    assert small["cohort"] == ["bert", "vit"]
    assert [mode["mode"] for mode in small["modes"]] == ["max-autotune", "default"]
    assert small["modes"][0]["compile_s"]["value"] == pytest.approx(50)
    assert small["modes"][0]["memory_ratio"]["value"] == pytest.approx(0.5)
    assert small["not_compared"].keys() == training["not_compared"].keys() == {"reduce-overhead"}
    assert full["recommendation"]["decision"] == "no_gain"
    assert full["recommendation"]["mode"] is None
    assert full["recommendation"]["gain"]["value"] == pytest.approx(0.02)


def test_json_has_the_cells_of_each_model(filled: Terminal) -> None:
    (_, small, _) = filled.json("modes", "--json")["groups"]
    ranker = next(model for model in small["models"] if model["model"] == "ranker")
    cells = {cell["mode"]: cell for cell in ranker["modes"]}
    assert ranker["best"] == "default"
    assert cells["max-autotune"] == {
        "mode": "max-autotune",
        "case": INACCURATE.key,
        "run_id": "modes-box-stable",
        "state": "failing",
        "outcome": "inaccurate",
        "reason": "inaccurate",
        "runs_as": None,
        "other_revisions": [],
        **dict.fromkeys(("speedup", "latency_s", "compile_s", "memory_ratio", "break_even_calls")),
    }
    assert cells["default"]["latency_s"]["value"] == pytest.approx(0.010 / 1.5)
    assert cells["default"]["break_even_calls"]["value"] == pytest.approx(1500)
    assert cells["reduce-overhead"]["runs_as"] == "default"
    assert cells["reduce-overhead"]["speedup"] == cells["default"]["speedup"]


def test_the_expected_calls_choose_the_mode(filled: Terminal) -> None:
    document = filled.json("modes", "--json", "--calls", "4000", "--shape", "small")
    inference, training = document["groups"]
    assert document["calls"] == 4000
    assert inference["recommendation"]["mode"] == "default"
    # 5 s and 4,000 calls of 6.7 ms, over 4,000 calls of 10 ms.
    assert inference["recommendation"]["relative_time"] == pytest.approx(0.7917, rel=1e-3)
    assert training["recommendation"]["decision"] == "too_few_calls"


def test_a_filled_cache_has_its_own_compile_times(filled: Terminal) -> None:
    (group,) = filled.json("modes", "--json", "--cache", "warm", "--phase", "training")["groups"]
    assert group["modes"][0]["compile_s"]["value"] == pytest.approx(2)


def test_filters_select_results(filled: Terminal) -> None:
    (group,) = filled.json("modes", "--json", "--phase", "inference", "--shape", "sm*")["groups"]
    assert (group["phase"], group["shape"]) == ("inference", "small")
    (group,) = filled.json(
        "modes", "--json", "--model", "r*", "--phase", "inference", "--shape", "small"
    )["groups"]
    assert [model["model"] for model in group["models"]] == ["ranker"]
    assert group["title"] == "Ship default"


def test_a_missing_case_fails(filled: Terminal) -> None:
    case = make_case("vit", shape="small", mode="max-autotune")
    alert = make_alert("gone", case=case, kind="vanished", metric="outcome", unit="")
    save_alerts(filled.store(), [alert])
    (_, small, _) = filled.json("modes", "--json")["groups"]
    # The mode has numbers of one model of three now.
    assert small["recommendation"]["mode"] == "default"
    assert small["not_compared"]["max-autotune"] == "numbers of 1 model"


def test_the_default_is_the_newest_machine_and_toolchain(filled: Terminal) -> None:
    fill_modes(filled.store(), machine="other", toolchain="nightly")
    store = filled.store()
    store.save_run(make_run("newest", machine="box", started_at=START + timedelta(days=1), plan=()))
    assert filled.json("modes", "--json")["machine"] == "box"
    document = filled.json("modes", "--json", "--machine", "other")
    assert (document["machine"], document["toolchain"]) == ("other", "nightly")
    error = filled.error("modes", "--machine", "other", "--toolchain", "stable")
    assert (error.code, error.parameters) == (
        "no-such-result",
        {"machine": "other", "toolchain": "stable"},
    )


@pytest.mark.parametrize("option", [("--model", "gpt*"), ("--shape", "tiny"), ("--phase", "other")])
def test_a_filter_that_fits_nothing_names_the_values(
    filled: Terminal, option: tuple[str, str]
) -> None:
    error = filled.error("modes", *option)
    assert error.code == "no-such-result"
    assert error.parameters[option[0].removeprefix("--")] == option[1]
    assert filled.hud("modes", *option).exit_code == 2


def test_the_errors_name_what_there_is(
    filled: Terminal, terminal: Terminal, words: SnapshotAssertion
) -> None:
    assert str(filled.error("modes", "--shape", "tiny", "--model", "*")) == words
    assert str(terminal.error("modes", "--machine", "no such")) == words


def test_an_empty_store_is_an_error(terminal: Terminal) -> None:
    assert terminal.error("modes", "--json").code == "no-such-result"
    terminal.store().save_run(make_run())
    assert terminal.error("modes").code == "no-such-result"


def test_a_store_of_eager_only_is_an_error(terminal: Terminal) -> None:
    case = make_case(mode="eager")
    run = make_run(plan=[case])
    result = make_result(run=run, case=case, measurements=[make_measurement()])
    with terminal.store().write() as connection:
        put_documents(connection, [RunDocument(run=run, results=(result,))], at=START)
    error = terminal.error("modes")
    assert (error.code, error.parameters) == (
        "no-such-result",
        {"machine": "box", "toolchain": "stable"},
    )


def test_errors_are_those_of_missing_results(filled: Terminal) -> None:
    assert isinstance(filled.error("modes", "--shape", "tiny"), NoSuchResult)


@pytest.mark.parametrize("calls", ["0", "-1", "many", "1.5"])
def test_calls_that_are_no_count_are_refused(filled: Terminal, calls: str) -> None:
    assert filled.hud("modes", "--calls", calls).exit_code == 2
