"""The eager oracle that the variants of a model share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.accuracy import oracle_cache
from compile_hud.runner.measure.accuracy.oracle_cache import check_against, find_reference
from compile_hud.runner.measure.accuracy.step import make_reference
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.messages import LaunchRequest, MeasureSettings, RawMetric, Workload
from tests.support.builders import make_case

CPU = Device(kind="cpu", num_threads=1)


class Small(nn.Module):
    """A layer with a buffer, and state that is neither parameter nor buffer."""

    def __init__(self, *, weight: float = 0.5, hidden: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(16, 8)
        self.register_buffer("scale", torch.tensor(weight))
        self.hidden = hidden

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.linear(x) * self.scale * self.hidden
        return y, y.argmax(-1)


def context_of(
    folder: Path | str,
    *,
    model: nn.Module | None = None,
    shift: float = 0.0,
    variant: str = "eager",
) -> Context:
    subject = Subject(
        model=Small() if model is None else model,
        inputs={"x": torch.linspace(-1, 1, 64).reshape(4, 16) + shift},
        phase=Phase.INFERENCE,
        dtype=Dtype.FP32,
        device=CPU,
        loss=mean_square,
    )
    backend = "eager" if variant == "eager" else "inductor"
    request = LaunchRequest(
        case=make_case(mode=variant, backend=backend),
        workload=Workload(build="small", config={"a": 1}, num_samples=4, num_tokens=None),
        settings=MeasureSettings(),
        launch=0,
        cache_dir="",
        report_path="",
        log_path="",
        oracle_dir=str(folder),
    )
    return Context(request=request, subject=subject, device=CPU, log=StepLog(), findings=Findings())


def origin(context: Context) -> str:
    find_reference(context)
    return str(context.findings.details["oracle"])


def accuracy(context: Context) -> dict[str, RawMetric]:
    model = context.subject.model
    reference = find_reference(context)

    def rounded(x: Tensor) -> tuple[Tensor, Tensor]:
        y, index = model(x)
        return y + 1e-8, index

    assert check_against(context, rounded, reference=reference) == ""
    return context.findings.metrics


def test_a_variant_takes_the_oracle_of_eager_and_finds_the_same_bits(tmp_path: Path) -> None:
    assert origin(context_of(tmp_path)) == "computed"
    shared = context_of(tmp_path, variant="default")
    own = context_of("", variant="default")
    assert accuracy(shared) == accuracy(own)
    assert accuracy(own)
    assert (shared.findings.details["oracle"], own.findings.details["oracle"]) == (
        "shared",
        "computed",
    )


def test_a_shared_reference_is_the_computed_one_to_the_bit(tmp_path: Path) -> None:
    computed = find_reference(context_of(tmp_path))
    shared = find_reference(context_of(tmp_path))
    for ours, theirs in ((shared.oracle, computed.oracle), (shared.eager, computed.eager)):
        assert ours.layout == theirs.layout
        assert torch.equal(ours.parts["outputs.0"], theirs.parts["outputs.0"])
        assert torch.equal(ours.discrete["outputs.1"], theirs.discrete["outputs.1"])
    assert shared.spread == computed.spread


def with_case(context: Context, **changes: object) -> Context:
    request = replace(context.request, case=make_case(**changes))  # type: ignore[arg-type]
    return replace(context, request=request)


def with_config(context: Context) -> Context:
    workload = replace(context.request.workload, config={"a": 2})
    return replace(context, request=replace(context.request, workload=workload))


@pytest.mark.parametrize(
    "other",
    [
        lambda folder: context_of(folder, model=Small(weight=0.25)),
        lambda folder: context_of(folder, shift=1.0),
        lambda folder: with_case(context_of(folder), phase=Phase.TRAINING),
        lambda folder: with_case(context_of(folder), dtype=Dtype.BF16),
        lambda folder: with_config(context_of(folder)),
    ],
    ids=["weights", "inputs", "phase", "dtype", "config"],
)
def test_another_subject_has_an_oracle_of_its_own_and_takes_the_place(
    tmp_path: Path, other: Callable[[Path], Context]
) -> None:
    assert origin(context_of(tmp_path)) == "computed"
    assert origin(other(tmp_path)) == "computed"
    assert len(list(tmp_path.iterdir())) == 1
    assert origin(other(tmp_path)) == "shared"


@pytest.mark.parametrize("keep", [0, 20, 200, -1])
def test_a_cut_file_means_computing_it_again(tmp_path: Path, keep: int) -> None:
    origin(context_of(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:keep])
    assert origin(context_of(tmp_path)) == "computed"
    assert origin(context_of(tmp_path)) == "shared"


def test_a_changed_byte_means_computing_it_again(tmp_path: Path) -> None:
    origin(context_of(tmp_path))
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert origin(context_of(tmp_path)) == "computed"


def test_nothing_is_inaccurate_by_a_shared_oracle_alone(tmp_path: Path) -> None:
    find_reference(context_of(tmp_path, model=Small(hidden=1.0)))
    context = context_of(tmp_path, model=Small(hidden=2.0), variant="default")
    reference = find_reference(context)
    assert context.findings.details["oracle"] == "shared"
    assert check_against(context, context.subject.model, reference=reference) == ""
    assert context.findings.details["oracle"] == "computed"
    assert context.findings.metrics["cosine_similarity"].samples[0] > 0.999


def test_what_is_wrong_stays_inaccurate_with_an_oracle_of_its_own(tmp_path: Path) -> None:
    find_reference(context_of(tmp_path))
    context = context_of(tmp_path, variant="default")
    wrong = Small(hidden=-1.0)
    reason = check_against(context, wrong, reference=find_reference(context))
    assert "cosine similarity" in reason
    assert context.findings.metrics == {}


def test_large_models_and_large_results_share_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(tmp_path)
    reference = make_reference(context.subject)
    state_bytes = oracle_cache._num_bytes(item for _, item in oracle_cache._state(context.subject))
    result_bytes = oracle_cache._num_bytes(oracle_cache._results(reference))
    assert state_bytes > result_bytes > 0
    for limit in (state_bytes - 1, result_bytes - 1):
        monkeypatch.setattr(oracle_cache, "MAX_SHARED_BYTES", limit)
        assert origin(context_of(tmp_path)) == "computed"
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(oracle_cache, "MAX_SHARED_BYTES", state_bytes)
    assert origin(context_of(tmp_path)) == "computed"
    assert origin(context_of(tmp_path)) == "shared"


def test_results_larger_than_the_limit_are_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(tmp_path, model=nn.Identity())
    context.subject.inputs = {"input": torch.ones(64)}
    monkeypatch.setattr(oracle_cache, "MAX_SHARED_BYTES", 64 * 4)
    assert origin(context) == "computed"
    assert list(tmp_path.iterdir()) == []


class Odd(Tensor):
    """A subclass, as libraries make them to keep something else behind a tensor."""


@pytest.mark.parametrize("odd", [torch.eye(4).to_sparse(), torch.ones(4, 16).as_subclass(Odd)])
def test_tensors_that_are_not_plain_bytes_share_nothing(tmp_path: Path, odd: Tensor) -> None:
    context = context_of(tmp_path, model=nn.Identity())
    context.subject.inputs = {"input": odd.to_dense() if odd.is_sparse else odd}
    context.subject.model.register_buffer("odd", odd if odd.is_sparse else None)
    assert origin(context) == "computed"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_costs_nothing_but_the_sharing(tmp_path: Path) -> None:
    assert origin(context_of(tmp_path / "gone")) == "computed"
