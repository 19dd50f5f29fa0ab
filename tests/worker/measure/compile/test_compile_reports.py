"""Reports of Dynamo and Inductor, on any torch, and a launch's use of them.

CUDA graphs are faked where Inductor keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch._dynamo.utils as dynamo_utils
from syrupy.assertion import SnapshotAssertion
from torch import nn
from torch._dynamo import convert_frame, eval_frame

from compile_hud.db.records.results import Dtype, Phase
from compile_hud.runner.measure.compile import compiler as compiling
from compile_hud.runner.measure.compile import dynamo
from compile_hud.runner.measure.compile import step as compile_step
from compile_hud.runner.measure.compile.cache_log import CacheLog, read_keys, write_keys
from compile_hud.runner.measure.compile.dynamo import (
    CompileCounts,
    read_compilations,
    read_counts,
    read_guard_kinds,
    recorded_compiles,
)
from compile_hud.runner.measure.compile.peak_memory import (
    NO_CHILDREN,
    NO_COMPILER,
    CompilePeaks,
    MemoryPeak,
)
from compile_hud.runner.measure.compile.phases import CompileClock
from compile_hud.runner.measure.compile.source_locations import CodeLocation
from compile_hud.runner.measure.compile.step import compile_subject, report_counts
from compile_hud.runner.measure.context import Context, Findings
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.steps import StepLog
from compile_hud.runner.measure.subject import Subject, mean_square
from compile_hud.runner.protocol.messages import (
    CacheState,
    LaunchRequest,
    MeasureSettings,
    Workload,
)
from tests.fixtures.odd_models import Plain
from tests.support.builders import make_case
from tests.support.nightly import daily_first

NO_COUNTS = CompileCounts(
    num_graphs=1,
    num_graph_breaks=0,
    num_recompiles=0,
    num_autotuned=0,
    num_cudagraph_skips=0,
    cudagraph_skip_reasons=(),
)


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    dynamo.reset()
    yield
    dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
def test_guards_are_counted_by_kind_as_the_tree_prints_them() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(torch.ones(3))
    kinds = read_guard_kinds()
    assert kinds is not None
    assert kinds["TENSOR_MATCH"] == 1
    compiled(torch.ones(3, dtype=torch.float64))
    again = read_guard_kinds()
    assert again is not None
    assert again["TENSOR_MATCH"] == 2


@pytest.mark.usefixtures("fresh_dynamo")
def test_more_compilations_are_cached_than_by_dynamo_alone() -> None:
    # By itself it forgets all but the last 64, and with them the recompiles.
    assert dynamo_utils._compilation_metrics.maxlen == dynamo.MAX_COMPILATIONS > 64


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_recompile_has_the_guard_that_failed() -> None:
    compiled = torch.compile(lambda x, n: x + n, backend="eager", dynamic=False)
    for n in range(3):
        compiled(torch.ones(1), n)
    counts = read_counts()
    assert counts.num_recompiles == 2
    assert [location.reason for location in counts.recompiles] == ["n == 0", "n == 1"]
    assert counts.at_limit == ()


@pytest.mark.usefixtures("fresh_dynamo")
def test_each_compilation_has_its_function_and_the_guard_that_failed() -> None:
    clock = CompileClock()
    compiled = torch.compile(lambda x, n: x + n, backend="eager", dynamic=False)
    with recorded_compiles(clock):
        for n in range(3):
            compiled(torch.ones(1), n)
    first, *others = read_compilations(clock)
    assert [item.compile_id for item in (first, *others)] == ["0/0", "0/1", "0/2"]
    assert [item.reason for item in others] == ["n == 0", "n == 1"]
    assert (first.function, first.reason, first.is_backward) == ("<lambda>", "", False)
    assert first.file == __file__
    assert set(first.phases_s) >= {"dynamo"}
    assert all(item.num_ops == 1 and item.total_s > 0 for item in (first, *others))


@pytest.mark.usefixtures("fresh_dynamo")
def test_the_longest_of_many_compilations_are_reported(time_s: FakeTime) -> None:
    clock = CompileClock(now_s=time_s)
    for number in range(dynamo.MAX_LISTED + 5):
        clock.begin("entire_frame_compile", compile_id=f"{number}/0")
        time_s.now_s += 1.0 + number
        clock.end("entire_frame_compile")
    longest = read_compilations(clock)
    ids = [f"{number}/0" for number in range(5, dynamo.MAX_LISTED + 5)]
    assert [item.compile_id for item in longest] == ids
    assert read_compilations(CompileClock()) == []


class FakeTime:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time_s() -> FakeTime:
    return FakeTime()


@pytest.fixture
def context(time_s: FakeTime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Context:
    """Return a launch of a CUDA-graph mode on CUDA, its samples taken from 10 s to 20 s."""
    monkeypatch.setattr(compiling, "has_recorded_cudagraphs", lambda: True)
    case = make_case(variant="reduce-overhead", mode="reduce-overhead", device="cuda")
    device = Device(kind="cuda", num_threads=1)
    request = LaunchRequest(
        case=case,
        workload=Workload(build="", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
        launch=0,
        cache_dir=str(tmp_path / "cache"),
        report_path="",
        log_path="",
        artifacts_path=str(tmp_path / "artifacts.bin"),
    )
    subject = Subject(
        model=Plain(),
        inputs={},
        phase=Phase.INFERENCE,
        dtype=Dtype.FP32,
        device=device,
        loss=mean_square,
    )
    log = StepLog(now_s=time_s)
    time_s.now_s = 10.0
    with log.step("sample"):
        time_s.now_s = 20.0
    return Context(
        request=request,
        subject=subject,
        device=device,
        log=log,
        findings=Findings(effective_mode="reduce-overhead"),
        compiles=CompileClock(now_s=time_s),
    )


def codes(context: Context) -> list[str]:
    return [warning.code for warning in context.findings.warnings]


def report(context: Context, monkeypatch: pytest.MonkeyPatch, counts: CompileCounts) -> None:
    monkeypatch.setattr(compile_step, "read_counts", lambda: counts)
    report_counts(context, context.subject.model)


def test_cuda_graphs_that_are_given_up_after_the_first_calls_are_a_fallback(
    context: Context, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    skipped = replace(
        NO_COUNTS, num_cudagraph_skips=1, cudagraph_skip_reasons=("too many re-recordings",)
    )
    report(context, monkeypatch, skipped)
    assert context.findings.effective_mode == "default"
    (warning,) = context.findings.warnings
    assert warning.code == "mode-fallback"
    assert warning.text == words


def test_cuda_graphs_that_stay_recorded_are_no_fallback(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(context, monkeypatch, NO_COUNTS)
    assert (context.findings.effective_mode, codes(context)) == ("reduce-overhead", [])


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("CUDAGraphNode.record", "cudagraphs-recorded-while-sampling"),
        ("entire_frame_compile", "recompiles-while-sampling"),
    ],
)
@pytest.mark.parametrize(("at_s", "is_reported"), [(9.0, False), (15.0, True), (21.0, False)])
def test_what_is_compiled_or_recorded_while_samples_are_taken_is_reported(
    context: Context,
    time_s: FakeTime,
    monkeypatch: pytest.MonkeyPatch,
    *,
    event: str,
    code: str,
    at_s: float,
    is_reported: bool,
) -> None:
    time_s.now_s = at_s
    context.compiles.begin(event)
    context.compiles.end(event)
    report(context, monkeypatch, NO_COUNTS)
    assert codes(context) == ([code] if is_reported else [])


class Node:
    """A recorded CUDA graph with those recorded after it, as Inductor's trees keep them."""

    def __init__(self, *children: Node) -> None:
        self.children = {number: [child] for number, child in enumerate(children)}


