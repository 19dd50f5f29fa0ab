"""The mean of a mode is one number on all surfaces."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from compile_hud.app.data.mode_summaries import mode_summaries
from compile_hud.app.data.page_records import ModeSummary
from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.queries.trends import load_result_history
from compile_hud.db.records.results import Case, CaseResult, Outcome, Phase, Run, RunDocument
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.store import Store
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.modes.records import MODES
from compile_hud.runner.analysis.trends.records import ModeTrend, ModeValue
from compile_hud.runner.analysis.trends.trends import TrendSelection, mode_trends, newest_values
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

_END = datetime(9999, 1, 1, tzinfo=timezone.utc)
_COPIES = {"max-autotune": "default"}


def _results(run: Run, seed: int) -> Iterator[CaseResult]:
    """Yield results some of which fail, and copies of default that may fail as well."""
    draw = random.Random(seed)
    for number, case in enumerate(run.plan):
        result_id, chance = f"result-{number}", draw.random()
        if case.mode in _COPIES and chance < 0.7:
            reason = f"same code as {_COPIES[case.mode]}"
            yield make_result(
                result_id, run=run, case=case, outcome=Outcome.SAME_CODE, reason=reason
            )
        elif chance > 0.85 or case.mode in _COPIES:
            yield make_result(result_id, run=run, case=case, outcome=Outcome.TIMEOUT)
        else:
            has_fallback = case.mode == "reduce-overhead" and chance < 0.5
            values = {"speedup": draw.uniform(0.8, 3.0), "latency_s": draw.uniform(1e-3, 1e-1)}
            values |= {"compile_cold_s": draw.uniform(1.0, 90.0)}
            yield make_result(
                result_id,
                run=run,
                case=case,
                effective_mode="default" if has_fallback else None,
                measurements=[
                    make_measurement(name, samples=(0.98 * value, value, 1.03 * value))
                    for name, value in values.items()
                ],
            )


def _fill(store: Store, plan: tuple[Case, ...], *, seed: int) -> None:
    run = make_run(plan=plan)
    document = RunDocument(run=run, results=tuple(_results(run, seed)))
    with store.write() as connection:
        put_documents(connection, [document], at=START)


def _surfaces(
    store: Store,
) -> tuple[list[LatestCell], list[ModeSummary], list[ModeValue], list[ModeTrend]]:
    """Return cells, tiles, values of /metrics and trends of speedups."""
    scope = {"machine": "box", "toolchain": "stable"}
    cells = load_latest(store, **scope)
    history = load_result_history(store, **scope, since=START, metrics=["speedup"])
    newest = load_result_history(
        store, **scope, since=_END, metrics=["speedup", "compile_cold_s", "compile_warm_s",
                                             "peak_bytes", "energy_j"]
    )  # fmt: skip
    values = [item for item in newest_values(newest, alerts=()) if item.metric == "speedup"]
    trends = mode_trends(history, alerts=(), selection=TrendSelection(metrics=("speedup",)))
    return list(cells), list(mode_summaries(cells, alerts=())), values, list(trends)


def _tile_numbers(tiles: list[ModeSummary]) -> dict[tuple[str, str], tuple[float, int, int]]:
    return {
        (item.label, item.variant): (item.mean, item.num_common, item.num_subjects)
        for item in tiles
        if item.mean is not None
    }


@pytest.mark.parametrize("seed", range(2))
def test_tiles_trends_and_metrics_have_the_same_means(store: Store, seed: int) -> None:
    plan = tuple(
        make_case(model, phase=phase, shape=shape, dtype=dtype, mode=mode)
        for model, shapes in (("a", ("s", "m", "l")), ("b", ("s",)), ("c", ("m", "l")), ("d", "s"))
        for phase in (Phase.INFERENCE, Phase.TRAINING)
        for shape in shapes
        for dtype in (("fp32", "bf16") if model == "c" else ("fp32",))
        for mode in MODES
    )
    _fill(store, plan, seed=seed)
    _, tiles, values, trends = _surfaces(store)
    expected = _tile_numbers(tiles)
    assert {phase for phase, _ in expected} == {"inference", "training"}
    assert {
        (item.phase, item.mode): (item.value, item.num_counted, item.num_subjects)
        for item in values
    } == {key: pytest.approx(number) for key, number in expected.items()}
    assert {
        (item.label, item.mode): (
            item.points[-1].value,
            item.points[-1].num_counted,
            item.points[-1].num_subjects,
        )
        for item in trends
    } == {key: pytest.approx(number) for key, number in expected.items()}


@pytest.mark.parametrize("seed", range(3))
def test_modes_has_the_means_of_the_tiles_where_a_phase_has_one_shape(
    store: Store, seed: int
) -> None:
    plan = tuple(make_case(model, mode=mode) for model in "abcdefg" for mode in MODES)
    _fill(store, plan, seed=seed)
    cells, tiles, _, trends = _surfaces(store)
    (group,) = compare_modes(cells, alerts=())
    expected = _tile_numbers(tiles)
    assert group.choice.modes
    for mode in group.choice.modes:
        tile = expected["", mode.variant]
        assert tile == pytest.approx(
            (mode.speedup.value, len(group.choice.cohort), len(group.models))
        )
        (newest,) = [item.points[-1] for item in trends if item.mode == mode.variant]
        assert [newest.value, newest.low, newest.high] == pytest.approx(
            [mode.speedup.value, mode.speedup.low, mode.speedup.high]
        )
    assert dict(group.stand_ins) == {item.variant: item.stand_in for item in tiles if item.stand_in}
