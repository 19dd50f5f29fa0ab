"""Operations and bytes of an iteration, each against a count by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from syrupy.assertion import SnapshotAssertion
from torch import Tensor, nn

from compile_hud.db.records.results import Phase
from compile_hud.models_zoo.catalog.spec import ModelTransform
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.resources.flops import (
    Traffic,
    attention_backward_flops,
    attention_flops,
    count_work,
    grouped_product_flops,
    report_work,
)
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings, Workload
from tests.support.builders import make_case

CPU = Device(kind="cpu", num_threads=1)
FLOAT_BYTES = 4


def subject_of(model: nn.Module, *inputs: Tensor, phase: Phase = Phase.INFERENCE) -> Subject:
    names = ("x", "y", "z")
    subject = Subject(
        model=model,
        inputs=dict(zip(names, inputs, strict=False)),
        phase=phase,
        dtype=make_case().dtype,
        device=CPU,
        loss=mean_square,
    )
    if phase is Phase.TRAINING:
        subject.optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
        subject.step(model)()
    return subject


def context_of(model: nn.Module, *inputs: Tensor) -> Context:
    request = LaunchRequest(
        case=make_case(),
        workload=Workload(build="", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
        launch=0,
        cache_dir="",
        report_path="",
        log_path="",
    )
    subject = subject_of(model, *inputs)
    return Context(request=request, subject=subject, device=CPU, log=StepLog(), findings=Findings())


class Calling(nn.Module):
    """A model that is one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, **inputs: Tensor) -> Any:
        return self.function(*inputs.values())