@pytest.mark.parametrize(
    ("roots", "num_recorded"), [((), 0), ((Node(),), 1), ((Node(Node(), Node(Node())), Node()), 5)]
)
def test_recorded_cuda_graphs_are_counted_down_the_tree(
    monkeypatch: pytest.MonkeyPatch, roots: tuple[Node, ...], num_recorded: int
) -> None:
    fake_cudagraph_trees(monkeypatch, lambda: iter(roots))
    assert dynamo.num_recorded_cudagraphs() == num_recorded
    assert dynamo.has_recorded_cudagraphs() is (num_recorded > 0)


def test_no_manager_means_that_nothing_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cudagraph_trees(monkeypatch, None)
    assert dynamo.has_recorded_cudagraphs() is False


def fake_cudagraph_trees(
    monkeypatch: pytest.MonkeyPatch, get_roots: Callable[[], Iterator[Node]] | None
) -> None:
    trees = pytest.importorskip("torch._inductor.cudagraph_trees")
    manager = None
    if get_roots is not None:
        manager = type("Manager", (), {"get_roots": staticmethod(get_roots)})()
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(trees, "get_manager", lambda *_args, **_kwargs: manager)


def test_a_call_that_enters_compiled_code_differs_from_one_that_does_not() -> None:
    dynamo.reset()
    model = nn.Linear(2, 2)
    compiled = torch.compile(model, backend="eager")
    x = torch.ones(1, 2)
    compiled(x)
    assert compiling.runs_compiled_code(lambda: compiled(x))
    assert not compiling.runs_compiled_code(lambda: model(x))


