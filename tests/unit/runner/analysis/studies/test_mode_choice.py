"""The choice of a mode: the front, and the break-even numbers of calls, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.mode_choice import Choice, Cost, choose_mode


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


def test_a_mode_that_is_slower_and_compiles_longer_is_off_the_front() -> None:
    choice = of_one_model(fast=cost(2.0, 10), slow=cost(1.5, 20))
    assert beaten(choice) == {"fast": (), "slow": ("fast",)}


def test_modes_that_are_as_fast_are_settled_by_the_compile_time() -> None:
    choice = of_one_model(long=cost(2.01, 40), short=cost(2.0, 10))
    assert beaten(choice) == {"long": ("short",), "short": ()}
    assert choice.best is not None
    assert choice.best.variant == "short"


def test_a_mode_that_needs_less_memory_stays_on_the_front() -> None:
    choice = of_one_model(fast=cost(2.0, 10), small=cost(1.5, 20, memory=0.5))
    assert beaten(choice) == {"fast": (), "small": ()}


def test_not_compiling_beats_a_mode_that_is_no_faster() -> None:
    choice = of_one_model(useless=cost(1.0, 10))
    assert beaten(choice) == {"useless": ("eager",)}
    assert choice.best is None
    assert [span.variant for span in choice.spans] == ["eager"]


def test_the_spans_begin_where_the_times_cross() -> None:
    # Eager takes 10 ms; a saves 5 ms a call for 5 s, b 6 ms for 50 s: 1000 and 45000 calls.
    choice = of_one_model(a=cost(2.0, 5), b=cost(2.5, 50))
    assert [span.variant for span in choice.spans] == ["eager", "a", "b"]
    assert [span.from_calls for span in choice.spans] == pytest.approx([1, 1000, 45000], rel=0.02)
    assert choice.spans[-1].relative_time == pytest.approx(0.4, rel=0.001)
    assert choice.spans[1].relative_time == pytest.approx(1.0, rel=0.02)


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
    assert choice.best is None
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
