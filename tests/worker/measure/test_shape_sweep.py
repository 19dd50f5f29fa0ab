"""Other shapes through a model that is compiled already, without a worker process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn

from compile_hud.db.records.results import Outcome
from compile_hud.runner.measure import launch
from compile_hud.runner.measure import shape_sweep as shapes
from compile_hud.runner.measure.compile import dynamo
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.shape_sweep import ShapeError, is_swept, sweep_shapes, visit
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.protocol.messages import ShapeSweep
from tests.support.runs.launch_contexts import make_context

LENGTHS = (4, 6, 8, 10)
OWN = 8


class Sum(nn.Module):
    """Any length goes through the same code."""

    def forward(self, input: Tensor) -> Tensor:
        return (input * 2).cumsum(1)


class Branching(nn.Module):
    """Python looks at the length: each one is code of its own."""

    def forward(self, input: Tensor) -> Tensor:
        for _ in range(len(input[0])):
            input = input + 1
        return input


class Inputs:
    """A model's file as far as the step needs it."""

    def example_inputs(self, config: Mapping[str, Any], *, seed: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {"input": torch.randn(3, config["length"], generator=generator)}


@pytest.fixture(autouse=True)
def fresh_dynamo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(shapes, "load_builder", lambda _build: Inputs())
    monkeypatch.setattr(shapes, "BUDGET_S", 0.0)
    dynamo.reset()
    yield
    dynamo.reset()


def swept(model: nn.Module, *, dynamic: bool | None = None, timeout_s: float = 900.0) -> Context:
    inputs = Inputs().example_inputs({"length": OWN}, seed=0)
    context = make_context(model, inputs, backend="aot_eager", num_rounds=5)
    workload = replace(
        context.request.workload,
        config={"length": OWN},
        dynamic=dynamic,
        sweep=ShapeSweep(axis="length", values=LENGTHS),
    )
    settings = replace(context.request.settings, timeout_s=timeout_s)
    return replace(context, request=replace(context.request, workload=workload, settings=settings))


def sweep(context: Context, forward: Callable[..., Any] | None = None) -> str:
    """Compile for the own length as the step `compile` does, then take the step."""
    model = context.subject.model
    if forward is None:
        dynamic = context.request.workload.dynamic
        forward = torch.compile(model, backend="eager", dynamic=dynamic)
        context.step(forward)()
    return sweep_shapes(context, forward)


def rows(context: Context) -> list[dict[str, Any]]:
    shape_rows: list[dict[str, Any]] = context.findings.details["shapes"]["rows"]
    return shape_rows


def codes(context: Context) -> list[str]:
    return [warning.code for warning in context.findings.warnings]


def num_recompiles(context: Context) -> float:
    (number,) = context.findings.metrics["sweep_recompiles"].samples
    return number


def test_torch_learns_from_the_first_new_length_that_lengths_change() -> None:
    context = swept(Sum())
    assert sweep(context) == ""
    assert [row["num_recompiles"] for row in rows(context)] == [1, 0, 0, 0]
    assert num_recompiles(context) == 1
    (location,) = rows(context)[0]["recompiles"]
    assert "expected 8, actual 4" in location["reason"]
    assert [row["compile_s"] is None for row in rows(context)] == [False, True, True, True]
    assert codes(context) == []


def test_what_is_compiled_as_dynamic_is_compiled_once() -> None:
    context = swept(Sum(), dynamic=True)
    assert sweep(context) == ""
    assert num_recompiles(context) == 0
    assert codes(context) == []


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_model_whose_code_depends_on_the_length_is_warned_of(
    dynamic: bool | None, words: SnapshotAssertion
) -> None:
    context = swept(Branching(), dynamic=dynamic)
    assert sweep(context) == ""
    # The own length is compiled already.
    assert num_recompiles(context) == 3
    (warning,) = context.findings.warnings
    assert warning.code == "shape-recompiles"
    # What follows is the text of a guard of torch.
    assert warning.text.partition(", the last")[0] == words


def test_eager_and_variant_are_timed_in_turn_at_every_length() -> None:
    context = swept(Sum(), dynamic=True)
    sweep(context)
    findings = context.findings
    assert findings.details["shapes"]["axis"] == "length"
    assert findings.details["shapes"]["own"] == OWN
    assert [row["value"] for row in rows(context)] == list(LENGTHS)
    num_rounds = len(findings.metrics["sweep_speedup"].samples)
    # No more than these: the budget of these tests is 0.
    assert num_rounds == shapes.MIN_ROUNDS
    sizes = {len(row[side]) for row in rows(context) for side in ("eager_s", "variant_s")}
    assert sizes == {num_rounds}
    ratios = [row["eager_s"][0] / row["variant_s"][0] for row in rows(context)]
    product = ratios[0] * ratios[1] * ratios[2] * ratios[3]
    assert findings.metrics["sweep_speedup"].samples[0] == pytest.approx(product ** (1 / 4))


def test_a_wrong_result_at_one_length_names_the_length(words: SnapshotAssertion) -> None:
    context = swept(Sum())

    def specialised(input: Tensor) -> Tensor:
        result: Tensor = context.subject.model(input=input)
        return result * 2 if input.shape[1] == 6 else result

    why = sweep(context, specialised)
    assert why == words
    assert [bool(row["reason"]) for row in rows(context)] == [False, True, False, False]


def test_another_layout_at_one_length_is_inaccurate(words: SnapshotAssertion) -> None:
    context = swept(Sum())
    why = sweep(context, lambda input: context.subject.model(input=input)[:, :OWN])
    assert why == words


def test_a_length_that_fails_costs_the_lengths_after_it_alone() -> None:
    context = swept(Sum())

    def failing(input: Tensor) -> Tensor:
        if input.shape[1] > OWN:
            raise RuntimeError("no kernel\nfor this")
        result: Tensor = context.subject.model(input=input)
        return result

    assert sweep(context, failing) == ""
    missing = "at length 10 the variant failed with RuntimeError: no kernel for this"
    assert context.findings.details["shapes"]["missing"] == missing
    assert len(rows(context)) == 3
    assert context.findings.metrics == {}
    assert [(item.code, item.text) for item in context.findings.warnings] == [
        ("no-shapes", missing)
    ]


def test_a_length_that_eager_does_not_take_is_distinguished_from_one_that_the_variant_does_not(
    words: SnapshotAssertion,
) -> None:
    class Short(Sum):
        def forward(self, input: Tensor) -> Tensor:
            # As a table of positions does.
            positions: Tensor = torch.zeros(OWN)[torch.arange(input.shape[1])]
            return super().forward(input + positions)

    context = swept(Short())
    with pytest.raises(ShapeError) as caught:
        visit(context, context.subject.model, axis="length", value=10)
    assert str(caught.value) == words


def test_a_size_that_a_model_asserts_against_costs_no_result(words: SnapshotAssertion) -> None:
    class Picky(Sum):
        def forward(self, input: Tensor) -> Tensor:
            # As torchvision's models say that an image has another size than they were built for.
            torch._assert(input.shape[1] == OWN, "wrong length")
            return super().forward(input)

    context = swept(Picky())
    assert sweep(context, context.subject.model) == ""
    (warning,) = context.findings.warnings
    assert warning.text == words


def test_a_length_that_fails_while_it_is_timed_costs_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = swept(Sum())
    seen: list[int] = []

    def tiring(input: Tensor) -> Tensor:
        seen.append(input.shape[1])
        # Each length is called three times before any is timed.
        if len(seen) > 3 * len(LENGTHS) + 20:
            raise torch.OutOfMemoryError("no memory left")
        result: Tensor = context.subject.model(input=input)
        return result

    monkeypatch.setattr(shapes, "calibrate", lambda *_, **__: None)
    monkeypatch.setattr(shapes, "MIN_ROUNDS", 9)
    assert sweep(context, tiring) == ""
    missing = "timing the shapes failed with OutOfMemoryError: no memory left"
    assert context.findings.details["shapes"]["missing"] == missing
    assert rows(context) == []
    assert context.findings.metrics == {}


def test_a_case_that_has_little_time_left_has_no_other_shape(words: SnapshotAssertion) -> None:
    context = swept(Sum(), timeout_s=0.0)
    assert sweep(context) == ""
    assert context.findings.details["shapes"]["rows"] == []
    assert context.findings.details["shapes"]["missing"] == words


@pytest.mark.parametrize(("timeout_s", "num_shapes"), [(20.0, 0), (80.0, 2), (1000.0, 4)])
def test_slow_shapes_and_their_timing_leave_half_of_the_time_to_the_other_launches(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float, num_shapes: int
) -> None:
    now_s = [0.0]

    class Slow(Sum):
        def forward(self, input: Tensor) -> Tensor:
            now_s[0] += input.shape[1] / OWN
            return super().forward(input)

    def clock() -> float:
        return now_s[0]

    monkeypatch.setattr(time, "perf_counter", clock)
    context = replace(swept(Slow(), timeout_s=timeout_s), log=StepLog(now_s=clock))
    with context.log.step("compile"):
        now_s[0] += 8.0
    assert sweep(context, lambda input: context.subject.model(input=input)) == ""
    assert len(rows(context)) == num_shapes
    assert context.log.elapsed_s() <= shapes.TIME_SHARE * timeout_s
    assert ("missing" in context.findings.details["shapes"]) == (num_shapes < len(LENGTHS))


def test_what_shapes_compile_is_not_in_the_cache_of_later_launches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache / "triton"))
    context = swept(Sum())
    context = replace(context, request=replace(context.request, cache_dir=str(cache)))
    seen: list[tuple[str | None, str | None]] = []

    def looking(input: Tensor) -> Tensor:
        seen.append((os.environ.get("TORCHINDUCTOR_CACHE_DIR"), os.environ.get("TRITON_CACHE_DIR")))
        result: Tensor = context.subject.model(input=input)
        return result

    sweep(context, looking)
    assert set(seen) == {(f"{cache}-of-shapes", None)}
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache)
    assert os.environ["TRITON_CACHE_DIR"] == str(cache / "triton")


