"""The rules of a right answer, each against an answer that breaks only this rule."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.accuracy.metrics import (
    MIN_EAGER_COSINE,
    RMSE_FACTOR,
    ROUNDING_RMSE,
    Distance,
    EagerError,
    check_accuracy,
    distance,
    num_allowed_flips,
    tolerance_for,
)
from compile_hud.runner.measure.accuracy.outputs import flatten_outputs
from compile_hud.runner.measure.accuracy.step import check_result, make_reference
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.subject import Subject, fp64_twin
from tests.support.runs.launch_contexts import CPU, make_context

FP32 = tolerance_for(Dtype.FP32, {})
ORACLE = torch.linspace(-1, 1, 1000, dtype=torch.float64)


def why(
    result: Tensor,
    *,
    oracle: Tensor = ORACLE,
    rmse: float | None = 1e-7,
    spread: Distance | None = None,
) -> str:
    eager = EagerError(rmse=rmse) if spread is None else EagerError(rmse=rmse, spread=spread)
    return check_accuracy(
        result, oracle=oracle, min_cosine=FP32.min_cosine, tolerance=FP32, eager=eager
    ).reason


def test_rounding_is_accurate() -> None:
    assert why(ORACLE + 1e-7) == ""


def test_another_direction_is_inaccurate(words: SnapshotAssertion) -> None:
    assert "-1.0" in why(-ORACLE)
    assert why(-ORACLE) == words


def test_many_times_the_error_of_eager_is_inaccurate() -> None:
    assert "3 times eager's" in why(ORACLE * (1 + 1e-3))


def test_an_error_like_that_of_eager_is_accurate() -> None:
    assert why(ORACLE * (1 + 1e-3), rmse=1e-3) == ""


def test_eager_itself_is_held_to_the_cosine_alone() -> None:
    assert why(ORACLE * (1 + 1e-3), rmse=None) == ""
    assert "cosine similarity" in why(-ORACLE, rmse=None)


def test_what_eager_differs_from_itself_is_allowed_to_the_variant() -> None:
    far = Distance(max_abs=1e-3, rmse=1e-3, cosine=1.0)
    assert why(ORACLE * (1 + 1e-3), spread=far) == ""
    noise = torch.sin(torch.arange(1000, dtype=torch.float64)) * 0.015
    assert "cosine similarity" in why(ORACLE + noise, rmse=1.0)
    turned = Distance(max_abs=0.01, rmse=0.01, cosine=0.9999)
    assert why(ORACLE + noise, rmse=1.0, spread=turned) == ""


def test_eager_runs_that_hardly_agree_prove_nothing(words: SnapshotAssertion) -> None:
    apart = Distance(max_abs=1.0, rmse=1.0, cosine=MIN_EAGER_COSINE - 0.01)
    assert why(ORACLE, spread=apart) == words


def test_another_number_of_values_is_inaccurate(words: SnapshotAssertion) -> None:
    assert why(ORACLE[1:]) == words


def with_edges(*values: float, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return the oracle with `values` in front."""
    return torch.cat([torch.tensor(values, dtype=dtype), ORACLE.to(dtype)])


def test_the_same_infinities_and_nan_are_the_same_answer() -> None:
    edges = with_edges(math.inf, -math.inf, math.nan)
    assert why(edges.clone(), oracle=edges) == ""
    assert why(edges[:3].clone(), oracle=edges[:3]) == ""
    # The other numbers are compared all the same.
    assert "cosine similarity" in why(torch.cat([edges[:3], -edges[3:]]), oracle=edges)


@pytest.mark.parametrize(
    "values", [(-math.inf, math.inf), (math.inf, math.nan), (math.inf, 1.0), (1e300, -math.inf)]
)
def test_another_infinity_is_another_answer(values: tuple[float, ...]) -> None:
    assert why(with_edges(*values), oracle=with_edges(math.inf, -math.inf))


def test_the_lowest_number_of_each_dtype_hides_no_other_number() -> None:
    lowest = with_edges(torch.finfo(torch.float64).min)
    result = with_edges(torch.finfo(torch.float32).min, dtype=torch.float32)
    assert why(result, oracle=lowest) == ""
    result[1:] *= -1
    assert "cosine similarity" in why(result, oracle=lowest)


def test_rounding_to_the_limit_of_a_narrow_dtype_is_rounding() -> None:
    oracle = with_edges(65500.0)
    result = with_edges(torch.finfo(torch.float16).max, dtype=torch.float16)
    assert why(result, oracle=oracle, rmse=1.0) == ""


def test_nan_where_the_oracle_has_a_number_is_inaccurate() -> None:
    assert "NaN" in why(ORACLE * float("nan"))


