"""A metric that ok results no longer have, although the case goes on."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import RunState, Verdict
from compile_hud.db.records.summaries import OkResults, PlannedRun
from compile_hud.runner.analysis.judging.series_rules import series_rules
from compile_hud.runner.analysis.outcomes.missing_metrics import judge_missing_metrics
from tests.support.builders import make_alert, make_case
from tests.support.records.histories import night

# What each model has in a run: `+` the metric, `-` an ok result without it, ` ` no ok result.
Signs = Mapping[str, str]


def make_planned(number: int, models: Sequence[str], **facts: Any) -> PlannedRun:
    run = PlannedRun(
        id=f"run-{number}",
        at=night(number),
        revision=f"dev{number}",
        suite="nightly",
        state=RunState.FINISHED,
        machine="box",
        toolchain="stable",
        fingerprint="f",
        plan=tuple(map(make_case, models)),
    )
    return dataclasses.replace(run, **facts)


def judge_runs(cells: Sequence[tuple[PlannedRun, Signs]], *, seed: int = 0) -> list[Alert]:
    """Return the alerts of these runs, oldest first; the store tells results in any order."""
    keys = [make_case(model).key for model in ("bert", "t5", "vit")]
    alerts = [
        (number, keys.index(make_case(model).key), sign == "+")
        for number, (_, signs) in enumerate(cells)
        for model, sign in signs.items()
        if sign != " "
    ]
    random.Random(seed).shuffle(alerts)
    runs, cases, has = zip(*alerts, strict=True)
    results = OkResults(
        case_keys=keys,
        metrics=["speedup"],
        runs=np.array(runs),
        cases=np.array(cases),
        has=np.array(has, dtype=bool)[:, None],
    )
    return judge_missing_metrics(results, runs=[run for run, _ in cells])


def judge(signs: str, **facts: str) -> list[Alert]:
    """Return the alerts of a night for each sign."""
    return judge_runs(
        [
            (make_planned(number, ["bert"], **facts), {"bert": sign})
            for number, sign in enumerate(signs)
        ]
    )


def ends(alerts: Sequence[Alert]) -> list[tuple[int, int, str]]:
    """Return the first bad night of each, the last one and the state."""
    return [
        (int(alert.first_bad.run_id[4:]), (alert.last_seen - night(0)).days, str(alert.state))
        for alert in alerts
    ]


def test_what_three_results_in_a_row_no_longer_have_has_vanished(words: SnapshotAssertion) -> None:
    assert judge("++++++--") == []
    (alert,) = judge("++++++---")
    assert (alert.kind, alert.metric, alert.state, alert.verdict) == (
        "vanished",
        "speedup",
        AlertState.OPEN,
        Verdict.REGRESSION,
    )
    assert alert.last_good is not None
    assert (alert.last_good.run_id, alert.first_bad.run_id) == ("run-5", "run-6")
    assert alert.last_seen == night(8)
    assert (alert.machine, alert.toolchain, alert.case) == ("box", "stable", make_case())
    assert (alert.unit, alert.baseline, alert.change_pct) == ("", None, None)
    assert alert.cause_kind == "unknown"
    assert alert.cause_text == words


@pytest.mark.parametrize(
    ("signs", "first"),
    [
        # Too few had it, or too many of the eight before lacked it.
        ("+++++---", None),
        ("---------", None),
        ("+-++++---", None),
        ("-++++++---", 7),
        ("+-+++++---", 7),
        ("+-++-++++---", None),
        ("--+++++++---", 9),
        ("--++++++---", None),
        ("+--++++++---", None),
        ("+--+++++++---", 10),
        ("+++++++-+---", 9),
        ("++++++-+-+---", None),
        # Never three in a row.
        ("++++++++--++++++++--++++++++", None),
        # A latency every week between nightly checks of the accuracy.
        ("+------+------+------+------", None),
        ("-+-+-+-+-+-+-+-+-+-+-+-----", None),
        # What had no ok result is no result without it.
        ("++++++  -  -   ", None),
        ("++++++  -  -  -", 8),
    ],
)
def test_a_metric_is_missing_where_nearly_all_of_the_eight_results_before_had_it(
    signs: str, first: int | None
) -> None:
    assert [index for index, _, _ in ends(judge(signs))] == ([] if first is None else [first])


def test_it_is_over_with_the_first_result_that_has_it() -> None:
    assert ends(judge("++++++-----+")) == [(6, 10, "fixed")]


@pytest.mark.parametrize("num_good", [1, 2, 7, 13])
def test_what_comes_back_for_fewer_than_fourteen_results_is_one_alert(num_good: int) -> None:
    again = "++++++---" + "+" * num_good
    for num_bad in (1, 5):
        last = 8 + num_good + num_bad
        assert ends(judge(again + "-" * num_bad)) == [(6, last, "open")]
        for num_after in (1, 13):
            assert ends(judge(again + "-" * num_bad + "+" * num_after)) == [(6, last, "open")]
        assert ends(judge(again + "-" * num_bad + "+" * 14)) == [(6, last, "fixed")]


def test_one_result_that_has_it_silences_nothing() -> None:
    for num_missing in range(1, 30):
        (alert,) = judge("++++++++---+" + "-" * num_missing)
        assert alert.state is AlertState.OPEN
        assert alert.id == judge("++++++++---")[0].id


def test_a_metric_is_missing_again_after_fourteen_results() -> None:
    good = "+" * 14
    assert ends(judge(f"++++++---{good}---")) == [(6, 8, "fixed"), (23, 25, "open")]
    # Two in a row are not lost, and not lost again.
    assert ends(judge(f"++++++---{good}--")) == [(6, 8, "fixed")]


def test_a_new_environment_neither_ends_it_nor_keeps_it_apart() -> None:
    cells = [
        (
            make_planned(number, ["bert"], fingerprint="f" if number < 10 else "g"),
            {"bert": sign},
        )
        for number, sign in enumerate("++++++---+-")
    ]
    assert ends(judge_runs(cells)) == [(6, 10, "open")]


def test_runs_by_hand_never_count() -> None:
    assert judge("++++++---", suite="custom") == []
    cells = [
        (make_planned(number, ["bert"], suite="nightly" if sign == "+" else "custom"), sign)
        for number, sign in enumerate("+++--+++-+----++")
    ]
    assert judge_runs([(run, {"bert": sign}) for run, sign in cells]) == []


@pytest.mark.parametrize("other", [{"suite": "accuracy"}, {"machine": "m2"}, {"toolchain": "rc"}])
def test_suites_machines_and_toolchains_are_judged_by_themselves(other: Mapping[str, str]) -> None:
    def cells(signs: str, others: str) -> list[tuple[PlannedRun, Signs]]:
        both = [
            (
                (make_planned(2 * number, ["bert"]), {"bert": sign}),
                (make_planned(2 * number + 1, ["bert"], **other), {"bert": another}),
            )
            for number, (sign, another) in enumerate(zip(signs, others, strict=True))
        ]
        return [cell for pair in both for cell in pair]

    # The other one has it never, and from the middle on neither.
    assert judge_runs(cells("+" * 20, "-" * 20)) == []
    assert judge_runs(cells("+" * 20, " " * 9 + "-" * 11)) == []
    assert ends(judge_runs(cells("++++++---", "---------"))) == [(12, 16, "open")]
    # It is lost in one, whatever another machine or toolchain has; another suite may go on.
    is_same_context = "suite" not in other
    alone = ends(judge_runs(cells("++++++---", "+++++++++")))
    assert alone == ([(12, 16, "open")] if is_same_context else [])
    alone = ends(judge_runs(cells("+++++++++", "++++++---")))
    assert alone == ([(13, 17, "open")] if is_same_context else [])
    # Both lose it: the ends of each, and where.
    both = judge_runs(cells("++++++---", "++++++---"))
    assert ends(both) == [(12, 16, "open"), (13, 17, "open")]
    places = {(alert.machine, alert.toolchain, alert.cause_text.split(",")[0]) for alert in both}
    assert len(places) == 2


def test_a_metric_measured_in_another_suite_is_not_missing() -> None:
    # Timing moves to a suite of its own, accuracy stays where it was.
    cells = [(make_planned(2 * number, ["bert"]), {"bert": "+"}) for number in range(10)]
    for number in range(10, 30):
        timed = make_planned(2 * number + 1, ["bert"], suite="performance")
        cells += [(make_planned(2 * number, ["bert"]), {"bert": "-"}), (timed, {"bert": "+"})]
    assert judge_runs(cells) == []
    # It is lost once that suite times it no longer either.
    runs = [(run, {"bert": "-"}) for run, _ in cells if run.at > night(50)]
    assert len(judge_runs([cell for cell in cells if cell[0].at <= night(50)] + runs)) == 1


@pytest.mark.parametrize("num_nights", [1, 20])
def test_checks_between_two_timings_lose_nothing(num_nights: int) -> None:
    def check(number: int, hour: int) -> tuple[PlannedRun, Signs]:
        at = night(number) + timedelta(hours=hour)
        return make_planned(100 * number + hour, ["bert"], at=at), {"bert": "-"}

    cells = [(make_planned(number, ["bert"]), {"bert": "+"}) for number in range(10)]
    for number in range(10, 10 + num_nights):
        cells += [check(number - 1, hour) for hour in (4, 8, 12, 16, 20)]
        cells.append((make_planned(number, ["bert"]), {"bert": "+"}))
    assert judge_runs(cells) == []


def test_the_third_check_in_a_row_loses_nothing_before_the_next_timing_is_late() -> None:
    timed = [(make_planned(number, ["bert"]), {"bert": "+"}) for number in range(10)]
    for hours, num_alerts in ((30, 0), (36, 1), (50, 1)):
        checks = [
            (
                make_planned(1000 + hour, ["bert"], at=night(9) + timedelta(hours=hour)),
                {"bert": "-"},
            )
            for hour in (4, 8, hours)
        ]
        assert len(judge_runs(timed + checks)) == num_alerts


def test_what_no_run_planned_is_left_out() -> None:
    cells = [
        (make_planned(number, ["vit"]), {"bert": sign, "vit": "+"})
        for number, sign in enumerate("++++++---")
    ]
    assert judge_runs(cells) == []


def test_without_results_no_metric_is_missing() -> None:
    none = np.zeros(0, dtype=np.int64)
    results = OkResults(
        case_keys=[], metrics=["speedup"], runs=none, cases=none, has=np.zeros((0, 1), dtype=bool)
    )
    assert judge_missing_metrics(results, runs=[]) == []


def test_an_expected_missing_metric_accepts_no_level() -> None:
    (alert,) = judge("++++++---")
    expected = dataclasses.replace(alert, state=AlertState.EXPECTED)
    assert series_rules([expected], settings=()).rule_of(alert.series_key).baseline_run_ids == set()
    step = make_alert(state=AlertState.EXPECTED)
    rule = series_rules([step], settings=()).rule_of(step.series_key)
    assert rule.baseline_run_ids == {step.first_bad.run_id}


def nights_of_detection(
    history: Sequence[tuple[int, bool]], points: Sequence[int]
) -> Iterator[tuple[int, int, str]]:
    """Yield first night, last and state of each loss, by the words of the rule.

    `history` are the nights of the results of a suite, `points` those on which any suite has it.
    """

    def gaps(night: int) -> tuple[int, list[int]]:
        before = [point for point in points if point < night][-11:]
        return before[-1], sorted(late - early for early, late in pairwise(before))

    def is_late(night: int, begun: int) -> bool:
        last, present = gaps(night)
        is_late = bool(present) and night >= last + 1.5 * present[-2 if len(present) >= 5 else -1]
        return is_late and last < begun

    def is_missed(night: int) -> bool:
        last, present = gaps(night)
        return bool(present) and night - last >= present[len(present) // 2] / 2

    # First and last place of each, the place after it, and how often it was lost.
    nights_by_start: list[list[int]] = []
    for has, group in groupby(range(len(history)), key=lambda index: history[index][1]):
        places = list(group)
        first, last = places[0], places[-1]
        before = [was for _, was in history[max(0, first - 8) : first]]
        if has or not any(before):
            continue
        nights = [history[index][0] for index in places]
        is_soon = bool(nights_by_start) and first - nights_by_start[-1][1] - 1 < 14
        if is_soon and any(map(is_missed, nights)):
            nights_by_start[-1] = [nights_by_start[-1][0], last, nights_by_start[-1][2] + 1]
        elif (
            sum(before) >= 6
            and len(before) - sum(before) <= 1
            and any(is_late(night, nights[0]) for night in nights[2:])
        ):
            nights_by_start.append([first, last, 1])
    for first, last, num_times in nights_by_start:
        num_after = len(history) - last - 1
        is_over = num_after >= (1 if num_times == 1 else 14)
        yield history[first][0], history[last][0], "fixed" if is_over else "open"


@pytest.mark.parametrize("seed", range(20))
def test_it_says_what_the_rule_says_result_by_result(seed: int) -> None:
    draw = random.Random(seed)
    models = ["bert", "t5", "vit"]
    cells, signs, points = [], defaultdict(list), defaultdict(list)
    share = dict.fromkeys(models, 0.95)
    for number in range(300):
        suite = draw.choice(["nightly", "nightly", "weekly", "custom"])
        run = make_planned(number, models, suite=suite, machine=draw.choice(["box", "box", "m2"]))
        for model in models:
            if draw.random() < 0.04:
                share[model] = draw.choice([0.0, 0.02, 0.5, 0.9, 1.0, 1.0, 1.0])
        results = {model: "+" if draw.random() < share[model] else "-" for model in models}
        results[draw.choice(models)] = draw.choice("+- ")
        cells.append((run, results))
        for model, sign in results.items():
            if sign != " " and suite != "custom":
                signs[model, suite, run.machine].append((number, sign == "+"))
                if sign == "+":
                    points[model, run.machine].append(number)
    expected = []
    for (model, suite, machine), history in signs.items():
        for first, last, state in nights_of_detection(history, points[model, machine]):
            expected.append((model, machine, suite, first, last, state))
    alerts = judge_runs(cells, seed=seed)
    got = [
        (alert.case.model, alert.machine, alert.cause_text.split()[5].strip(","), *end)
        for alert, end in zip(alerts, ends(alerts), strict=True)
    ]
    assert sorted(got) == sorted(expected)
    assert expected
