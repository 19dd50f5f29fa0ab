"""The health of each model, from its latest results."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import ModelsState
from compile_hud.app.views.models.data import ModelHistory, fitting, model_healths
from compile_hud.app.views.models.records import ModelHealth
from compile_hud.app.views.models.tables import models_table, models_title
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.summaries import LatestCell
from tests.support.builders import START, make_alert, make_case
from tests.support.records.page_results import latest
from tests.support.texts import html_words

BERT, VIT = make_case("bert"), make_case("vit")
NOTHING = ModelHistory(trends={}, last_ok={}, summaries={})
# Up and down by 1 %, and 30 % higher from the middle on.
WOBBLE = tuple((1.3 if number > 9 else 1.0) * (1.0 + 0.01 * (number % 2)) for number in range(20))


def healths(
    *cells: LatestCell, alerts: tuple[Alert, ...] = (), context: ModelHistory = NOTHING
) -> tuple[ModelHealth, ...]:
    return model_healths(cells, alerts=alerts, known=context, now=START)


def table_of(*items: ModelHealth, num_shown: int = 100) -> str:
    return models_table(items, now=START, machine="box", toolchain="stable", num_shown=num_shown)


def test_what_does_worst_comes_first(words: SnapshotAssertion) -> None:
    models = healths(
        latest(make_case("a")),
        latest(make_case("b"), outcome=Outcome.FAILED),
        latest(make_case("c")),
        alerts=(make_alert(case=make_case("c")),),
    )
    html = table_of(*models)
    assert html.index(">c<") < html.index(">b<") < html.index(">a<")
    first = table_of(*models, num_shown=1)
    assert ">c<" in first
    assert ">b<" not in first
    assert models_title(models) == words
    assert models_title(models[:1]) == words


def test_a_mode_leads_to_the_case_that_is_not_ok() -> None:
    big = make_case("bert", shape="full")
    (item,) = healths(latest(BERT), latest(big, outcome=Outcome.OUT_OF_MEMORY))
    (mode,) = item.modes
    assert (mode.num_by_state, mode.num_bad, mode.case) == ({"ok": 1, "out_of_memory": 1}, 1, big)
    html = table_of(item)
    assert "1 of 2" in html
    assert "out of memory" in html
    assert "run?run=run-1&amp;case=bert%2Finference%2Ffull" in html


def test_a_mode_without_a_measurement_is_neither_ok_nor_bad() -> None:
    full = make_case("bert", shape="full")
    (single,) = healths(latest(BERT, outcome=Outcome.UNAVAILABLE))
    (both,) = healths(
        latest(BERT, outcome=Outcome.SAME_CODE), latest(full, outcome=Outcome.SAME_CODE)
    )
    (mixed,) = healths(latest(BERT), latest(full, outcome=Outcome.SAME_CODE))
    assert [item.num_bad for item in (single, both, mixed)] == [0, 0, 0]
    assert ">unavailable<" in table_of(single)
    assert "same code" in table_of(both)
    assert "0 of 2" not in table_of(both)
    assert "1 of 2" in table_of(mixed)
    assert "1 same code" in table_of(mixed)


def test_a_vanished_case_is_not_ok_and_settled_alerts_do_not_count() -> None:
    alert = make_alert("gone", case=BERT, kind="vanished", metric="outcome", unit="")
    settled = make_alert("settled", case=BERT, state=AlertState.EXPECTED)
    (item,) = healths(latest(BERT), alerts=(alert, settled))
    assert (item.num_bad, item.num_open, item.modes[0].num_by_state) == (1, 1, {"vanished": 1})


def test_muted_regressions_are_counted_apart_while_they_are_muted() -> None:
    muted = replace(make_alert("muted", case=BERT), muted_until=START + timedelta(days=1))
    (item,) = healths(latest(BERT), alerts=(muted,))
    assert (item.num_open, item.num_muted) == (0, 1)
    assert "1 muted" in table_of(item)
    (item,) = model_healths(
        [latest(BERT)], alerts=[muted], known=NOTHING, now=START + timedelta(days=2)
    )
    assert (item.num_open, item.num_muted) == (1, 0)
    assert "muted" not in re.sub(r'title="[^"]*"', "", table_of(item))


def test_what_the_machine_did_is_counted_apart() -> None:
    slower = make_alert("slower", case=BERT)
    by_machine = make_alert("moved", case=BERT, cause_kind="machine")
    better = make_alert("better", case=BERT, cause_kind="machine", verdict=Verdict.IMPROVEMENT)
    (item,) = healths(latest(BERT), alerts=(slower, by_machine, better))
    assert (item.num_open, item.num_by_machine) == (1, 1)
    assert "1 by the machine" in table_of(item)
    (item,) = healths(latest(BERT), alerts=(by_machine,))
    assert (item.num_open, item.num_by_machine) == (0, 1)
    assert "1 by the machine" in table_of(item)
    assert "by the machine" not in table_of(*healths(latest(BERT), alerts=(slower, better)))


def test_noise_is_what_two_nights_differ_by_and_no_step() -> None:
    context = ModelHistory(trends={(BERT.key, "latency_s"): WOBBLE}, last_ok={}, summaries={})
    (item,) = healths(latest(BERT), context=context)
    # The middle 70 % of the differences are as wide as two of them.
    assert item.noise == pytest.approx(2 * math.log(1.01) / 2.0729 / math.sqrt(2), rel=0.01)
    few = ModelHistory(trends={(BERT.key, "latency_s"): WOBBLE[:4]}, last_ok={}, summaries={})
    assert healths(latest(BERT), context=few)[0].noise is None


def test_the_last_ok_is_that_of_any_of_its_cases() -> None:
    context = ModelHistory(trends={}, last_ok={BERT.key: START - timedelta(days=3)}, summaries={})
    (bert, vit) = healths(latest(BERT), latest(VIT, outcome=Outcome.FAILED), context=context)
    assert bert.last_ok == START - timedelta(days=3)
    assert vit.last_ok is None
    html = table_of(bert, vit)
    assert "3 d ago" in html
    assert "never" in html


def test_coverage_is_reported_only_where_it_differs() -> None:
    same = healths(latest(BERT), latest(VIT))
    assert "coverage" not in table_of(*same)
    other = healths(latest(BERT), latest(make_case("bert", dtype="bf16")), latest(VIT))
    assert "fp32, bf16" in table_of(*other)


def test_a_search_looks_at_name_family_and_summary(words: SnapshotAssertion) -> None:
    context = ModelHistory(trends={}, last_ok={}, summaries={"bert": "Attention both ways."})
    models = healths(latest(BERT), latest(VIT), context=context)
    assert [item.model for item in fitting(models, ModelsState(text="both WAYS"))] == ["bert"]
    assert [item.model for item in fitting(models, ModelsState(text="vit"))] == ["vit"]
    assert len(fitting(models, ModelsState(text="transformer"))) == 2
    assert not fitting(models, ModelsState(text="nothing"))
    assert html_words(table_of(*models)) == words