def test_a_model_that_dynamo_gave_up_on_in_part_keeps_its_mode(
    context: Context, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    counts_at_limit = replace(
        NO_COUNTS, num_recompiles=7, at_limit=(CodeLocation(reason="n == 7"),)
    )
    monkeypatch.setattr(compile_step, "runs_compiled_code", lambda _: True)
    report(context, monkeypatch, counts_at_limit)
    assert context.findings.effective_mode == "reduce-overhead"
    assert codes(context) == ["recompile-limit"]
    assert context.findings.warnings[0].text == words


def test_a_torch_without_guard_trees_has_no_number_of_guards(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.delattr(eval_frame, "_debug_get_cache_entry_list")
        assert read_guard_kinds() is None
    with monkeypatch.context() as newer:
        newer.setattr(convert_frame, "input_codes", object())
        assert read_guard_kinds() is None
        report(context, newer, NO_COUNTS)
    assert "guards" not in context.findings.metrics
    assert "graphs" in context.findings.metrics


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_compiled_frame_without_a_guard_tree_leaves_no_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    monkeypatch.setattr(eval_frame, "_debug_get_cache_entry_list", lambda _: [object()])
    assert read_guard_kinds() is None


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_graph_break_that_is_only_counted_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamo_utils.counters["graph_break"]["a print"] += 2
    monkeypatch.delattr(dynamo_utils, "graph_break_reasons")
    counts = read_counts()
    assert counts.graph_breaks == (CodeLocation(reason="a print"),)
    assert counts.num_graph_breaks == 2


@pytest.mark.parametrize("missing", ["get_manager", "get_roots"])
def test_a_torch_that_changed_its_cuda_graph_trees_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    trees = pytest.importorskip("torch._inductor.cudagraph_trees")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    if missing == "get_manager":
        monkeypatch.delattr(trees, "get_manager")
    else:
        monkeypatch.setattr(trees, "get_manager", lambda *_args, **_kwargs: object())
    assert dynamo.has_recorded_cudagraphs() is None


def compile_report(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    state: CacheState,
    *,
    peaks: CompilePeaks | None = None,
    **cache: int,
) -> None:
    """Go through the step `compile` of a launch whose graphs were found in the cache or not."""
    counts = replace(NO_COUNTS, cache=cache)
    monkeypatch.setattr(compile_step, "read_counts", lambda: counts)
    monkeypatch.setattr(compile_step, "compile_model", lambda model, **_: model)
    monkeypatch.setattr(Device, "synchronize", lambda _: None)
    recorded = nullcontext(CompilePeaks() if peaks is None else peaks)
    monkeypatch.setattr(compiling, "recorded_peaks", lambda _: recorded)
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", lambda _: None)
    monkeypatch.setattr(Subject, "step", lambda *_: lambda: None)
    Path(context.request.artifacts_path).write_bytes(b"artifacts")
    request = replace(context.request, launch=2, cache_state=state)
    compile_subject(replace(context, request=request))


@pytest.mark.parametrize("state", daily_first(["warm", "artifacts"], num_daily=1))
@pytest.mark.parametrize(
    ("num_hits", "num_misses", "is_hit"), [(2, 0, True), (1, 1, False), (0, 0, False)]
)
def test_a_cache_counts_when_every_graph_was_in_it(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    *,
    state: CacheState,
    num_hits: int,
    num_misses: int,
    is_hit: bool,
) -> None:
    compile_report(context, monkeypatch, state, fxgraph_hits=num_hits, fxgraph_misses=num_misses)
    times = [name for name in context.findings.metrics if name.endswith("_s")]
    assert times == ([f"compile_{state}_s"] if is_hit else [])
    assert codes(context) == ([] if is_hit else ["cache-miss"])
    assert context.findings.details["compile"]["state"] == state


def test_a_cold_compile_has_the_peaks_as_metrics_and_others_have_details_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks = CompilePeaks(
        host=MemoryPeak(before=100, peak=130),
        device=MemoryPeak(before=10, peak=14),
        compilers_bytes=7,
        interval_s=0.25,
    )
    compile_report(context, monkeypatch, "warm", peaks=peaks, fxgraph_hits=1)
    findings = context.findings
    assert not [name for name in findings.metrics if name.endswith("_bytes")]
    memory = {
        "host before": 100,
        "host peak": 130,
        "device before": 10,
        "device peak": 14,
        "compilers peak": 7,
    }
    assert findings.details["compile"]["memory_bytes"] == memory
    compile_report(context, monkeypatch, "cold", peaks=peaks)
    measured = {
        name: raw.samples for name, raw in findings.metrics.items() if name.endswith("_bytes")
    }
    assert measured == {
        "compile_peak_host_bytes": (30.0,),
        "compile_peak_compilers_bytes": (7.0,),
        "compile_peak_device_bytes": (4.0,),
    }
    assert "0.25 s" in findings.metrics["compile_peak_compilers_bytes"].method
    missing = findings.details.get("compile_costs", {"missing": {}})["missing"]
    assert "compile_peak_host_bytes" not in missing


def test_a_peak_that_the_system_refuses_is_missing_with_its_reason(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_report(context, monkeypatch, "cold", peaks=CompilePeaks())
    assert not [name for name in context.findings.metrics if name.endswith("_bytes")]
    missing = context.findings.details["compile_costs"]["missing"]
    assert "clear_refs" in missing["compile_peak_host_bytes"]
    assert missing["compile_peak_compilers_bytes"] == NO_CHILDREN


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_compilers_that_no_sample_saw_have_a_reason_and_no_peak(
    context: Context, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    peaks = CompilePeaks(host=MemoryPeak(before=1, peak=2), compilers_missing=NO_COMPILER)
    compile_report(context, monkeypatch, state, peaks=peaks, fxgraph_hits=1)
    findings = context.findings
    assert "compile_peak_compilers_bytes" not in findings.metrics
    details = findings.details["compile"]
    assert "compilers peak" not in details["memory_bytes"]
    assert details["compilers_not_measured"] == NO_COMPILER
    missing = findings.details.get("compile_costs", {"missing": {}})["missing"]
    assert ("compile_peak_compilers_bytes" in missing) is (state == "cold")


def test_a_warm_launch_has_its_look_ups_as_metrics(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_report(context, monkeypatch, "warm", fxgraph_hits=3, aotautograd_hits=2)
    measured = {
        name: raw.samples for name, raw in context.findings.metrics.items() if "_warm_" in name
    }
    del measured["compile_warm_s"]
    assert measured == {
        "fxgraph_warm_hits": (3.0,),
        "fxgraph_warm_misses": (0.0,),
        "fxgraph_warm_bypasses": (0.0,),
        "aotautograd_warm_hits": (2.0,),
        "aotautograd_warm_misses": (0.0,),
        "aotautograd_warm_bypasses": (0.0,),
    }
    assert codes(context) == []


def test_a_launch_from_artifacts_has_look_ups_in_its_details_alone(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_report(context, monkeypatch, "artifacts", fxgraph_hits=1, aotautograd_misses=1)
    assert list(context.findings.metrics) == ["compile_artifacts_s"]
    (reason,) = context.findings.details["compile"]["cache_reasons"]
    assert (reason["cache"], reason["event"]) == ("aotautograd", "miss")


@pytest.mark.parametrize("state", ["cold", "warm"])
def test_a_bypass_is_a_warning_with_its_reason_and_remedy(
    context: Context, monkeypatch: pytest.MonkeyPatch, state: CacheState, words: SnapshotAssertion
) -> None:
    context.caches.record_text("fxgraph", "Bypassing FX Graph Cache because 'No shape env'")
    compile_report(context, monkeypatch, state, fxgraph_bypasses=2, aotautograd_hits=1)
    assert codes(context) == ["cache-bypass"]
    assert [(warning.text, warning.hint) for warning in context.findings.warnings] == words


def test_a_miss_is_a_warning_with_the_part_of_the_key_that_changed(
    context: Context, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    for number, state in enumerate(("cold", "warm")):
        context.caches.missed.clear()
        context.caches.record_event(
            "fx_graph_cache_miss",
            {"key": f"k{number}", "components": [f"[a{number}] gm: x * {number}"]},
        )
        compile_report(context, monkeypatch, state, fxgraph_hits=4 * number, fxgraph_misses=1)
    assert codes(context) == ["cache-miss"]
    assert [(warning.text, warning.hint) for warning in context.findings.warnings] == words


def test_the_keys_of_the_first_launch_reach_later_ones(tmp_path: Path) -> None:
    log = CacheLog(missed={"fxgraph": {"k1": ["[aa] size: 3"]}})
    path = tmp_path / "keys.json"
    assert read_keys(path) == {}
    write_keys(log, path)
    assert read_keys(path) == log.missed
    path.write_text("{", encoding="ascii")
    assert read_keys(path) == {}
    write_keys(log, tmp_path / "missing" / "keys.json")


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_torch_reports_bypasses_and_the_parts_of_missed_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A product needs no C++ compiler.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    first, later, bypassed = CacheLog(), CacheLog(), CacheLog()
    for log, size in ((first, 3), (later, 5), (bypassed, 7)):
        dynamo.reset()
        custom_pass = (lambda _graph: None) if log is bypassed else None
        with (
            torch._inductor.config.patch(post_grad_custom_post_pass=custom_pass),
            recorded_compiles(CompileClock(), log),
        ):
            torch.compile(lambda x: x @ x, dynamic=False)(torch.ones(size, size))
    cache = read_counts().cache
    assert cache["fxgraph_bypasses"] == 1
    reasons = bypassed.reasons(cache, first=first.missed)
    assert "custom pass" in reasons[0].reason
    assert "uuid" in reasons[0].remedy
    reasons = later.reasons({"fxgraph_misses": 1}, first=first.missed)
    assert "3" in reasons[0].reason
    assert "5" in reasons[0].reason


@pytest.mark.parametrize("saved", [None, (b"bytes", None)])
def test_artifacts_are_stored_when_there_are_any(
    context: Context, monkeypatch: pytest.MonkeyPatch, saved: tuple[bytes, None] | None
) -> None:
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: saved)
    report(context, monkeypatch, NO_COUNTS)
    path = Path(context.request.artifacts_path)
    assert (path.read_bytes() if path.exists() else None) == (saved and saved[0])