@pytest.mark.nightly
def test_shapes_come_last_and_leave_the_numbers_before_them_alone() -> None:
    context = swept(Sum())
    assert launch._measure(context).reason == ""
    steps = [entry["name"] for entry in context.log.entries]
    assert steps[-2:] == ["result", "shapes"]
    assert context.findings.metrics["recompiles"].samples == (0.0,)
    assert context.findings.details["recompiles"] == []
    assert num_recompiles(context) == 1


def test_a_wrong_shape_makes_the_case_inaccurate(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "at length 6 it is wrong"
    monkeypatch.setattr(launch, "sweep_shapes", lambda *_: why)
    ending = launch._measure(swept(Sum()))
    assert (ending.outcome, ending.reason) == (Outcome.INACCURATE, why)


@pytest.mark.parametrize(
    "change",
    [
        lambda request: replace(request, launch=1),
        lambda request: replace(request, settings=replace(request.settings, sweep=False)),
        lambda request: replace(request, workload=replace(request.workload, sweep=None)),
    ],
)
def test_some_launches_have_no_other_shapes(change: Callable[[Any], Any]) -> None:
    context = swept(Sum())
    assert is_swept(context)
    assert not is_swept(replace(context, request=change(context.request)))


def test_what_ran_eagerly_has_no_other_shapes() -> None:
    context = swept(Sum())
    context.findings.effective_mode = "eager"
    assert not is_swept(context)
