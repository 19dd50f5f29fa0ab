"""The holders of memory at the peak, against bytes counted by hand."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from compile_hud.db.records.memory.peak import (
    MAX_HOLDERS,
    MEMORY_PEAK,
    HolderKind,
    MemoryHolder,
    PeakHolders,
    memory_peak_of,
)
from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.kernels.library_calls import recorded_library_calls
from compile_hud.runner.measure.kernels.provenance import recorded_origins
from compile_hud.runner.measure.resources import memory_holders
from compile_hud.runner.measure.resources.allocation_events import (
    AllocationEvent,
    RecordedAllocations,
    read_allocations,
)
from compile_hud.runner.measure.resources.compiled_buffers import BufferUse
from compile_hud.runner.measure.resources.memory import report_memory
from compile_hud.runner.measure.resources.memory_holders import (
    OTHER,
    alive_at_peak,
    holders_at_peak,
    is_explained,
    report_holders,
)
from tests.support.runs.launch_contexts import forget_compiled, make_context

FLOAT_BYTES = 4
BATCH, WIDTH, LEFT, RIGHT = 64, 16, 32, 32


class TwoTemporaries(nn.Module):
    """Two products of known size that are alive together; `is_planted` adds one more."""

    def __init__(self, *, is_planted: bool = False) -> None:
        super().__init__()
        self.left = nn.Linear(WIDTH, LEFT, bias=False)
        self.right = nn.Linear(WIDTH, RIGHT, bias=False)
        self.is_planted = is_planted

    def forward(self, x: Tensor) -> Tensor:
        left = self.left(x)
        right = self.right(x)
        if self.is_planted:
            planted = torch.exp(left)
            return torch.cat([left.sum(dim=1), right.sum(dim=1), planted.sum(dim=1)])
        return torch.cat([left.sum(dim=1), right.sum(dim=1)])


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    forget_compiled()
    yield
    forget_compiled()


def context_of(
    model: nn.Module, *, backend: str = "eager", phase: Phase = Phase.INFERENCE
) -> Context:
    context = make_context(model, {"x": torch.ones(BATCH, WIDTH)}, backend=backend, phase=phase)
    request = dataclasses.replace(context.request, trace_path="trace.json")
    return dataclasses.replace(context, request=request)


def peak_after(context: Context, forward: Forward) -> PeakHolders:
    report_holders(context, forward)
    peak = memory_peak_of(context.findings.details)
    assert peak is not None
    return peak


def bytes_by_holder(peak: PeakHolders) -> dict[tuple[str, str], int]:
    return {(item.operator, item.module): item.num_bytes for item in peak.holders}


BEFORE = {
    ("parameters", ""): (LEFT + RIGHT) * WIDTH * FLOAT_BYTES,
    ("inputs", ""): BATCH * WIDTH * FLOAT_BYTES,
}
PRODUCTS = {
    ("aten::mm", "left"): BATCH * LEFT * FLOAT_BYTES,
    ("aten::mm", "right"): BATCH * RIGHT * FLOAT_BYTES,
}
# At the peak the sums of rows are alive, or one of them and their concatenation.
SUM = BATCH * FLOAT_BYTES


def test_two_temporaries_and_all_that_was_alive_before_are_the_peak() -> None:
    context = context_of(TwoTemporaries())
    peak = peak_after(context, context.subject.model)
    sums = {("aten::sum", ""): 2 * SUM, ("aten::cat", ""): 2 * SUM}
    assert bytes_by_holder(peak) == {**BEFORE, **PRODUCTS, **sums}
    report_memory(context, context.subject.model)
    assert context.findings.metrics["peak_bytes"].samples == (peak.num_bytes,)


def test_a_planted_temporary_is_the_only_holder_that_is_new() -> None:
    plain, planted = (TwoTemporaries(is_planted=is_planted) for is_planted in (False, True))
    before, after = (
        bytes_by_holder(peak_after(context_of(model), model)) for model in (plain, planted)
    )
    assert after.keys() - before.keys() == {("aten::exp", "")}
    assert after["aten::exp", ""] == BATCH * LEFT * FLOAT_BYTES


def test_a_module_of_torch_has_the_line_that_calls_it() -> None:
    model = TwoTemporaries()
    peak = peak_after(context_of(model), model)
    lines = {item.module: item.short_line for item in peak.holders if item.module}
    text = Path(__file__).read_text(encoding="ascii").splitlines()
    calls = {path: f"{path} = self.{path}(x)" for path in ("left", "right")}
    assert lines == {
        path: f"{Path(__file__).name}:{1 + [line.strip() for line in text].index(call)}"
        for path, call in calls.items()
    }


def compiled_peak(context: Context) -> PeakHolders:
    with warnings.catch_warnings():
        # Inductor's own modules use what torch is about to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        forward = torch.compile(context.subject.model)
        with (
            recorded_origins(context.origins),
            recorded_library_calls(context.library_calls, lines=context.call_lines),
        ):
            context.step(forward)()
    peak = peak_after(context, forward)
    report_memory(context, forward)
    assert context.findings.metrics["peak_bytes"].samples == (peak.num_bytes,)
    return peak


def test_buffers_of_compiled_code_have_their_kernel_and_library_call() -> None:
    peak = compiled_peak(context_of(TwoTemporaries(), backend="inductor"))
    rows = bytes_by_holder(peak)
    left = ("aten::mm", "left")
    assert rows.items() >= {**BEFORE, left: PRODUCTS[left]}.items()
    (kernel,) = [item for item in peak.holders if item.operator.startswith("cpp_fused")]
    assert kernel.short_line.startswith(Path(__file__).name)
    assert sum(rows.values()) == peak.num_bytes


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_training_sums_to_the_measured_peak(backend: str) -> None:
    context = context_of(TwoTemporaries(), backend=backend, phase=Phase.TRAINING)
    model = context.subject.model
    context.step(model)()
    if backend == "inductor":
        peak = compiled_peak(context)
    else:
        peak = peak_after(context, model)
        report_memory(context, model)
        assert context.findings.metrics["peak_bytes"].samples == (peak.num_bytes,)
    roles = {item.operator for item in peak.holders if item.kind is HolderKind.BEFORE}
    assert roles == {"parameters", "inputs", "optimizer state"}


def test_backward_has_the_module_of_its_forward_operator() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 512, bias=False), nn.Linear(512, 512, bias=False))
    context = make_context(
        nn.ModuleDict({"body": model})["body"],
        {"input": torch.ones(4, WIDTH)},
        backend="eager",
        phase=Phase.TRAINING,
    )
    context.step(context.subject.model)()
    peak = peak_after(context, context.subject.model)
    gradient = next(item for item in peak.holders if item.operator == "MmBackward0: aten::mm")
    assert (gradient.module, gradient.num_bytes) == ("1", 512 * 512 * FLOAT_BYTES)


def event(
    address: int, num_bytes: int, *stack: str, time_ns: int = 0, number: int = -1
) -> AllocationEvent:
    return AllocationEvent(
        time_ns=time_ns, address=address, num_bytes=num_bytes, stack=stack, number=number
    )


def peak_of(events: Sequence[AllocationEvent], **options: int) -> PeakHolders:
    recorded = RecordedAllocations(events=tuple(events), modules={})
    settings = {"in_use": 100, "pools": 0, **options}
    return holders_at_peak(recorded, before={"parameters": 60}, uses={}, lines={}, **settings)


def test_what_is_alive_at_the_first_highest_balance_counts() -> None:
    events = [event(1, 50), event(2, 50), event(1, -50), event(3, 50), event(3, -50), event(2, -50)]
    alive, freed = alive_at_peak(events)
    assert ([item.address for item in alive], freed) == ([1, 2], 0)


def test_an_iteration_that_only_frees_has_its_peak_before() -> None:
    alive, freed = alive_at_peak([event(9, -10), event(1, 5), event(1, -5)])
    assert (alive, freed) == ([], 0)


def test_earlier_memory_that_was_freed_by_the_peak_is_not_alive() -> None:
    peak = peak_of([event(9, -30), event(1, 80, "aten::mm")])
    assert bytes_by_holder(peak) == {
        ("aten::mm", ""): 80,
        ("parameters", ""): 60,
        (OTHER, ""): 10,
    }
    assert peak.num_bytes == 100 - 30 + 80


def test_pools_of_cuda_graphs_are_a_row_of_their_own() -> None:
    peak = peak_of([event(1, 8, "aten::mm")], in_use=100, pools=30)
    by_kind = {item.kind: item.num_bytes for item in peak.holders if item.operator != "parameters"}
    assert by_kind == {HolderKind.GRAPHS: 30, HolderKind.OPERATOR: 8, HolderKind.BEFORE: 10}
    assert peak.num_bytes == 108


def test_smaller_holders_share_one_row_and_no_byte_is_lost() -> None:
    events = [event(number, 1 + number, f"aten::op{number}") for number in range(MAX_HOLDERS + 5)]
    peak = peak_of(events)
    rest = peak.rest
    assert rest is not None
    assert (rest.num_bytes, rest.count) == (1 + 2 + 3 + 4 + 5, 5)
    assert sum(item.kind is HolderKind.OPERATOR for item in peak.holders) == MAX_HOLDERS
    assert peak.num_bytes == 100 + sum(item.num_bytes for item in events)
    assert sum(peak.share(item) for item in peak.holders) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("stack", "operator"),
    [
        (("aten::linear", "aten::addmm"), "aten::addmm"),
        (("aten::ones_like", "aten::empty_like", "aten::empty_strided"), "aten::ones_like"),
        (("aten::empty",), "aten::empty"),
        (("hud/iteration", "hud/module:a"), "outside of operators"),
        ((), "outside of operators"),
        (("Torch-Compiled Region: 0/1", "## Call CompiledFxGraph fabc ##"), "compiled code"),
        (
            ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0", "aten::mm"),
            "AddmmBackward0: aten::mm",
        ),
        (
            ("autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0"),
            "AddmmBackward0",
        ),
        (
            ("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "aten::clone"),
            "AccumulateGrad: aten::clone",
        ),
    ],
)
def test_the_operator_is_the_innermost_that_uses_the_memory(
    stack: tuple[str, ...], operator: str
) -> None:
    assert event(1, 1, *stack).operator == operator


def test_a_buffer_has_the_name_of_its_use() -> None:
    recorded = RecordedAllocations(events=(event(1, 8, "x", "hud/buffer:3"),), modules={})
    use = BufferUse(operator="triton_poi_fused_add", module="norm", line="model.py:3")
    peak = holders_at_peak(recorded, before={}, in_use=0, uses={3: use}, lines={})
    assert peak.holders == (
        MemoryHolder(
            kind=HolderKind.OPERATOR,
            operator="triton_poi_fused_add",
            module="norm",
            line="model.py:3",
            num_bytes=8,
            count=1,
        ),
    )


def test_backward_without_a_range_has_the_module_by_its_number() -> None:
    recorded = RecordedAllocations(events=(event(1, 8, "x", number=7),), modules={7: "layers.0"})
    peak = holders_at_peak(recorded, before={}, in_use=0, uses={}, lines={"layers.0": "model.py:9"})
    assert [(item.module, item.line) for item in peak.holders] == [("layers.0", "model.py:9")]


def test_holders_are_recorded_with_kernels_where_torch_allocates() -> None:
    context = context_of(TwoTemporaries())
    assert is_explained(context)
    for changes in ({"trace_path": ""}, {"is_watched": True}):
        request = dataclasses.replace(context.request, **changes)
        assert not is_explained(dataclasses.replace(context, request=request))
    case = dataclasses.replace(context.request.case, backend="onnxruntime")
    request = dataclasses.replace(context.request, case=case)
    assert not is_explained(dataclasses.replace(context, request=request))


class OtherProfile:
    """A profile of a torch whose events have no tree."""

    def __init__(self) -> None:
        self.profiler = self
        self.kineto_results = object()


def test_a_torch_without_the_tree_of_events_is_named() -> None:
    with pytest.raises(RuntimeError, match="experimental_event_tree"):
        read_allocations(OtherProfile(), device="cpu")  # type: ignore[arg-type]


class FakeMemory:
    """torch.cuda's allocator with 10,000 bytes in use and a pool that is free by 200."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 10_000)
        segment = {"total_size": 300, "allocated_size": 100, "segment_pool_id": (0, 1)}
        monkeypatch.setattr(torch.cuda, "memory_snapshot", lambda: [segment])


def test_cuda_begins_with_the_bytes_in_use_and_the_free_part_of_the_pools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FakeMemory(monkeypatch)
    allocations = RecordedAllocations(events=(event(1, 512, "aten::mm"),), modules={})
    monkeypatch.setattr(memory_holders, "read_allocations", lambda *_, **__: allocations)
    context = context_of(TwoTemporaries())
    on_cuda = dataclasses.replace(context, device=Device(kind="cuda", num_threads=1))
    report_holders(on_cuda, context.subject.model)
    peak = memory_peak_of(context.findings.details)
    assert peak is not None
    assert peak.num_bytes == 10_000 + 200 + 512
    assert context.findings.details[MEMORY_PEAK]["peak_bytes"] == peak.num_bytes
    assert (HolderKind.GRAPHS, 300) in [(item.kind, item.num_bytes) for item in peak.holders]
