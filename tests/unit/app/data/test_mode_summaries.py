"""Summaries of modes from the latest results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compile_hud.app.data.mode_summaries import mode_summaries
from compile_hud.app.data.series import differences, noise_bands, normalised_points, segments
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import LatestCell, TrendPoint
from tests.support.builders import make_alert, make_case
from tests.support.records.page_results import header, latest, point

WOBBLE = (0.0, 0.01, -0.01, 0.005, -0.005, 0.0, 0.01, -0.01)


def history(*levels: float) -> list[float]:
    """Return eight wobbling values around each level."""
    return [level * (1 + step) for level in levels for step in WOBBLE]


def test_a_band_is_the_median_and_three_robust_deviations() -> None:
    points = [point(number, value) for number, value in enumerate(history(0.010))]
    (band,) = noise_bands(points)
    assert (band.start, band.end) == (points[0].at, points[-1].at)
    assert band.level == pytest.approx(0.010)
    # The median absolute deviation is 0.75 %; times 1.4826, times 3.
    assert band.high / band.level - 1 == pytest.approx(3 * 1.4826 * 0.0075)
    assert band.low / band.level - 1 == pytest.approx(-3 * 1.4826 * 0.0075)


def test_a_new_level_has_a_band_of_its_own() -> None:
    values = history(0.010, 0.013)
    bands = noise_bands([point(number, value) for number, value in enumerate(values)])
    assert [band.level for band in bands] == [pytest.approx(0.010), pytest.approx(0.013)]


def test_a_new_environment_has_a_band_of_its_own() -> None:
    old = [point(number, value) for number, value in enumerate(history(0.010))]
    new = [
        point(number + 8, value, fingerprint="b" * 64)
        for number, value in enumerate(history(0.0102))
    ]
    bands = noise_bands(old + new)
    assert [band.start for band in bands] == [old[0].at, new[0].at]


def test_five_points_have_no_band_and_six_have() -> None:
    values = history(0.010)
    assert not noise_bands([point(number, values[number]) for number in range(5)])
    assert noise_bands([point(number, values[number]) for number in range(6)])


def test_counts_that_touch_zero_have_no_band() -> None:
    assert not noise_bands([point(number, float(number)) for number in range(10)])


def test_no_points_no_bands_and_no_segments() -> None:
    assert noise_bands([]) == ()
    assert segments([]) == []


def test_going_back_to_an_environment_is_a_third_segment() -> None:
    points = [point(number, fingerprint=name * 64) for number, name in enumerate("aabba")]
    assert [len(segment) for segment in segments(points)] == [2, 2, 1]


def test_differences_leave_out_what_is_the_revision_and_what_is_measured() -> None:
    before = {"driver": "550", "torch_version": "2.12", "same": 1, "gone": True, "peaks": {"a": 1}}
    after = {"driver": "560", "torch_version": "2.13", "same": 1, "peaks": {"a": 2}}
    assert differences(before, after=after) == (("driver", "550", "560"), ("gone", "True", ""))


def test_a_mode_is_averaged_over_the_models_that_every_mode_has() -> None:
    cells = [
        latest(make_case("a", mode="eager")),
        latest(make_case("a", mode="default"), values={"speedup": 2.0}),
        latest(make_case("b", mode="default"), values={"speedup": 8.0}),
        latest(make_case("a", mode="max-autotune"), values={"speedup": 3.0}),
        latest(make_case("b", mode="max-autotune"), outcome=Outcome.TIMEOUT),
    ]
    default, autotune = mode_summaries(cells, alerts=[])
    assert (default.variant, default.mean, default.num_ok, default.num_attempted) == (
        "default",
        pytest.approx(2.0),
        2,
        2,
    )
    assert (autotune.mean, autotune.num_ok, autotune.num_attempted) == (pytest.approx(3.0), 1, 2)
    assert (autotune.num_common, autotune.num_subjects) == (1, 2)
    assert (default.num_speedups, autotune.num_speedups) == (2, 1)


def test_phases_and_devices_are_summarised_apart() -> None:
    cells = [
        latest(make_case("a", mode="default"), values={"speedup": 2.0}),
        latest(make_case("b", mode="default"), values={"speedup": 4.5}),
        latest(make_case("a", mode="default", phase="training"), values={"speedup": 9.0}),
        latest(make_case("a", mode="default", device="cuda"), values={"speedup": 7.0}),
    ]
    summaries = mode_summaries(cells, alerts=[])
    assert [(item.label, item.mean, item.num_subjects) for item in summaries] == [
        ("inference cpu", pytest.approx(3.0), 2),
        ("inference cuda", pytest.approx(7.0), 1),
        ("training cpu", pytest.approx(9.0), 1),
    ]
    (single,) = mode_summaries(cells[:2], alerts=[])
    assert single.label == ""


def test_model_of_several_shapes_and_dtypes_is_one_model() -> None:
    shapes = [("small", "fp32", 2.0), ("full", "fp32", 4.0), ("full", "bf16", 8.0)]
    cells = [
        *(
            latest(make_case("a", mode="default", shape=shape, dtype=dtype), values={"speedup": x})
            for shape, dtype, x in shapes
        ),
        latest(make_case("b", mode="default"), values={"speedup": 9.0}),
    ]
    (default,) = mode_summaries(cells, alerts=[])
    assert default.mean == pytest.approx(6.0)
    assert (default.num_common, default.num_subjects, default.num_speedups) == (2, 2, 2)
    assert (default.num_ok, default.num_attempted) == (4, 4)


def test_copy_that_fails_for_a_model_leaves_the_cohort_of_its_source() -> None:
    cells = [
        latest(make_case("a", mode="default"), values={"speedup": 2.0}),
        latest(make_case("b", mode="default"), values={"speedup": 8.0}),
        latest(
            make_case("a", mode="max-autotune"),
            outcome=Outcome.SAME_CODE,
            reason="same code as default",
        ),
        latest(make_case("b", mode="max-autotune"), outcome=Outcome.TIMEOUT),
    ]
    default, autotune = mode_summaries(cells, alerts=[])
    assert (default.mean, default.num_common, default.stand_in) == (pytest.approx(4.0), 2, "")
    assert (autotune.mean, autotune.num_common) == (pytest.approx(2.0), 1)
    assert autotune.stand_in == "default"


def test_a_mode_that_fails_everywhere_does_not_take_the_means_of_the_others() -> None:
    cells = [
        latest(make_case("a", mode="default"), values={"speedup": 2.0}),
        latest(make_case("a", mode="max-autotune"), outcome=Outcome.FAILED),
    ]
    default, autotune = mode_summaries(cells, alerts=[])
    assert default.mean == pytest.approx(2.0)
    assert autotune.mean is None


def test_variants_outside_the_modes_do_not_shrink_the_cohort() -> None:
    cells = [
        latest(make_case("a", mode="default"), values={"speedup": 2.0}),
        latest(make_case("b", mode="default"), values={"speedup": 8.0}),
        latest(make_case("a", mode="default", variant="dynamic"), values={"speedup": 1.0}),
    ]
    (default,) = mode_summaries(cells, alerts=[])
    assert default.mean == pytest.approx(4.0)


@pytest.mark.parametrize("state", [AlertState.OPEN, AlertState.ACKNOWLEDGED])
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("vanished", Outcome.OK), ("vanished", Outcome.SKIPPED), ("late", Outcome.OK)],
)
def test_a_case_that_is_missing_is_not_ok_and_in_the_mean_of_no_mode(
    state: AlertState, kind: str, outcome: Outcome
) -> None:
    case = make_case("b", mode="max-autotune")
    cells = [
        latest(make_case("a", mode="default"), values={"speedup": 2.0}),
        latest(make_case("b", mode="default"), values={"speedup": 8.0}),
        latest(make_case("a", mode="max-autotune"), values={"speedup": 3.0}),
        latest(case, outcome=outcome, values={"speedup": 9.0}, effective_mode="default"),
    ]
    alert = make_alert(case=case, kind=kind, state=state)
    default, autotune = mode_summaries(cells, alerts=[alert])
    assert (default.mean, default.num_ok, default.num_attempted) == (pytest.approx(2.0), 2, 2)
    assert (autotune.mean, autotune.num_ok, autotune.num_attempted) == (pytest.approx(3.0), 1, 2)
    assert (autotune.num_common, autotune.num_subjects) == (1, 2)
    assert autotune.effective_modes == ()
    assert (default.missing, autotune.missing) == ((), ((kind, 1),))


def test_missing_cases_are_distinguished_from_late_ones() -> None:
    cases = [make_case(name, mode="default") for name in "abcd"]
    cells = [latest(case, values={"speedup": 2.0}) for case in cases]
    kinds = [(0, "late"), (1, "vanished"), (2, "late"), (1, "late")]
    alerts = [
        make_alert(str(number), case=cases[index], kind=kind)
        for number, (index, kind) in enumerate(kinds)
    ]
    (default,) = mode_summaries(cells, alerts=alerts)
    assert default.missing == (("vanished", 1), ("late", 2))
    assert (default.num_ok, default.num_attempted) == (1, 4)


def test_what_ended_badly_is_counted_by_outcome_and_what_was_not_tried_apart() -> None:
    outcomes = [
        Outcome.NODE_LOST,
        Outcome.SKIPPED,
        Outcome.INACCURATE,
        Outcome.FAILED,
        Outcome.FAILED,
    ]
    cells = [
        latest(make_case(str(index), mode="default"), outcome=outcome)
        for index, outcome in enumerate([Outcome.OK, *outcomes])
    ]
    (summary,) = mode_summaries(cells, alerts=[])
    assert (summary.num_ok, summary.num_attempted) == (1, 4)
    assert summary.failures == (("failed", 2), ("inaccurate", 1))
    assert summary.untried == (("skipped", 1), ("lost", 1))


def test_a_case_that_came_back_or_only_became_slower_is_ok() -> None:
    case = make_case("a", mode="default")
    alerts = [
        make_alert("back", case=case, kind="vanished", state=AlertState.FIXED),
        make_alert("slower", case=case, kind="step"),
    ]
    (summary,) = mode_summaries([latest(case, values={"speedup": 2.0})], alerts=alerts)
    assert (summary.mean, summary.num_ok, summary.num_attempted) == (pytest.approx(2.0), 1, 1)


def test_fallbacks_are_counted_by_what_ran_instead() -> None:
    case = make_case("a", mode="max-autotune")
    cells = [latest(case, values={"speedup": 1.0}, effective_mode="default")]
    (summary,) = mode_summaries(cells, alerts=[])
    assert summary.effective_modes == (("default", 1),)


def test_a_mode_has_the_reason_of_its_own_device() -> None:
    def unavailable(model: str, device: str, reason: str) -> LatestCell:
        case = make_case(model, mode="default", device=device)
        return latest(case, values={}, outcome=Outcome.UNAVAILABLE, reason=reason)

    cells = [
        *(unavailable(model, "cuda", "driver too old") for model in "abc"),
        unavailable("a", "cpu", "no\ncompiler"),
        unavailable("a", "xpu", ""),
    ]
    *known, silent = mode_summaries(cells, alerts=[])
    assert [(item.label, item.unavailable) for item in known] == [
        ("cpu", "no compiler"),
        ("cuda", "driver too old"),
    ]
    assert (silent.label, bool(silent.unavailable)) == ("xpu", True)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.FAILED, Outcome.SKIPPED])
def test_a_mode_with_another_outcome_is_available(outcome: Outcome) -> None:
    cells = [
        latest(make_case("a", mode="default"), values={}, outcome=Outcome.UNAVAILABLE, reason="no"),
        latest(make_case("b", mode="default"), values={}, outcome=outcome),
    ]
    assert [item.unavailable for item in mode_summaries(cells, alerts=[])] == [""]
    gone = make_alert("gone", case=make_case("a", mode="default"), metric="outcome", kind="late")
    assert [item.unavailable for item in mode_summaries(cells[:1], alerts=[gone])] == [""]


OTHER = "b" * 64


def times(*values: float, fingerprint: str = "a" * 64) -> list[TrendPoint]:
    """Return one point a night."""
    return [point(night, value, fingerprint=fingerprint) for night, value in enumerate(values)]


def levels(
    points: Sequence[TrendPoint], paces: Sequence[TrendPoint], *, metric: str = "latency_s"
) -> list[float]:
    """Return the levels of `points` at one pace."""
    headers = [header(metric=metric, key=key) for key in {item.series_key for item in points}]
    return [item.median for item in normalised_points(points, paces=paces, headers=headers)]


def test_times_are_reported_as_they_were_at_the_first_pace() -> None:
    times_shown = levels(times(0.010, 0.012, 0.010), times(0.5, 0.6, 0.4))
    assert times_shown == pytest.approx([0.010, 0.010, 0.0125])


def test_interval_moves_with_its_median() -> None:
    (_, slow) = normalised_points(
        times(0.010, 0.012),
        paces=times(0.5, 0.6),
        headers=[header(key=point(0, fingerprint="a" * 64).series_key)],
    )
    assert (slow.low, slow.high) == pytest.approx((0.0099, 0.0101))
    assert slow.result_id == "result-1"


def test_each_environment_has_a_pace_of_its_own() -> None:
    new = [point(9, 0.02, fingerprint=OTHER), point(10, 0.03, fingerprint=OTHER)]
    paces = [
        *times(0.5, 0.6),
        point(9, 0.7, fingerprint=OTHER),
        point(10, 0.84, fingerprint=OTHER),
    ]
    times_shown = levels([*times(0.010, 0.012), *new], paces)
    assert times_shown == pytest.approx([0.010, 0.010, 0.02, 0.025])


def test_run_without_a_pace_is_left_as_it_is() -> None:
    assert levels(times(0.010, 0.012), times(0.5)) == [0.010, 0.012]


def test_what_is_no_time_or_has_no_pace_has_no_level_of_its_own() -> None:
    assert levels(times(3.0), times(0.5), metric="peak_bytes") == []
    assert levels(times(0.5), times(0.5), metric="pace_s") == []
    assert levels(times(0.010), []) == []
    reference = make_case(family="reference", mode="eager")
    points = times(0.010)
    headers = [header(reference, key=points[0].series_key)]
    assert normalised_points(points, paces=times(0.5), headers=headers) == ()


def test_a_mode_with_the_code_of_another_has_its_speedup() -> None:
    cells = [
        latest(make_case("bert", mode="default"), values={"speedup": 1.5}),
        latest(make_case("vit", mode="default"), values={"speedup": 1.2}),
        latest(
            make_case("bert", mode="max-autotune"),
            outcome=Outcome.SAME_CODE,
            reason="same code as default",
        ),
        latest(make_case("vit", mode="max-autotune"), values={"speedup": 1.4}),
        latest(make_case("vit", mode="reduce-overhead"), outcome=Outcome.UNAVAILABLE),
    ]
    summaries = {item.variant: item for item in mode_summaries(cells, alerts=())}
    assert summaries["max-autotune"].mean == pytest.approx((1.5 * 1.4) ** 0.5)
    assert summaries["max-autotune"].num_common == 2
    assert summaries["max-autotune"].num_ok == 2
    unavailable = summaries["reduce-overhead"]
    assert (unavailable.num_ok, unavailable.num_attempted) == (0, 0)
    assert unavailable.untried == (("unavailable", 1),)
