"""Changes that are planted in models on a CPU, and what the diff of their kernels says of them."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.codecache import PyCodeCache

from runner.analysis.kernel_change import ChangeKind, KernelChange
from runner.analysis.kernel_diff import KernelDiff, diff_kernels
from runner.analysis.kernel_groups import KernelSide, MatchedBy
from runner.measure.kernels import report_kernels
from runner.measure.provenance import recorded_origins
from runner.protocol import notes_path
from runner.traces.kernels import read_kernels
from runner.traces.notes import KernelNotes
from tests.integration.contexts import make_context

pytestmark = pytest.mark.slow
GELU = nn.functional.gelu
X = torch.linspace(-1, 1, 256 * 32).reshape(256, 32)
NUM_SAMPLES = 20
FUSED = "cpp_fused__softmax_gelu"


class Net(nn.Module):
    """A product, and an activation that Inductor fuses with a softmax."""

    def __init__(self, activation: Callable[[Tensor], Tensor], *, has_break: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 64)
        self.activation = activation
        self.has_break = has_break

    def forward(self, x: Tensor) -> Tensor:
        """Return what comes of `x`."""
        x = self.activation(self.linear(x))
        if self.has_break:
            torch._dynamo.graph_break()
        return torch.softmax(x, -1)


class Convolution(nn.Module):
    """A convolution that two libraries can do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(4, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of `x`."""
        return self.layer(x.reshape(2, 4, 32, 32))


class Bench:
    """Compiles nets and profiles their kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled = self.side(Net(GELU))

    def side(self, net: nn.Module, *, num_calls: int = 1, backend: str = "inductor") -> KernelSide:
        """Return the kernels of `num_calls` calls of `net` an iteration, and their latency."""
        torch._dynamo.reset()
        PyCodeCache.cache_clear()
        context = make_context(net.eval(), {"x": X}, backend=backend)
        path = self.folder / f"{len(list(self.folder.iterdir()))}.json.gz"
        context = replace(context, request=replace(context.request, trace_path=str(path)))
        once: Any = net if context.is_eager else torch.compile(net, dynamic=False)

        def forward(**inputs: Tensor) -> Any:
            return [once(**inputs) for _ in range(num_calls)][-1]

        step = context.step(forward)
        with recorded_origins(context.origins):
            step()
        samples = []
        for _ in range(NUM_SAMPLES):
            start = time.perf_counter()
            step()
            samples.append(time.perf_counter() - start)
        context.found.add("latency_s", samples, method="")
        report_kernels(context, forward)
        notes = KernelNotes.load(notes_path(path))
        latency_s = statistics.median(samples)
        report = read_kernels(path, notes=notes, latency_s=latency_s, peaks={})
        return KernelSide(
            kernels=report.kernels,
            sources={source.hash: source.text for source in report.sources},
            profile=report.profile,
            latency_s=latency_s,
        )


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yield a bench whose kernels are generated anew, so that it is known what they are from."""
    with (
        inductor_config.patch(fx_graph_cache=False),
        functorch_config.patch(enable_autograd_cache=False),
        warnings.catch_warnings(),
    ):
        # Inductor's own modules use what torch is about to drop.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield Bench(tmp_path_factory.mktemp("traces"))
    torch._dynamo.reset()


def rows_of(diff: KernelDiff) -> dict[str, KernelChange]:
    """Return the rows by label, once it is clear that they add up."""
    told_s = sum(row.contribution_s for row in diff.rows)
    assert told_s + diff.unexplained_s == pytest.approx(diff.change_s, abs=1e-9)
    return {row.label: row for row in diff.rows}


def test_another_operator_is_other_code(bench: Bench) -> None:
    diff = diff_kernels(bench.compiled, bench.side(Net(nn.functional.relu)))
    rows = rows_of(diff)
    changed = rows[f"{FUSED} -> cpp_fused__softmax_relu"]
    assert (changed.kind, changed.matched_by) == (ChangeKind.OTHER_CODE, MatchedBy.LIKENESS)
    assert rows["aten::addmm"].matched_by is MatchedBy.CODE_AND_SHAPES
    kinds = [row.kind for row in diff.rows]
    assert not {ChangeKind.NEW, ChangeKind.VANISHED} & {*kinds}


def test_a_graph_break_splits_a_kernel_and_without_it_the_parts_are_merged(bench: Bench) -> None:
    broken = bench.side(Net(GELU, has_break=True))
    split = rows_of(diff_kernels(bench.compiled, broken))[
        f"{FUSED} -> cpp_fused__softmax + cpp_fused_gelu"
    ]
    assert (split.kind, split.matched_by) == (ChangeKind.SPLIT, MatchedBy.NODES_OF_FUSION)
    assert split.text.startswith("2 kernels do what 1 did (gelu, softmax): ")
    merged = rows_of(diff_kernels(broken, bench.compiled))[
        f"cpp_fused__softmax + cpp_fused_gelu -> {FUSED}"
    ]
    assert (merged.kind, merged.contribution_s) == (ChangeKind.MERGED, -split.contribution_s)


def test_threads_are_other_code_of_the_same_kernel(bench: Bench) -> None:
    with inductor_config.patch({"cpp.threads": 2, "cpp.min_chunk_size": 1}):
        threaded = bench.side(Net(GELU))
    row = rows_of(diff_kernels(bench.compiled, threaded))[FUSED]
    assert (row.kind, row.matched_by) == (ChangeKind.OTHER_CODE, MatchedBy.NAME_AND_SHAPES)
    assert "omp parallel" in threaded.sources[row.candidate[0].source_hash]


def test_the_same_code_compiled_again_and_called_twice_is_called_more_often(bench: Bench) -> None:
    twice = rows_of(diff_kernels(bench.compiled, bench.side(Net(GELU), num_calls=2)))
    assert twice[FUSED].text.startswith("Same code;")
    assert "called 1 -> 2 times an iteration" in twice[FUSED].text
    assert [kernel.count for kernel in twice[FUSED].candidate] == [2]
    # What counts more, calls or time of one, a busy machine decides; that it counts is certain.
    assert twice[FUSED].count_s is not None
    assert twice[FUSED].count_s > 0


def test_eager_operators_are_merged_by_compiling(bench: Bench) -> None:
    eager = bench.side(Net(GELU), backend="eager")
    row = rows_of(diff_kernels(eager, bench.compiled))[f"aten::_softmax + aten::gelu -> {FUSED}"]
    assert (row.kind, row.matched_by) == (ChangeKind.MERGED, MatchedBy.WORDS_OF_FUSION)


# The switch sets all of oneDNN's flags, and one of them is for Intel's GPUs.
@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_a_convolution_without_onednn_is_another_algorithm(bench: Bench) -> None:
    onednn = bench.side(Convolution(), backend="eager")
    with torch.backends.mkldnn.flags(enabled=False):
        other = bench.side(Convolution(), backend="eager")
    row = rows_of(diff_kernels(onednn, other))[
        "aten::mkldnn_convolution -> aten::_slow_conv2d_forward"
    ]
    assert row.kind is ChangeKind.OTHER_ALGORITHM
    assert row.text.startswith("onednn before, aten now: ")
