"""Planted changes of models on a CPU, and their classes in the diff of kernels.

Each class of a change is planted in code that is compiled here, except those that need a GPU:

- another configuration of a Triton kernel (`num_warps`, `num_stages`, the grid). Of Inductor's C++
  kernels only products have a choice, their blocks;
- the same code compiled to more registers, and kernels that ran at once;
- another algorithm within one library. A trace of a CPU ends at the operator, so another kernel of
  oneDNN or MKL looks like the same one, slower or faster.

tests/unit/runner/analysis/kernels/test_diff.py has these from records.
"""

from __future__ import annotations

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

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import KernelDiff, diff_kernels
from compile_hud.runner.analysis.kernels.grouping import KernelSide, MatchedBy
from compile_hud.runner.measure.kernels.profile_step import report_kernels
from compile_hud.runner.measure.kernels.provenance import recorded_origins
from compile_hud.runner.protocol.messages import notes_path
from compile_hud.runner.traces.profile import KernelReport, load_kernel_notes, read_kernels
from tests.support.runs.launch_contexts import forget_compiled, make_context

pytestmark = pytest.mark.slow
GELU = nn.functional.gelu
X = torch.linspace(-1, 1, 256 * 32).reshape(256, 32)
# Its entries are in no cache, and so many are looked up that nothing else takes long.
TABLE_LENGTH, NUM_LOOKUPS = 2**25, 2**16
NUM_SAMPLES = 20
# On a busy machine all calls of a recording may have to wait, but those of two that agree have not.
MIN_RECORDINGS, MAX_RECORDINGS = 3, 20
AGREEMENT = 1.2
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


class Stack(nn.Module):
    """Layers that are all alike."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(num_layers))

    def forward(self, x: Tensor) -> Tensor:
        """Return what comes of `x`."""
        for layer in self.layers:
            x = GELU(layer(x))
        return x


class Encoder(nn.Module):
    """What BERT consists of but for attention: embeddings, residual layers and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(64, 32), nn.Embedding(32, 32)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(5))

    def forward(self, x: Tensor) -> Tensor:
        """Return what comes of the tokens `x`."""
        places = torch.arange(x.shape[1])
        first, *norms, last = self.norms
        x = first(self.tokens(x) + self.places(places))
        for layer, norm in zip(self.layers, norms, strict=True):
            x = norm(x + layer(x))
        return last(GELU(x))


class Sorted(Net):
    """The same with two kernels more, a library's and a generated one."""

    def forward(self, x: Tensor) -> Tensor:
        """Return what comes of `x`."""
        return torch.sort(super().forward(x)).values.sigmoid()


class Attention(nn.Module):
    """Layers of attention, each in one operator or in its parts."""

    def __init__(self, *, is_apart: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 96) for _ in range(2))
        self.is_apart = is_apart

    def forward(self, x: Tensor) -> Tensor:
        """Return what comes of the tokens `x`."""
        for layer in self.layers:
            inputs = layer(x).reshape(1, len(x), 3, 2, 16).permute(2, 0, 3, 1, 4)
            x = self.attend(*inputs).transpose(1, 2).reshape(len(x), 32)
        return x

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the attention of four dimensions."""
        if not self.is_apart:
            return nn.functional.scaled_dot_product_attention(query, key, value)
        scores = query @ key.transpose(-1, -2) / 4.0
        return torch.softmax(scores, -1) @ value


class Lookup(nn.Module):
    """A table in which `x` is looked up: how long it takes depends on what is in `x`."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Buffer(torch.ones(TABLE_LENGTH))

    def forward(self, x: Tensor) -> Tensor:
        """Return twice the entries of the table at `x`."""
        return self.table[x] * 2


