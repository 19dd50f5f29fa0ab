"""The bytes and operations of generated kernels, each against a count by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import config
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.utils import get_code

from compile_hud.runner.measure.kernels import provenance
from compile_hud.runner.measure.kernels.loop_costs import LoopWork, work_of_loops
from compile_hud.runner.measure.kernels.provenance import Origins, recorded_origins

# Inductor's own modules use what torch is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
FLOAT, LONG = 4, 8


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Let nothing come from an earlier compilation."""
    torch._dynamo.reset()
    with torch.no_grad(), config.patch(fx_graph_cache=False):
        yield


def works_of(function: Callable[..., Any], *inputs: Any) -> list[LoopWork | None]:
    """Return the work of each kernel that Inductor writes for `function`; it compiles none."""
    origins: Origins = {}
    with recorded_origins(origins):
        get_code(torch.compile(function), *inputs)
    return [graph.work for graphs in origins.values() for graph in graphs]


def test_what_is_changed_in_place_is_read_and_written() -> None:
    def forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ weight)

    # 0.5 x (1 + erf(0.7 x)) are five operators.
    assert works_of(forward, torch.ones(64, 128), torch.ones(128, 256)) == [
        LoopWork(num_bytes=2 * 64 * 256 * FLOAT, flops=5 * 64 * 256)
    ]


def test_of_a_table_the_rows_are_read_that_are_looked_up() -> None:
    def forward(
        words: torch.Tensor, places: torch.Tensor, word: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        return torch.nn.functional.embedding(word, words) + torch.nn.functional.embedding(
            position, places
        )

    # Each of 4 x 16 words has its row; the 16 rows of places are the same for all 4.
    assert works_of(
        forward,
        torch.ones(30_000, 32),
        torch.ones(512, 32),
        torch.zeros(4, 16, dtype=torch.int64),
        torch.zeros(1, 16, dtype=torch.int64),
    ) == [
        LoopWork(
            num_bytes=(64 + 16) * LONG + (64 + 16 + 64) * 32 * FLOAT,
            flops=64 * 32,
        )
    ]


def test_more_rows_than_a_table_has_are_not_read() -> None:
    def forward(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(places, table)

    assert works_of(forward, torch.ones(2, 32), torch.zeros(64, dtype=torch.int64)) == [
        LoopWork(num_bytes=64 * LONG + (2 + 64) * 32 * FLOAT, flops=None)
    ]


def test_of_a_broadcast_what_is_there_is_read() -> None:
    def forward(bias: torch.Tensor) -> torch.Tensor:
        return bias.expand(256, 1000).contiguous()

    assert works_of(forward, torch.ones(1000)) == [
        LoopWork(num_bytes=(1 + 256) * 1000 * FLOAT, flops=None)
    ]


def test_of_a_slice_only_its_part_is_read() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x[:10].exp()

    assert works_of(forward, torch.ones(64, 128)) == [
        LoopWork(num_bytes=2 * 10 * 128 * FLOAT, flops=10 * 128)
    ]


def test_windows_that_overlap_read_no_more_than_there_is() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(x, 3, 1, 1)

    # Of nine values the largest takes eight comparisons.
    assert works_of(forward, torch.ones(1, 3, 16, 16)) == [
        LoopWork(num_bytes=2 * 3 * 16 * 16 * FLOAT, flops=8 * 3 * 16 * 16)
    ]


def test_a_reduction_has_an_operation_for_each_element_that_it_takes() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return (x * 3).sum()

    assert works_of(forward, torch.ones(64, 128)) == [
        LoopWork(num_bytes=(64 * 128 + 1) * FLOAT, flops=2 * 64 * 128)
    ]


def test_what_a_kernel_wrote_itself_it_does_not_read_from_elsewhere() -> None:
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x.sum()

    (work,) = works_of(forward, torch.ones(1000, 8), torch.ones(1000, 8))
    assert work is not None
    assert work.num_bytes == (3 * 8000 + 1) * FLOAT


def test_rows_that_are_added_to_are_read_and_written() -> None:
    def forward(x: torch.Tensor, rows: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.index_add_(0, rows, y)

    inputs = torch.ones(1000, 8), torch.zeros(16, dtype=torch.int64), torch.ones(16, 8)
    assert works_of(forward, *inputs) == [
        LoopWork(num_bytes=16 * LONG + 3 * 16 * 8 * FLOAT, flops=16 * 8)
    ]


def test_a_bounds_check_is_no_operation() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(x, (1, 1)).exp()

    assert works_of(forward, torch.ones(64, 128)) == [
        LoopWork(num_bytes=64 * (128 + 130) * FLOAT, flops=64 * 130)
    ]


def test_a_dynamic_size_is_the_one_that_was_compiled_for() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    origins: Origins = {}
    with recorded_origins(origins):
        torch.compile(forward, dynamic=True)(torch.ones(64, 128))
    ((size,),) = origins.values()
    assert size.work == LoopWork(num_bytes=2 * 64 * 128 * FLOAT, flops=64 * 128)


def test_the_kernel_that_is_handed_over_for_triton_is_counted_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    define = CppScheduling.define_kernel

    def define_both(self: Any, code: str, nodes: Any, *others: Any) -> str:
        kernel = SimpleNamespace(args=self.kernel_group.args)
        # Between the nodes Triton has marks of where a reduction ends.
        TritonScheduling.define_kernel(self, code, [*nodes, object()], kernel)
        return str(define(self, code, nodes, *others))

    def name_of(*_args: Any) -> str:
        return "triton_poi_fused_exp_0"

    monkeypatch.setattr(TritonScheduling, "define_kernel", name_of)
    monkeypatch.setattr(CppScheduling, "define_kernel", define_both)
    triton, cpp = works_of(torch.exp, torch.ones(64, 128))
    assert triton == cpp == LoopWork(num_bytes=2 * 64 * 128 * FLOAT, flops=64 * 128)


def test_code_that_is_called_with_several_sizes_has_no_one_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works = iter([LoopWork(num_bytes=1.0, flops=None), LoopWork(num_bytes=2.0, flops=None)])
    monkeypatch.setattr(CppScheduling, "define_kernel", lambda *_given: "cpp_0")
    monkeypatch.setattr(provenance, "graph_number", lambda: 1)
    monkeypatch.setattr(provenance, "work_of_loops", lambda *_given, **_options: next(works))
    origins: Origins = {}
    with recorded_origins(origins):
        CppScheduling.define_kernel(None, "code", [], object())
        assert origins["cpp_0"][0].work == LoopWork(num_bytes=1.0, flops=None)
        CppScheduling.define_kernel(None, "code", [], object())
    assert origins["cpp_0"][0].work is None


def test_a_product_from_a_template_has_its_own_operations_and_those_of_what_follows() -> None:
    options = {"max_autotune": True, "max_autotune_gemm_backends": "CPP", "freezing": True}
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU()).eval()
    with config.patch(options):
        (work,) = works_of(model, torch.ones(16, 32))
    assert work == LoopWork(
        num_bytes=(16 * 32 + 32 * 64 + 64 + 16 * 64) * FLOAT,
        # The bias, then what is below 0.
        flops=2 * 16 * 32 * 64 + 2 * 16 * 64,
        dtype="float32",
    )


def test_nodes_of_another_shape_raise_and_give_no_number() -> None:
    with pytest.raises(AttributeError):
        work_of_loops([], arguments=None)
