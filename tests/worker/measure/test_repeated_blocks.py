"""The repeated blocks of a model, and their transforms."""

from __future__ import annotations

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from torch import nn

from compile_hud.db.records.results import Outcome, Phase
from compile_hud.models_zoo.catalog.spec import ModelTransform
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.compile.compiler import compile_model
from compile_hud.runner.measure.compile.dynamo import read_counts
from compile_hud.runner.measure.model_transforms import (
    TransformError,
    apply_transform,
    repeated_blocks,
)
from compile_hud.runner.measure.resources.memory import cpu_peak_bytes, idle_bytes
from compile_hud.runner.measure.subject import Subject
from tests.fixtures.odd_models import WIDTH, Block, Stack
from tests.support.runs.launch_contexts import forget_compiled, make_context
from tests.support.runs.launches import median, order

REGIONAL = ModelTransform(is_regional=True)
CHECKPOINTED = ModelTransform(is_checkpointed=True)
FUSED = ModelTransform(has_fused_optimizer=True)


def stack_subject(*, phase: Phase = Phase.INFERENCE, num_rows: int = 4) -> Subject:
    torch.manual_seed(0)
    return make_context(Stack(), {"x": torch.randn(num_rows, WIDTH)}, phase=phase).subject


def transformed(subject: Subject, transform: ModelTransform) -> Subject:
    subject_copy = apply_transform(subject, transform=transform)
    assert subject_copy is not None
    return subject_copy


def classes(model: nn.Module) -> list[str]:
    return [type(block).__name__ for block in repeated_blocks(model)]


def test_blocks_are_those_of_a_list_that_repeats_one() -> None:
    assert classes(Stack()) == ["Block"] * 4
    assert repeated_blocks(Stack()) != repeated_blocks(Stack())
    assert classes(nn.Sequential(nn.ModuleDict({"stack": Stack()}), nn.ReLU())) == ["Block"] * 4


def test_the_odd_one_of_a_stack_is_a_block_of_it() -> None:
    wide = Block(width=16)
    assert repeated_blocks(nn.ModuleList([wide, Block(), Block()]))[0] is wide


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)),
        nn.ModuleList([Block(), Block(width=16)]),
        nn.ModuleList([Block()]),
        nn.Sequential(nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())),
        nn.ModuleDict({"a": Block(), "b": Block()}),
    ],
    ids=["layers", "unlike", "alone", "without parameters", "no list"],
)
def test_what_is_not_repeated_is_no_block(model: nn.Module) -> None:
    assert classes(model) == []


def test_blocks_within_a_block_are_not_looked_at() -> None:
    assert classes(nn.ModuleList([Stack(), Stack()])) == ["Stack"] * 2


@pytest.mark.parametrize("transform", [REGIONAL, CHECKPOINTED])
def test_a_model_without_blocks_reports_it(
    transform: ModelTransform, words: SnapshotAssertion
) -> None:
    subject = make_context(nn.Linear(4, 4), {"input": torch.ones(2, 4)}).subject
    with pytest.raises(TransformError) as caught:
        apply_transform(subject, transform=transform)
    assert str(caught.value) == words


@pytest.mark.parametrize("transform", [REGIONAL, CHECKPOINTED, FUSED])
def test_a_treatment_that_changes_no_weights_shares_them_with_eager(
    transform: ModelTransform,
) -> None:
    context = make_context(Stack(), {"x": torch.randn(4, WIDTH)}, phase=Phase.TRAINING)
    copied = transformed(context.subject, transform)
    both = zip(copied.model.parameters(), context.subject.model.parameters(), strict=True)
    assert all(ours is theirs for ours, theirs in both)
    assert copied.model is not context.subject.model
    shared = make_context(context.subject.model, context.subject.inputs, transformed=copied)
    assert idle_bytes(shared, copied.model) == 0


def test_blocks_that_are_alike_are_compiled_once_and_eager_is_not() -> None:
    forget_compiled()
    subject = stack_subject()
    case_order = order("stack", variant="regional")
    copied = transformed(subject, case_order.workload.transform)
    case = order("stack", variant="aot_eager").case
    forward = compile_model(copied.model, case=case, workload=case_order.workload)
    with torch.no_grad():
        expected = subject.model(**subject.inputs)
        assert read_counts().num_graphs == 0
        torch.testing.assert_close(forward(**subject.inputs), expected)
    counts = read_counts()
    assert (counts.num_graphs, counts.num_recompiles) == (1, 0)
    forget_compiled()


def test_checkpoints_keep_less_and_give_the_same_gradients() -> None:
    subject = stack_subject(phase=Phase.TRAINING, num_rows=512)
    copied = transformed(subject, CHECKPOINTED)
    results = [item.result(item.model) for item in (subject, copied)]
    torch.testing.assert_close(results[0].parts, results[1].parts)
    plain, checkpointed = (
        cpu_peak_bytes(item.step(item.model), alive=item.alive()) for item in (subject, copied)
    )
    # Of four blocks the inside of one is there at a time.
    assert checkpointed < 0.7 * plain


def test_only_the_variant_has_the_fused_optimizer() -> None:
    subject = stack_subject(phase=Phase.TRAINING)
    copied = transformed(subject, FUSED)
    assert subject.optimizer is not None
    assert copied.optimizer is not None
    assert not subject.optimizer.defaults["fused"]
    assert copied.optimizer.defaults["fused"] is True
    before = [parameter.clone() for parameter in subject.model.parameters()]
    copied.step(copied.model)()
    assert copied.optimizer.state
    assert not subject.optimizer.state
    torch.testing.assert_close(before, list(subject.model.parameters()))


@pytest.mark.nightly
def test_a_checkpointed_case_needs_less_memory_than_eager(executor: LocalExecutor) -> None:
    config = {"rows": 1024}
    result = executor.execute(
        order("stack", variant="checkpointing", phase=Phase.TRAINING, config=config)
    )
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
    assert median(result, "graph_breaks") == 0
    assert median(result, "compression_ratio") > 1.2
