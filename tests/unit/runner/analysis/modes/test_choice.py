"""The choice of a mode: the front, and the break-even numbers of calls, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.modes.choice import (
    Choice,
    Cost,
    FrontStatus,
    best_of_model,
    choose_mode,
)
from compile_hud.runner.analysis.stats.estimates import Estimate


def exact(value: float, *, by: float = 0.01) -> Estimate:
    return Estimate(value, value * (1 - by), value * (1 + by))


def cost(
    speedup: float, compile_s: float, *, memory: float | None = 1.0, eager_s: float = 0.010
) -> Cost:
    return Cost(
        speedup=exact(speedup),
        latency=exact(eager_s / speedup),
        compile_s=exact(compile_s),
        memory=None if memory is None else exact(memory),
    )


def of_one_model(**modes: Cost) -> Choice:
    return choose_mode({name: {"bert": item} for name, item in modes.items()})


def beaten(choice: Choice) -> dict[str, tuple[str, ...]]:
    return {mode.variant: mode.beaten_by for mode in choice.modes}


def fronts(choice: Choice) -> dict[str, FrontStatus]:
    return {mode.variant: mode.front for mode in choice.modes}


def best(choice: Choice, *, calls: float | None = None) -> str:
    mode = choice.best_for(calls)
    return "eager" if mode is None else mode.variant


def test_a_mode_that_is_slower_and_compiles_longer_is_off_the_front() -> None:
    choice = of_one_model(fast=cost(2.0, 10), slow=cost(1.5, 20))
    assert beaten(choice) == {"fast": (), "slow": ("fast",)}


def test_modes_that_are_as_fast_are_settled_by_the_compile_time() -> None:
    choice = of_one_model(long=cost(2.01, 40), short=cost(2.0, 10))
    assert beaten(choice) == {"long": ("short",), "short": ()}
    assert best(choice) == "short"


@pytest.mark.parametrize("second", [cost(2.0, 7.36), cost(2.01, 7.0), cost(2.0, 7.4, memory=0.97)])
def test_a_difference_within_noise_leaves_the_simpler_mode(second: Cost) -> None:
    """One launch has one compile time: its interval has no width."""
    launch = Estimate(second.compile_s.value, second.compile_s.value, second.compile_s.value)
    first = replace(cost(2.0, 7.4), compile_s=Estimate(7.4, 7.4, 7.4))
    choice = of_one_model(simple=first, other=replace(second, compile_s=launch))
    assert beaten(choice) == {"simple": (), "other": ()}
    assert (choice.ties, best(choice), [*choice.candidates]) == (
        {"other": "simple"},
        "simple",
        ["simple"],
    )
    assert [span.variant for span in choice.spans] == ["eager", "simple"]


def test_a_relevant_difference_of_single_launches_counts() -> None:
    for compile_s in (6.0, 8.6):
        other = replace(cost(2.0, 0), compile_s=Estimate(compile_s, compile_s, compile_s))
        first = replace(cost(2.0, 7.4), compile_s=Estimate(7.4, 7.4, 7.4))
        choice = of_one_model(simple=first, other=other)
        assert (best(choice), choice.ties) == ("other" if compile_s < 7 else "simple", {})


def test_a_mode_with_the_code_of_another_for_most_models_never_replaces_it() -> None:
    columns = {
        "simple": {"bert": cost(2.0, 7), "vit": cost(2.0, 7), "moe": cost(2.0, 7)},
        "other": {"bert": cost(2.0, 7), "vit": cost(2.0, 7), "moe": cost(2.5, 7)},
    }
    assert best(choose_mode(columns)) == "other"
    choice = choose_mode(columns, twins={"other": "simple"})
    assert (best(choice), beaten(choice)["simple"]) == ("simple", ())
    # Without a gain of its own the simpler mode is no candidate, and replaces nothing.
    columns["simple"] = {name: cost(1.01, 7) for name in columns["simple"]}
    assert best(choose_mode(columns, twins={"other": "simple"})) == "other"


def test_a_mode_that_needs_less_memory_stays_on_the_front() -> None:
    choice = of_one_model(fast=cost(2.0, 10), small=cost(1.5, 20, memory=0.5))
    assert beaten(choice) == {"fast": (), "small": ()}
    assert fronts(choice) == {"fast": FrontStatus.ON, "small": FrontStatus.BY_MEMORY}


@pytest.mark.parametrize(
    ("second", "front"),
    [
        (cost(1.5, 5), FrontStatus.ON),
        (cost(2.0, 10), FrontStatus.ON),
        (cost(2.01, 10.1), FrontStatus.ON),
        (cost(2.01, 40), FrontStatus.OFF),
        (cost(2.01, 40, memory=0.5), FrontStatus.BY_MEMORY),
        (cost(2.0, 10, memory=2.0), FrontStatus.OFF),
    ],
)
def test_ties_of_speed_and_compile_time_share_the_front(second: Cost, front: FrontStatus) -> None:
    choice = of_one_model(first=cost(2.0, 10), second=second)
    assert fronts(choice) == {"first": FrontStatus.ON, "second": front}
    assert all(bool(mode.beaten_by) is (mode.front is FrontStatus.OFF) for mode in choice.modes)


def test_not_compiling_beats_a_mode_that_is_no_faster() -> None:
    choice = of_one_model(useless=cost(1.0, 10))
    assert beaten(choice) == {"useless": ("eager",)}
    assert choice.best_for() is None
    assert [span.variant for span in choice.spans] == ["eager"]


def test_the_spans_begin_where_the_times_cross() -> None:
    # Eager takes 10 ms; a saves 5 ms a call for 5 s, b 6 ms for 50 s: 1000 and 45000 calls.
    choice = of_one_model(a=cost(2.0, 5), b=cost(2.5, 50))
    assert [span.variant for span in choice.spans] == ["eager", "a", "b"]
    assert [span.from_calls for span in choice.spans] == pytest.approx([1, 1000, 45000])
    assert choice.spans[-1].relative_time == pytest.approx(0.4, rel=0.001)
    assert choice.spans[1].relative_time == pytest.approx(1.0)


def test_the_best_mode_changes_where_the_spans_begin() -> None:
    choice = of_one_model(a=cost(2.0, 5), b=cost(2.5, 50))
    assert [best(choice, calls=number) for number in (1, 990, 1010, 44_900, 45_100, 1e12)] == [
        *("eager", "eager", "a", "a", "b", "b"),
    ]
    # 10,000 calls of 5 ms and 5 s, over 10,000 calls of 10 ms.
    assert choice.relative_time("a", calls=10_000) == pytest.approx(0.55)


def test_a_gain_below_the_floor_is_never_the_best() -> None:
    choice = of_one_model(small=cost(1.04, 5))
    assert not choice.modes[0].beaten_by
    assert not choice.modes[0].is_worth
    assert [span.variant for span in choice.spans] == ["eager"]
    assert best(of_one_model(large=cost(1.06, 5))) == "large"


def test_a_gain_that_may_be_none_is_never_the_best() -> None:
    unclear = Cost(speedup=exact(1.2, by=0.2), latency=exact(0.01), compile_s=exact(5))
    assert best(of_one_model(unclear=unclear)) == "eager"


def test_a_mode_that_is_not_worth_it_excludes_no_other() -> None:
    """It is as fast within noise and compiles sooner, but nobody would compile for it."""
    choice = of_one_model(small=cost(1.045, 5), large=cost(1.06, 50))
    assert beaten(choice)["large"] == ("small",)
    assert best(choice) == "large"


def test_modes_that_beat_each_other_in_a_circle_all_stay() -> None:
    def wide(speedup: float, compile_s: float, memory: float) -> Cost:
        return Cost(
            speedup=exact(speedup, by=0.1),
            latency=exact(0.01),
            compile_s=exact(compile_s, by=0.3),
            memory=exact(memory, by=0.1),
        )

    choice = of_one_model(a=wide(2.5, 14, 1.15), b=wide(2.0, 10, 1.0), c=wide(2.2, 20, 0.9))
    assert all(beaten(choice).values())
    assert set(choice.candidates) == {"a", "b", "c"}


def test_the_break_even_is_that_of_the_model_itself() -> None:
    (mode,) = of_one_model(a=cost(2.0, 5)).modes
    assert mode.break_even is not None
    assert mode.break_even.value == pytest.approx(1000)
    # 4.95 s over 5.05 ms x 1.02, and 5.05 s over 4.95 ms x 0.98.
    assert (mode.break_even.low, mode.break_even.high) == pytest.approx((960.9, 1041.0), rel=1e-3)


def test_the_break_even_of_a_cohort_is_where_its_time_is_that_of_eager() -> None:
    choice = choose_mode({"a": {"bert": cost(2.0, 5), "vit": cost(1.5, 20, eager_s=0.1)}})
    (mode,) = choice.modes
    assert mode.break_even is not None
    assert choice.relative_time("a", calls=mode.break_even.value) == pytest.approx(1)
    assert mode.break_even.low < mode.break_even.value < mode.break_even.high
    assert choice.spans[1].from_calls == pytest.approx(mode.break_even.value, rel=1e-6)


def test_equal_models_have_the_break_even_of_one() -> None:
    choice = choose_mode({"a": {"bert": cost(2.0, 5), "vit": cost(2.0, 5)}})
    assert choice.modes[0].break_even is not None
    assert choice.modes[0].break_even.value == pytest.approx(1000)


def test_a_speedup_that_may_be_none_has_no_break_even() -> None:
    assert of_one_model(a=cost(1.005, 5)).modes[0].break_even is None


@pytest.mark.parametrize("calls", [1, 900, 1100, 44_000, 46_000, None])
def test_the_best_of_one_model_is_that_of_a_cohort_of_one(calls: float | None) -> None:
    costs = {"a": cost(2.0, 5), "b": cost(2.5, 50), "small": cost(1.02, 1)}
    mode = best_of_model(costs, calls=calls)
    assert (mode.variant if mode else "eager") == best(of_one_model(**costs), calls=calls)
    assert best_of_model({}) is None


def test_means_are_over_the_models_that_every_mode_has() -> None:
    choice = choose_mode(
        {
            "a": {"bert": cost(2.0, 10), "vit": cost(8.0, 10)},
            "b": {"bert": cost(1.5, 5), "unet": cost(9.0, 5)},
        }
    )
    assert (choice.cohort, choice.num_subjects) == (("bert",), 3)
    assert [mode.speedup.value for mode in choice.modes] == pytest.approx([2.0, 1.5])


def test_a_mode_without_any_result_does_not_empty_the_cohort() -> None:
    choice = choose_mode({"a": {"bert": cost(2.0, 10)}, "b": {}})
    assert [mode.variant for mode in choice.modes] == ["a"]


def test_without_a_common_model_nothing_is_recommended() -> None:
    choice = choose_mode({"a": {"bert": cost(2.0, 10)}, "b": {"vit": cost(2.0, 10)}})
    assert choice == Choice(cohort=(), num_subjects=2, modes=(), spans=())
    assert choice.best_for() is None
    assert choose_mode({}).num_subjects == 0


def test_memory_that_one_model_lacks_has_no_mean() -> None:
    choice = choose_mode({"a": {"bert": cost(2.0, 10), "vit": cost(2.0, 10, memory=None)}})
    assert choice.modes[0].memory is None


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.tuples(st.floats(0.3, 9), st.floats(0.1, 500), st.floats(0.2, 4)),
        min_size=1,
    )
)
def test_the_front_is_never_empty_and_every_span_is_of_it(
    modes: dict[str, tuple[float, float, float]],
) -> None:
    choice = of_one_model(
        **{name: cost(speed, seconds, memory=mem) for name, (speed, seconds, mem) in modes.items()}
    )
    front = {"eager", *(mode.variant for mode in choice.modes if not mode.beaten_by)}
    assert {span.variant for span in choice.spans} <= front
    # More calls never make compiling worth less.
    times = [span.relative_time for span in choice.spans]
    assert times == sorted(times, reverse=True)