class Affine(nn.Module):
    """One layer, 32 numbers to 16."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


WEIGHTS = 32 * 16 + 16


def test_work_of_a_linear_layer_is_counted_by_hand() -> None:
    work = count_work(subject_of(Affine(), torch.ones(8, 32)))
    assert work.flops == 2 * 8 * 32 * 16
    assert work.read_bytes == (WEIGHTS + 8 * 32) * FLOAT_BYTES
    assert work.written_bytes == 8 * 16 * FLOAT_BYTES
    assert work.uncounted == ()


def test_work_of_a_training_step_is_counted_by_hand() -> None:
    work = count_work(subject_of(Affine(), torch.ones(8, 32), phase=Phase.TRAINING))
    # The product forward, and the gradient of the weight; the input wants none.
    assert work.flops == 2 * (2 * 8 * 32 * 16)
    # Weights, gradients and both moments each way, with a step count for either parameter.
    state = 4 * WEIGHTS + 2
    assert work.written_bytes == state * FLOAT_BYTES
    assert work.read_bytes == (state + 8 * 32) * FLOAT_BYTES


def test_gradients_of_the_iteration_before_are_not_among_what_lives_on() -> None:
    subject = subject_of(Affine(), torch.ones(8, 32))
    for parameter in subject.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    count_work(subject)
    assert [item.grad for item in subject.model.parameters()] == [None, None]


def test_work_of_a_convolution_is_counted_by_hand() -> None:
    model = Calling(lambda x, y: F.conv2d(x, y, padding=1, stride=2))
    work = count_work(subject_of(model, torch.ones(2, 3, 8, 8), torch.ones(5, 3, 3, 3)))
    # Each of 2 x 5 x 4 x 4 outputs is a sum over 3 channels of 3 x 3.
    assert work.flops == 2 * (2 * 5 * 4 * 4) * (3 * 3 * 3)
    assert work.read_bytes == (2 * 3 * 8 * 8 + 5 * 3 * 3 * 3) * FLOAT_BYTES
    assert work.written_bytes == 2 * 5 * 4 * 4 * FLOAT_BYTES


def test_work_of_attention_is_counted_by_hand() -> None:
    query, key = torch.ones(2, 4, 16, 8), torch.ones(2, 4, 32, 8)
    model = Calling(lambda x, y, z: F.scaled_dot_product_attention(x, y, z))
    work = count_work(subject_of(model, query, key, key.clone()))
    # 2 x 4 heads: scores of 16 x 32 over 8 numbers, then 16 x 8 results over 32 scores.
    assert work.flops == 2 * 2 * (2 * 4) * 16 * 32 * 8


def test_work_of_attention_with_shared_heads_counts_every_query() -> None:
    assert attention_flops((2, 8, 16, 8), (2, 2, 32, 8), (2, 2, 32, 4)) == (
        2 * (2 * 8) * 16 * 32 * (8 + 4)
    )


def test_attention_backward_is_five_products() -> None:
    query, key, value = (2, 8, 16, 8), (2, 2, 32, 8), (2, 2, 32, 4)
    # The scores, the gradients of query and key over 8 numbers; those of scores and value over 4.
    assert attention_backward_flops(query, query, key, value) == (
        2 * (2 * 8) * 16 * 32 * (3 * 8 + 2 * 4)
    )


def test_a_training_step_counts_the_attention_of_a_cpu_backward_as_well() -> None:
    class Attending(Affine):
        def forward(self, x: Tensor) -> Any:
            heads = self.layer(x).reshape(1, 1, 8, 16)
            return F.scaled_dot_product_attention(heads, heads, heads)

    work = count_work(subject_of(Attending(), torch.ones(8, 32), phase=Phase.TRAINING))
    assert work.flops == 2 * (2 * 8 * 32 * 16) + (2 + 5) * 2 * 8 * 8 * 16


@pytest.mark.parametrize(
    ("left", "right", "flops"),
    [
        ((10, 4), (3, 4, 5), 2 * 10 * 4 * 5),
        ((3, 10, 4), (3, 4, 5), 2 * 3 * 10 * 4 * 5),
        ((10, 12), (12, 5), 2 * 10 * 12 * 5),
        ((3, 10, 4), (4, 15), 2 * 10 * 4 * 15),
    ],
)
def test_grouped_products_count_each_row_once(
    left: tuple[int, ...], right: tuple[int, ...], flops: int
) -> None:
    assert grouped_product_flops(left, right) == flops


def moved(function: Any, *alive: Tensor) -> tuple[int, int]:
    """Return the bytes that `function` reads and writes of `alive`, in numbers of four bytes."""
    traffic = Traffic(alive)
    with torch.no_grad(), traffic:
        function(*alive)
    return traffic.read_bytes // FLOAT_BYTES, traffic.written_bytes // FLOAT_BYTES


TABLE = torch.ones(100, 8)
ROWS = torch.tensor([3, 3, 7])


@pytest.mark.parametrize(
    ("function", "read", "written"),
    [
        # What is read twice is moved once, a part of it is a part, and a look at it is nothing.
        (lambda x: (x + 1, x + 2), 800, 0),
        (lambda x: x[:10] + 1, 80, 0),
        (lambda x: (x[:10] + 1, x[50:60] + 1), 160, 0),
        (lambda x: (x[:60] + 1, x[40:] + 1, x + 1), 800, 0),
        (lambda x: x[:1].expand(50, 8) + 1, 8 * 50, 0),
        (lambda x: (x.t(), torch.zeros_like(x), x.new_zeros(3)), 0, 0),
        (lambda x: x.detach().view(-1) + 1, 800, 0),
        # Two distinct rows of a table, and as many elements as come out.
        (lambda x: F.embedding(ROWS, x), 16, 0),
        (lambda x: F.embedding_bag(ROWS[None], x), 16, 0),
        (lambda x: x.index_select(0, ROWS), 24, 0),
        (lambda x: x[ROWS], 24, 0),
        (lambda x: x.gather(0, torch.zeros(2, 8, dtype=torch.long)), 16, 0),
        # Changed in place: read and written; overwritten: written alone.
        (lambda x: x.mul_(2), 800, 800),
        (lambda x: x.zero_(), 0, 800),
        (lambda x: x[:10].copy_(torch.ones(10, 8)), 0, 80),
        (lambda x: torch.add(torch.ones(100, 8), 1, out=x), 0, 800),
        (lambda x: torch._foreach_mul_([x], 2.0), 800, 800),
        (lambda _: torch.ones(5) + 1, 0, 0),
    ],
)
def test_what_lives_on_is_moved_once(function: Any, read: int, written: int) -> None:
    assert moved(function, TABLE.clone()) == (read, written)


def test_an_operator_of_higher_order_reads_what_it_is_given() -> None:
    traffic = Traffic([TABLE])
    traffic.__torch_dispatch__(lambda table: table, (), (TABLE,))
    assert traffic.read_bytes == 800 * FLOAT_BYTES


def test_results_that_are_inputs_are_not_written() -> None:
    x = torch.ones(4)
    work = count_work(subject_of(Calling(lambda x: {"same": x, "view": x[:2], "new": x + 1}), x))
    assert work.written_bytes == 4 * FLOAT_BYTES


def test_weights_in_8_bits_are_not_the_bytes_of_the_model_that_is_counted() -> None:
    context = context_of(Affine(), torch.ones(8, 32))
    workload = dataclasses.replace(
        context.request.workload, transform=ModelTransform(weights="int8")
    )
    request = dataclasses.replace(context.request, workload=workload)
    report_work(dataclasses.replace(context, request=request))
    assert set(context.findings.metrics) == {"flops", "num_parameters"}


def test_work_is_stored_with_its_parts() -> None:
    context = context_of(Affine(), torch.ones(8, 32))
    report_work(context)
    metrics = {name: raw.samples for name, raw in context.findings.metrics.items()}
    assert metrics["flops"] == (8192.0,)
    assert metrics["compulsory_bytes"] == ((WEIGHTS + 8 * 32 + 8 * 16) * 4.0,)
    assert context.findings.details["work"]["flops_by_operator"] == {"aten.addmm": 8192}
    assert context.findings.warnings == []


def test_a_model_without_products_has_no_flops_rather_than_zero() -> None:
    context = context_of(Calling(lambda x: x + 1), torch.ones(4))
    report_work(context)
    assert set(context.findings.metrics) == {"compulsory_bytes"}


def test_a_model_that_moves_nothing_has_no_bytes_rather_than_zero() -> None:
    context = context_of(Calling(lambda x: x), torch.ones(4))
    report_work(context)
    assert context.findings.metrics == {}


def test_a_shared_parameter_counts_once() -> None:
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    tied[1].weight = tied[0].weight
    context = context_of(tied, torch.ones(2, 4))
    report_work(context)
    assert context.findings.metrics["num_parameters"].samples == (20.0,)


def test_a_model_that_cannot_be_counted_is_a_warning(words: SnapshotAssertion) -> None:
    def fail(_: Tensor) -> Tensor:
        raise RuntimeError("no rule for this mode")

    context = context_of(Calling(fail), torch.ones(4))
    report_work(context)
    assert [warning.code for warning in context.findings.warnings] == ["uncounted-work"]
    assert context.findings.warnings[0].text == words
    assert context.findings.metrics == {}


def test_a_custom_operator_is_reported_by_name() -> None:
    with torch.library._scoped_library("hud_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        context = context_of(Calling(torch.ops.hud_test.twice), torch.ones(4))
        report_work(context)
    assert [warning.code for warning in context.findings.warnings] == ["uncounted-operators"]
    assert "hud_test::twice" in context.findings.warnings[0].text


def test_a_recurrent_layer_is_reported_as_uncounted() -> None:
    model = nn.LSTM(4, 5)
    context = context_of(Calling(lambda x: model(x)[0]), torch.ones(3, 2, 4))
    with torch.no_grad():
        report_work(context)
    codes = [warning.code for warning in context.findings.warnings]
    # Without oneDNN the layer falls apart into products, which are counted.
    assert codes == (["uncounted-operators"] if torch.backends.mkldnn.is_available() else [])
