"""The health of each model, from its latest results."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.table.columns import DataTable
from compile_hud.app.ui.urls import ModelsState
from compile_hud.app.views.model.tables import model_facts, state_chips
from compile_hud.app.views.models.data import ModelHistory, fitting, model_healths
from compile_hud.app.views.models.records import ModelHealth
from compile_hud.app.views.models.tables import models_table, models_title
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Outcome, Phase, Verdict
from compile_hud.db.records.summaries import LatestCell
from tests.support.builders import START, make_alert, make_case
from tests.support.pages.table_cells import cells_of, links_in
from tests.support.records.page_results import latest

BERT, VIT = make_case("bert"), make_case("vit")
NOTHING = ModelHistory(trends={}, last_ok={}, summaries={})
# Up and down by 1 %, and 30 % higher from the middle on.
WOBBLE = tuple((1.3 if number > 9 else 1.0) * (1.0 + 0.01 * (number % 2)) for number in range(20))


def healths(
    *cells: LatestCell, alerts: tuple[Alert, ...] = (), context: ModelHistory = NOTHING
) -> tuple[ModelHealth, ...]:
    return model_healths(cells, alerts=alerts, known=context, now=START)


def table_of(*items: ModelHealth) -> DataTable:
    return models_table(items, machine="box", toolchain="stable")


def rows_of(*items: ModelHealth) -> list[dict[str, str]]:
    return cells_of(table_of(*items))


def test_what_does_worst_comes_first(words: SnapshotAssertion) -> None:
    models = healths(
        latest(make_case("a")),
        latest(make_case("b"), outcome=Outcome.FAILED),
        latest(make_case("c")),
        alerts=(make_alert(case=make_case("c")),),
    )
    rows = rows_of(*models)
    assert [(row["model"], row["passed"], row["open alerts"]) for row in rows] == [
        ("c", "100 %", "1"),
        ("b", "0 %", "0"),
        ("a", "100 %", "0"),
    ]
    assert models_title(models) == words
    assert models_title(models[:1]) == words


def test_a_mode_leads_to_the_case_that_is_not_ok() -> None:
    big = make_case("bert", shape="full")
    (item,) = healths(latest(BERT), latest(big, outcome=Outcome.OUT_OF_MEMORY))
    (mode,) = item.modes
    assert (mode.num_by_state, mode.num_bad, mode.case) == ({"ok": 1, "out_of_memory": 1}, 1, big)
    (row,) = rows_of(item)
    assert row["default"].split(", ") == ["1 of 2", "1 out of memory"]
    assert row["passed"] == "50 %"
    (link,) = links_in(table_of(item), "default")
    assert link.startswith("run?run=run-1&case=bert%2Finference%2Ffull")


def test_a_mode_without_a_measurement_is_neither_ok_nor_bad() -> None:
    full = make_case("bert", shape="full")
    (single,) = healths(latest(BERT, outcome=Outcome.UNAVAILABLE))
    (both,) = healths(
        latest(BERT, outcome=Outcome.SAME_CODE), latest(full, outcome=Outcome.SAME_CODE)
    )
    (mixed,) = healths(latest(BERT), latest(full, outcome=Outcome.SAME_CODE))
    assert [item.num_bad for item in (single, both, mixed)] == [0, 0, 0]
    texts = [rows_of(item)[0]["default"] for item in (single, both, mixed)]
    assert texts == ["unavailable", "same code", "1 of 2, 1 same code"]
    assert {rows_of(item)[0]["passed"] for item in (single, both, mixed)} == {"100 %"}


def test_a_vanished_case_is_not_ok_and_settled_alerts_do_not_count() -> None:
    alert = make_alert("gone", case=BERT, kind="vanished", metric="outcome", unit="")
    settled = make_alert("settled", case=BERT, state=AlertState.EXPECTED)
    (item,) = healths(latest(BERT), alerts=(alert, settled))
    assert (item.num_bad, item.num_open, item.modes[0].num_by_state) == (1, 1, {"missing": 1})


def test_muted_regressions_are_counted_apart_while_they_are_muted() -> None:
    muted = replace(make_alert("muted", case=BERT), muted_until=START + timedelta(days=1))
    (item,) = healths(latest(BERT), alerts=(muted,))
    assert (item.num_open, item.num_muted) == (0, 1)
    assert rows_of(item)[0]["other alerts"] == "1 muted"
    (item,) = model_healths(
        [latest(BERT)], alerts=[muted], known=NOTHING, now=START + timedelta(days=2)
    )
    assert (item.num_open, item.num_muted) == (1, 0)
    assert "other alerts" not in rows_of(item)[0]


def test_acknowledged_regressions_are_counted_apart() -> None:
    def alert(name: str, **changes: object) -> Alert:
        return replace(make_alert(name, case=BERT), **changes)  # type: ignore[arg-type]

    state = AlertState.ACKNOWLEDGED
    alerts = (
        *(alert("a", state=state), alert("b", state=state, muted_until=START + timedelta(days=9))),
        *(alert("c", state=state, verdict=Verdict.IMPROVEMENT), alert("d"), alert("e")),
        alert("f", muted_until=START + timedelta(days=9)),
    )
    (item,) = healths(latest(BERT), alerts=alerts)
    assert (item.num_open, item.num_muted, item.num_acknowledged) == (2, 1, 2)
    assert rows_of(item)[0]["other alerts"] == "2 acknowledged, 1 muted"
    assert state_chips(item, cells=[latest(BERT)]) == [
        *("1 of 1 case pass", "2 open alerts", "1 muted", "2 acknowledged"),
    ]
    (item,) = healths(latest(BERT), alerts=alerts[:1])
    assert rows_of(item)[0]["other alerts"] == "1 acknowledged"


def test_what_the_machine_did_is_counted_apart() -> None:
    slower = make_alert("slower", case=BERT)
    by_machine = make_alert("moved", case=BERT, cause_kind="machine")
    better = make_alert("better", case=BERT, cause_kind="machine", verdict=Verdict.IMPROVEMENT)
    (item,) = healths(latest(BERT), alerts=(slower, by_machine, better))
    assert (item.num_open, item.num_by_machine) == (1, 1)
    assert rows_of(item)[0]["other alerts"].startswith("1 attributed")
    (item,) = healths(latest(BERT), alerts=(by_machine,))
    assert (item.num_open, item.num_by_machine) == (0, 1)
    assert rows_of(item)[0]["other alerts"].startswith("1 attributed")
    assert "other alerts" not in rows_of(*healths(latest(BERT), alerts=(slower, better)))[0]


def test_noise_is_what_two_nights_differ_by_and_no_step() -> None:
    context = ModelHistory(trends={(BERT.key, "latency_s"): WOBBLE}, last_ok={}, summaries={})
    (item,) = healths(latest(BERT), context=context)
    # The middle 70 % of the differences are as wide as two of them.
    assert item.noise == pytest.approx(2 * math.log(1.01) / 2.0729 / math.sqrt(2), rel=0.01)
    assert item.trend == WOBBLE
    assert float(rows_of(item)[0]["noise (%)"]) == pytest.approx(100 * item.noise, rel=0.01)
    few = ModelHistory(trends={(BERT.key, "latency_s"): WOBBLE[:4]}, last_ok={}, summaries={})
    assert healths(latest(BERT), context=few)[0].noise is None


def test_the_last_ok_is_that_of_any_of_its_cases() -> None:
    context = ModelHistory(trends={}, last_ok={BERT.key: START - timedelta(days=3)}, summaries={})
    (bert, vit) = healths(latest(BERT), latest(VIT, outcome=Outcome.FAILED), context=context)
    assert bert.last_ok == START - timedelta(days=3)
    assert vit.last_ok is None
    assert {row["model"]: row["last ok (UTC)"] for row in rows_of(bert, vit)} == {
        "vit": "-",
        "bert": f"{START - timedelta(days=3):%Y-%m-%d %H:%M}",
    }


def test_coverage_is_reported_only_where_it_differs() -> None:
    same = healths(latest(BERT), latest(VIT))
    assert "coverage" not in rows_of(*same)[0]
    other = healths(latest(BERT), latest(make_case("bert", dtype="bf16")), latest(VIT))
    assert {row["model"]: row["coverage"] for row in rows_of(*other)} == {
        "bert": "fp32, bf16",
        "vit": "fp32",
    }


def test_a_search_looks_at_name_family_and_summary(words: SnapshotAssertion) -> None:
    context = ModelHistory(trends={}, last_ok={}, summaries={"bert": "Attention both ways."})
    models = healths(latest(BERT), latest(VIT), context=context)
    assert [item.model for item in fitting(models, ModelsState(text="both WAYS"))] == ["bert"]
    assert [item.model for item in fitting(models, ModelsState(text="vit"))] == ["vit"]
    assert len(fitting(models, ModelsState(text="transformer"))) == 2
    assert not fitting(models, ModelsState(text="nothing"))
    assert rows_of(*models) == words


def test_the_compile_time_is_that_of_inference_where_both_phases_exist() -> None:
    def cell(model: str, phase: Phase, seconds: float, **case: str) -> LatestCell:
        of_case = replace(make_case(model, mode="default", **case), phase=phase)
        return latest(of_case, values={"compile_cold_s": seconds})

    both = healths(
        cell("dlrm", Phase.INFERENCE, 3.0),
        cell("dlrm", Phase.INFERENCE, 5.0, device="cuda"),
        cell("dlrm", Phase.TRAINING, 40.0),
    )
    label = "cold compile"
    assert rows_of(*both)[0][f"{label} (s)"] == "4.00"
    facts = dict(model_facts(both[0], cells=(), code=None, now=START))
    assert (facts[label].text, facts[label].title.rpartition(" ")[2]) == ("4.00 s", "inference")
    (training,) = healths(cell("moe", Phase.TRAINING, 7.0))
    facts = dict(model_facts(training, cells=(), code=None, now=START))
    assert facts[label].title.endswith(" training")
    assert rows_of(training)[0][f"{label} (s)"] == "7.00"
    shown = {row["model"]: row[f"{label} (s)"] for row in rows_of(*both, training)}
    assert shown == {"dlrm": "4.00", "moe": "-"}