def test_zero_equals_zero_and_nothing_else(words: SnapshotAssertion) -> None:
    zero = torch.zeros(4, dtype=torch.float64)
    assert why(zero, oracle=zero) == ""
    assert " 0.0" in why(zero + 1, oracle=zero)
    assert why(zero + 1, oracle=zero) == words


def test_an_empty_output_is_the_same_as_another() -> None:
    empty = torch.zeros(0, dtype=torch.float64)
    assert why(empty, oracle=empty) == ""


@pytest.mark.parametrize(
    ("num_values", "num_by_eager", "allowed"), [(1, 0, 0), (2, 0, 1), (1000, 0, 10), (1000, 9, 27)]
)
def test_integers_may_flip_at_a_tie(num_values: int, num_by_eager: int, allowed: int) -> None:
    num_flips = num_allowed_flips(num_values, num_by_eager=num_by_eager, tolerance=FP32)
    assert num_flips == allowed


def test_a_model_sets_what_differs_from_its_dtype() -> None:
    tolerance = tolerance_for(Dtype.BF16, {"min_cosine": 0.5})
    assert tolerance.min_cosine == 0.5
    assert tolerance.rounding_rmse == ROUNDING_RMSE[Dtype.BF16]
    assert tolerance.max_rmse_ratio == RMSE_FACTOR


@dataclass
class Answer:
    logits: Tensor
    labels: Tensor


def test_outputs_are_taken_apart_whatever_holds_them() -> None:
    outputs = {"a": (torch.ones(2), [torch.zeros(1)]), "b": torch.tensor([7]), "c": None}
    parts = flatten_outputs(outputs)
    assert {name: part.tolist() for name, part in parts.parts.items()} == {
        "outputs.a.0": [1.0, 1.0],
        "outputs.a.1.0": [0.0],
    }
    assert {name: part.tolist() for name, part in parts.discrete.items()} == {"outputs.b": [7]}
    assert parts.layout == (
        "outputs.a.0 float32[2]",
        "outputs.a.1.0 float32[1]",
        "outputs.b int64[1]",
    )
    answer = flatten_outputs(Answer(logits=torch.ones(1), labels=torch.tensor([True])))
    assert list(answer.parts) == ["outputs.logits"]
    assert answer.discrete["outputs.labels"].tolist() == [1]
    assert flatten_outputs(torch.tensor([1 + 2j])).parts["outputs"].tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match="without any tensor"):
        flatten_outputs({"b": 7})


def test_parts_are_copies_in_their_own_dtype() -> None:
    output = torch.ones(2, dtype=torch.bfloat16)
    parts = flatten_outputs(output)
    output.zero_()
    assert parts.parts["outputs"].tolist() == [1.0, 1.0]
    assert parts.parts["outputs"].dtype is torch.bfloat16


def test_distances_are_taken_in_fp64() -> None:
    one = torch.ones(3)
    assert distance(one, other=one.double() + 2.0**-40) == Distance(
        max_abs=2.0**-40, rmse=2.0**-40, cosine=1.0
    )