class Bench:
    """Compiles nets and profiles their kernels."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled = self.side(Net(GELU))

    def side(
        self,
        net: nn.Module,
        *,
        x: Tensor = X,
        num_calls: int = 1,
        backend: str = "inductor",
    ) -> KernelSide:
        """Return the kernels of `num_calls` calls of `net` an iteration, and their latency."""
        forget_compiled()
        context = make_context(net.eval(), {"x": x}, backend=backend)
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
        context.findings.add("latency_s", samples, method="")
        # As of kernels, see below.
        latency_s = min(samples)

        def record() -> KernelReport:
            report_kernels(context, forward)
            notes = load_kernel_notes(notes_path(path))
            return read_kernels(path, notes=notes, latency_s=latency_s, peaks={})

        reports = sorted((record() for _ in range(MIN_RECORDINGS)), key=fastest_s)
        while len(reports) < MAX_RECORDINGS and not is_settled(reports):
            reports = sorted([*reports, record()], key=fastest_s)
        report = reports[0]
        return KernelSide(
            kernels=tuple(map(undisturbed, report.kernels)),
            sources={source.hash: source.text for source in report.sources},
            profile=report.profile,
            latency_s=latency_s,
        )


def fastest_s(report: KernelReport) -> float:
    """Return how long an iteration takes whose calls all are as fast as their fastest."""
    return sum(kernel.count * kernel.min_s for kernel in report.kernels)


def is_settled(reports: list[KernelReport]) -> bool:
    """Return whether the second fastest of `reports` says the same as the fastest, the first."""
    first, second = (fastest_s(report) for report in reports[:2])
    return second <= AGREEMENT * first


def undisturbed(kernel: Kernel) -> Kernel:
    """Return `kernel` as if each call were as fast as its fastest: a busy machine plants nothing.

    A call that has to wait for the core takes a thousand times as long as the others.
    """
    return replace(kernel, mean_s=kernel.min_s, total_s=kernel.count * kernel.min_s)


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
    forget_compiled()


def diff_of_kernels(baseline: KernelSide, candidate: KernelSide) -> KernelDiff:
    """Return the diff without the latencies: on a busy machine they say what it disturbed."""
    sides = (replace(side, latency_s=None) for side in (baseline, candidate))
    return diff_kernels(*sides)


def rows_of(diff: KernelDiff) -> dict[str, KernelChange]:
    """Return the rows by label, once it is clear that they add up."""
    total_s = sum(row.contribution_s for row in diff.rows)
    assert total_s + diff.unexplained_s == pytest.approx(diff.change_s, abs=1e-9)
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
    assert (len(split.baseline), len(split.candidate)) == (1, 2)
    assert " (gelu, softmax): " in split.text
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
    assert " 1 -> 2 times" in twice[FUSED].text
    assert [kernel.count for kernel in twice[FUSED].candidate] == [2]


def test_layers_more_call_the_kernels_of_a_layer_more_often(bench: Bench) -> None:
    shallow, deep = bench.side(Stack(1)), bench.side(Stack(4))
    rows = rows_of(diff_kernels(shallow, deep))
    fewer = rows_of(diff_kernels(deep, shallow))
    for label in ("cpp_fused_gelu", "aten::addmm"):
        assert rows[label].kind is ChangeKind.MORE_OFTEN
        assert " 1 -> 4 times" in rows[label].text
        assert fewer[label].kind is ChangeKind.LESS_OFTEN


def test_lookups_that_miss_every_cache_are_the_same_code_slower(bench: Bench) -> None:
    net = Lookup()
    random = torch.Generator().manual_seed(0)
    # On a busy machine each call of two threads waits for the second one, whatever it looks up.
    with inductor_config.patch({"cpp.threads": 1}):
        near = bench.side(net, x=torch.zeros(NUM_LOOKUPS, dtype=torch.int64))
        far = bench.side(net, x=torch.randint(TABLE_LENGTH, (NUM_LOOKUPS,), generator=random))
    diff = diff_of_kernels(near, far)
    row = rows_of(diff)["cpp_fused_index_mul"]
    assert (row.kind, row.matched_by) == (ChangeKind.SLOWER, MatchedBy.CODE_AND_SHAPES)
    assert row.baseline[0].source_hash == row.candidate[0].source_hash != ""
    assert row.text.startswith("Same code; +")
    # No recording is held against latencies: those were taken at another time, and what waits for
    # memory takes ten times as long when others wait for it too.
    (hit,), (missed,) = row.baseline, row.candidate
    assert row.contribution_s == missed.total_s - hit.total_s > 0.5 * missed.total_s
    assert far.profile is not None
    assert 0 < missed.total_s < far.profile.iteration_s
    faster = rows_of(diff_of_kernels(far, near))["cpp_fused_index_mul"]
    assert (faster.kind, faster.contribution_s) == (ChangeKind.FASTER, -row.contribution_s)


def test_other_blocks_of_a_product_are_the_same_code_in_another_configuration(
    bench: Bench,
) -> None:
    # Only constant weights can be packed as the templates want them.
    options = {"max_autotune": True, "max_autotune_gemm_backends": "CPP", "freezing": True}
    with inductor_config.patch(options):
        chosen = bench.side(Stack(1))
        with inductor_config.patch({"cpp.gemm_cache_blocking": "1,1,1"}):
            narrow = bench.side(Stack(1))
    (row,) = [
        row for row in diff_kernels(chosen, narrow).rows if row.kind is ChangeKind.OTHER_CONFIG
    ]
    (before,), (after,) = row.baseline, row.candidate
    assert [before.kind, after.kind] == ["gemm", "gemm"]
    assert before.source_hash != after.source_hash
    assert [after.config[f"{name}c_blocks"] for name in "MNK"] == [1, 1, 1]
    text = f"Same code, other configuration: Kc_blocks {before.config['Kc_blocks']} -> 1"
    assert row.text.startswith(text)


def test_a_kernel_more_is_new_and_a_kernel_less_vanished(bench: Bench) -> None:
    more = bench.side(Sorted(GELU))
    new = rows_of(diff_kernels(bench.compiled, more))
    vanished = rows_of(diff_kernels(more, bench.compiled))
    for label in ("aten::sort", "cpp_fused_sigmoid"):
        assert (new[label].kind, new[label].baseline) == (ChangeKind.NEW, ())
        assert " 1 call of " in new[label].text
        assert (vanished[label].kind, vanished[label].candidate) == (ChangeKind.VANISHED, ())
    assert new[FUSED].matched_by is MatchedBy.CODE_AND_SHAPES


def test_eager_operators_are_merged_by_compiling(bench: Bench) -> None:
    eager = bench.side(Net(GELU), backend="eager")
    row = rows_of(diff_kernels(eager, bench.compiled))[f"aten::_softmax + aten::gelu -> {FUSED}"]
    assert (row.kind, row.matched_by) == (ChangeKind.MERGED, MatchedBy.WORDS_OF_FUSION)


def test_attention_that_is_taken_apart_is_one_change(bench: Bench) -> None:
    """Compiling would put it together again."""
    whole, apart = (
        bench.side(Attention(is_apart=is_apart), backend="eager") for is_apart in (False, True)
    )
    (row,) = (
        row for row in diff_kernels(whole, apart).rows if row.matched_by is MatchedBy.ATTENTION
    )
    assert row.kind is ChangeKind.SPLIT
    assert [kernel.kind for kernel in row.baseline] == ["attention"]
    names = {kernel.name for kernel in row.candidate}
    assert names >= {"aten::bmm", "aten::_softmax", "aten::div"}
    assert " (attention): " in row.text


def test_norms_and_sums_of_an_encoder_are_shared_out_to_the_kernels_that_compiling_makes(
    bench: Bench,
) -> None:
    net, tokens = Encoder(), torch.arange(64).reshape(2, 32)
    eager = bench.side(net, x=tokens, backend="eager")
    diff = diff_kernels(eager, bench.side(net, x=tokens))
    merged = [row for row in diff.rows if row.kind is ChangeKind.MERGED]
    norms = [
        kernel.count
        for row in merged
        for kernel in row.baseline
        if kernel.label == "aten::native_layer_norm"
    ]
    # What is left of a group of calls is no vanished kernel.
    assert (sum(norms), len(norms)) == (5, 3)
    assert all("5 calls of aten::native_layer_norm" in row.text for row in merged)
    assert any("embedding" in row.text for row in merged)
    lone = [
        kernel.label
        for row in diff.rows
        if row.kind in (ChangeKind.NEW, ChangeKind.VANISHED)
        for kernel in (*row.baseline, *row.candidate)
        if kernel.kind != "dispatch"
    ]
    assert lone == []
    assert not any("other shapes" in row.text for row in diff.rows)
    rows_of(diff)


# The switch sets all of oneDNN's flags, and one of them is for Intel's GPUs.
@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_a_convolution_without_onednn_is_another_algorithm(bench: Bench) -> None:
    onednn = bench.side(Convolution())
    with torch.backends.mkldnn.flags(enabled=False):
        other = bench.side(Convolution())
    row = rows_of(diff_kernels(onednn, other))[
        "aten::mkldnn_convolution -> aten::_slow_conv2d_forward"
    ]
    assert row.kind is ChangeKind.OTHER_ALGORITHM
    assert row.text.startswith("onednn before, aten ")