class Two(nn.Module):
    """A large output, a small one, and which value of each row is the largest."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        large = self.linear(x)
        return {"large": 1000 * large, "small": 1e-3 * large[:, :4], "best": large.argmax(dim=1)}


def run(
    change: Callable[[dict[str, Tensor]], dict[str, Any]], **options: Any
) -> tuple[str, Context]:
    """Return why a variant that changes the outputs of Two in this way is inaccurate."""
    model = Two()
    context = make_context(model, {"x": torch.randn(200, 16)}, **options)
    reason = check_result(
        context, lambda x: change(model(x)), reference=make_reference(context.subject)
    )
    json.dumps(context.findings.details, allow_nan=False)
    return reason, context


def test_a_right_variant_keeps_its_distances_and_the_tolerance_in_force() -> None:
    reason, context = run(lambda outputs: outputs, tolerance={"min_cosine": 0.97})
    assert reason == ""
    details = context.findings.details["accuracy"]
    assert details["tolerance"]["min_cosine"] == 0.97
    assert list(details["parts"]) == ["outputs.large", "outputs.small"]
    assert details["parts"]["outputs.small"]["cosine"] == pytest.approx(1.0)
    assert details["discrete"]["outputs.best"]["num_different"] == 0
    assert context.findings.metrics["rmse_ratio"].samples == (1.0,)
    assert context.findings.warnings == []


def test_a_small_output_is_not_hidden_by_a_large_one(words: SnapshotAssertion) -> None:
    reason, context = run(lambda outputs: outputs | {"small": -outputs["small"]})
    assert reason == words
    parts = context.findings.details["accuracy"]["parts"]
    assert parts["outputs.small"]["cosine"] == pytest.approx(-1.0)
    assert parts["outputs.large"]["cosine"] == pytest.approx(1.0)
    assert context.findings.metrics == {}


def test_a_slightly_wrong_result_passes_the_cosine_and_fails_the_error(
    words: SnapshotAssertion,
) -> None:
    def coarse(outputs: dict[str, Tensor]) -> dict[str, Any]:
        return outputs | {"large": outputs["large"].to(torch.bfloat16).float()}

    reason, context = run(coarse)
    assert reason == words
    large = context.findings.details["accuracy"]["parts"]["outputs.large"]
    assert large["cosine"] > FP32.min_cosine
    assert large["rmse"] > RMSE_FACTOR * large["eager_rmse"]


def test_what_a_model_tolerates_lets_a_slightly_wrong_result_through() -> None:
    def coarse(outputs: dict[str, Tensor]) -> dict[str, Any]:
        return outputs | {"large": outputs["large"].to(torch.bfloat16).float()}

    assert run(coarse, tolerance={"rounding_rmse": 1e-2})[0] == ""


def test_an_infinite_distance_is_no_number_in_the_details(words: SnapshotAssertion) -> None:
    reason, context = run(lambda outputs: outputs | {"small": outputs["small"] * float("nan")})
    assert reason == words
    assert context.findings.details["accuracy"]["parts"]["outputs.small"]["rmse"] is None


def test_flipped_integers_are_inaccurate_beyond_their_share(words: SnapshotAssertion) -> None:
    def flip(outputs: dict[str, Tensor], num_flips: int) -> dict[str, Any]:
        best = outputs["best"].clone()
        best[:num_flips] += 1
        return outputs | {"best": best}

    reason, context = run(lambda outputs: flip(outputs, 2))
    assert reason == ""
    assert context.findings.details["accuracy"]["discrete"]["outputs.best"]["num_different"] == 2
    reason, _ = run(lambda outputs: flip(outputs, 3))
    assert reason == words


@pytest.mark.parametrize(
    "change",
    [
        lambda large: large.double(),
        lambda large: large.T,
        lambda _: None,
    ],
)
def test_another_dtype_shape_or_number_of_outputs_is_inaccurate(
    change: Callable[[Tensor], Any], words: SnapshotAssertion
) -> None:
    accuracy, _ = run(lambda outputs: outputs | {"large": change(outputs["large"])})
    assert accuracy == words


def test_a_wrong_second_answer_is_found() -> None:
    calls: list[int] = []

    def second_is_wrong(outputs: dict[str, Tensor]) -> dict[str, Any]:
        calls.append(1)
        return outputs if len(calls) == 1 else outputs | {"small": -outputs["small"]}

    reason, context = run(second_is_wrong)
    assert reason.startswith("outputs.small: cosine")
    assert [warning.code for warning in context.findings.warnings] == ["nondeterministic-variant"]
    spread = context.findings.details["variant_nondeterminism"]
    assert spread["max_abs_difference"] > spread["rmse"] > 0


class Drifting(nn.Module):
    """Each call in fp32 is off by as much as `drift`, another way each time.

    No attribute holds the number of the call, so nothing can start it over.
    """

    def __init__(self, drift: float) -> None:
        super().__init__()
        self.drift = drift
        self.linear = nn.Linear(16, 16)
        numbers = itertools.count(1)
        self.next_number = lambda: next(numbers)

    def forward(self, x: Tensor) -> Tensor:
        number = self.next_number()
        drift = 0.0 if x.dtype is torch.float64 else self.drift * number
        result: Tensor = self.linear(x) * (1 + drift)
        return result


def run_drifting(drift: float, backend: str) -> tuple[str, Context]:
    model = Drifting(drift)
    context = make_context(model, {"x": torch.randn(8, 16)}, backend=backend)
    return check_result(context, model, reference=make_reference(context.subject)), context


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_nondeterministic_eager_is_reported_and_widens_the_limits(backend: str) -> None:
    # Four times its first error by the fourth call: too much without knowing of the spread.
    reason, context = run_drifting(1e-4, backend)
    assert reason == ""
    assert [warning.code for warning in context.findings.warnings] == ["nondeterministic-eager"]
    assert context.findings.details["eager_nondeterminism"]["rmse"] > 0
    assert "variant_nondeterminism" not in context.findings.details


def test_an_eager_that_is_random_cannot_be_checked() -> None:
    class Random(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            generator = torch.Generator()
            generator.seed()
            noise = torch.randn(x.shape, generator=generator)
            return x if x.dtype is torch.float64 else x + noise

    context = make_context(Random(), {"x": torch.randn(400)}, backend="eager")
    reason = check_result(context, context.subject.model, reference=make_reference(context.subject))
    assert "differ too much" in reason


def test_an_eager_whose_shape_changes_cannot_be_checked() -> None:
    class Growing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            numbers = itertools.count(1)
            self.next_number = lambda: next(numbers)

        def forward(self, x: Tensor) -> Tensor:
            return x[: self.next_number() if x.dtype is torch.float32 else 1]

    context = make_context(Growing(), {"x": torch.ones(4)}, backend="eager")
    reason = check_result(context, context.subject.model, reference=make_reference(context.subject))
    assert "differ too much" in reason
    assert context.findings.details["eager_nondeterminism"]["rmse"] is None


def test_an_eager_of_nan_is_inaccurate_and_not_called_nondeterministic() -> None:
    class Nothing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.dtype is torch.float64 else x * float("nan")

    context = make_context(Nothing(), {"x": torch.randn(4)}, backend="eager")
    reason = check_result(context, context.subject.model, reference=make_reference(context.subject))
    assert "NaN" in reason
    assert context.findings.warnings == []
    json.dumps(context.findings.details, allow_nan=False)


def test_a_variant_that_is_right_where_eager_is_not_has_no_ratio_to_it() -> None:
    class Overflowing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.dtype is torch.float64 else x / 0

    context = make_context(Overflowing(), {"x": torch.ones(4)})
    reference = make_reference(context.subject)
    assert check_result(context, lambda x: x, reference=reference) == ""
    assert sorted(context.findings.metrics) == ["cosine_similarity", "max_abs_error"]


def test_eager_has_its_error_and_no_ratio_to_itself() -> None:
    context = make_context(nn.Linear(16, 16), {"input": torch.randn(8, 16)}, backend="eager")
    model = context.subject.model
    assert check_result(context, model, reference=make_reference(context.subject)) == ""
    assert sorted(context.findings.metrics) == ["cosine_similarity", "max_abs_error"]
    assert context.findings.metrics["max_abs_error"].samples[0] > 0


def test_a_model_of_integers_alone_is_checked_by_them() -> None:
    class Best(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.argmax(dim=1)

    context = make_context(Best(), {"x": torch.randn(50, 8)})
    reference = make_reference(context.subject)
    assert check_result(context, context.subject.model, reference=reference) == ""
    assert "cosine_similarity" not in context.findings.metrics
    assert "of 50 integers differ" in check_result(
        context, lambda x: x.argmin(dim=1), reference=reference
    )


def test_gradients_have_a_floor_of_their_own() -> None:
    model = nn.Linear(8, 8)
    context = make_context(model, {"input": torch.randn(4, 8)}, phase=Phase.TRAINING)

    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_ctx: Any, grad: Tensor) -> Tensor:
            return grad * torch.linspace(0.5, 1.5, 8)

    reference = make_reference(context.subject)
    reason = check_result(context, lambda input: Turned.apply(model(input)), reference=reference)
    assert reason.startswith("gradients: cosine similarity")
    loose = {"min_gradient_cosine": 0.5, "rounding_rmse": 1.0}
    context = make_context(
        model, {"input": context.subject.inputs["input"]}, phase=Phase.TRAINING, tolerance=loose
    )
    assert not check_result(context, lambda input: Turned.apply(model(input)), reference=reference)


def half_precision(model: nn.Module, inputs: Tensor, *, scale: float) -> Subject:
    """Return `model` in fp16 training, its loss scaled by `scale`."""
    return Subject(
        model=model,
        inputs={"input": inputs},
        phase=Phase.TRAINING,
        dtype=Dtype.FP16_AUTOCAST,
        device=CPU,
        loss=lambda outputs, _: outputs.float().square().mean() * scale,
        scaler=torch.amp.GradScaler("cpu"),
    )


def test_gradients_in_half_precision_do_not_underflow() -> None:
    torch.manual_seed(0)
    model = nn.Linear(64, 64)
    subject = half_precision(model, torch.randn(8, 64), scale=1e-6)
    twin = fp64_twin(subject)
    tolerance = tolerance_for(Dtype.FP16_AUTOCAST, {})
    accuracy = check_accuracy(
        subject.result(model).parts["gradients"],
        oracle=twin.result(twin.model).parts["gradients"],
        min_cosine=tolerance.min_gradient_cosine,
        tolerance=tolerance,
        eager=EagerError(),
    )
    assert accuracy.reason == ""


def test_an_overflowing_loss_scale_is_backed_off() -> None:
    model = nn.Linear(4, 4)
    gradients = half_precision(model, torch.ones(2, 4), scale=1e3).result(model).parts["gradients"]
    assert bool(torch.isfinite(gradients).all())
