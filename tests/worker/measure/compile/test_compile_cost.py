"""Compile time by phase and by the state of the cache, and models that go on compiling."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo.utils as dynamo_utils
from syrupy.assertion import SnapshotAssertion
from torch import Tensor

from compile_hud.db.records.results import Outcome
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.measure.compile import dynamo
from compile_hud.runner.measure.compile.compiler import time_compilation
from compile_hud.runner.measure.compile.dynamo import recorded_compiles
from compile_hud.runner.measure.compile.phases import CompileClock
from compile_hud.runner.measure.device import Device
from compile_hud.runner.persistence.compile_traces import FOLDER
from compile_hud.runner.protocol.messages import ShapeSweep
from compile_hud.runner.traces.compile_log import read_log
from tests.support.runs.launches import MEGABYTE, median, order, step_names

CPU = Device(kind="cpu", num_threads=1)
FIXTURE = str(Path(__file__).parents[3] / "fixtures" / "odd_models.py")


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    dynamo.reset()
    yield
    dynamo.reset()


@pytest.mark.slow
def test_a_compile_is_cold_then_warm_then_from_artifacts(executor: LocalExecutor) -> None:
    what = order(
        "rms_norm",
        build="compile_hud.models_zoo.kernels.rms_norm",
        config={"width": 64, "batch": 4},
        variant="default",
        num_launches=3,
        max_launches=3,
    )
    # What other shapes compile at the end of the first launch is not among it.
    sweep = ShapeSweep(axis="batch", values=(2, 4, 6))
    what = replace(what, workload=replace(what.workload, sweep=sweep))
    with closing(executor.begin(what)) as session:
        code = {session.launch().details["generated_code_sha256"] for _ in range(3)}
        result = session.finish()
    assert result.outcome is Outcome.OK, result.log_tail
    # Whichever way it came, so that samples of all launches are of one kind.
    assert len(code - {None}) == 1
    cold, warm, artifacts = result.details["compile"]
    assert [item["state"] for item in (cold, warm, artifacts)] == ["cold", "warm", "artifacts"]
    assert cold["cache"]["fxgraph_misses"] == 1
    assert cold["cache"]["fxgraph_hits"] == 0
    for filled in (warm, artifacts):
        assert filled["cache"]["fxgraph_hits"] == 1
        assert filled["cache"]["fxgraph_misses"] == 0
    assert (cold["load_s"], warm["load_s"]) == (0, 0)
    assert artifacts["load_s"] > 0
    for name, item in (
        ("compile_cold_s", cold),
        ("compile_warm_s", warm),
        ("compile_artifacts_s", artifacts),
    ):
        measurement = result.measurement(name)
        assert measurement is not None
        assert measurement.samples == (item["compile_s"],)
    assert "cache-miss" not in {warning.code for warning in result.warnings}
    for state, counts in (("cold", (0, 1)), ("warm", (1, 0))):
        for cache in ("fxgraph", "aotautograd"):
            names = [f"{cache}_{state}_{event}" for event in ("hits", "misses", "bypasses")]
            assert [median(result, name) for name in names] == [*counts, 0]
    assert cold["cache_reasons"] == warm["cache_reasons"] == artifacts["cache_reasons"] == []
    memory = cold["memory_bytes"]
    growth = memory["host peak"] - memory["host before"]
    assert median(result, "compile_peak_host_bytes") == growth > MEGABYTE
    # The C++ compiler takes hundreds of megabytes for the headers of torch.
    compilers_bytes = memory["compilers peak"]
    assert median(result, "compile_peak_compilers_bytes") == compilers_bytes > 50 * MEGABYTE
    assert warm["memory_bytes"]["host peak"] < memory["host peak"]
    assert [names[-1] for names in step_names(result)] == ["shapes", "result", "result"]
    assert (median(result, "recompiles"), median(result, "sweep_recompiles")) == (0, 1)


@pytest.mark.slow
def test_the_phases_of_a_cold_compile_add_up_to_it(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", variant="default"))
    (cold,) = result.details["compile"]
    phases_s = dict(cold["phases_s"])
    assert sum(phases_s.values()) == pytest.approx(median(result, "compile_cold_s"))
    assert phases_s.pop("other") >= 0
    assert set(phases_s) == {"dynamo", "aot", "inductor", "backend"}
    for phase, phase_s in phases_s.items():
        assert median(result, f"compile_{phase}_s") == phase_s > 0


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_each_phase_gets_the_work_that_is_done_in_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a clock that only this test's own work moves, put into each stage of the compiler."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    work_s: list[float] = []

    def put(target: str, seconds: float) -> None:
        real = pkgutil.resolve_name(target)

        def working(*args: Any, **kwargs: Any) -> Any:
            work_s.append(seconds)
            return real(*args, **kwargs)

        monkeypatch.setattr(target.replace(":", "."), working)

    put("torch._functorch.aot_autograd:run_functionalized_fw_and_collect_metadata", 2.0)
    put("torch._inductor.scheduler:Scheduler.codegen", 4.0)
    put("torch._inductor.async_compile:AsyncCompile.wait", 8.0)

    def trace() -> int:
        work_s.append(1.0)
        return 1

    # Dynamo calls it while it traces.
    traced = torch.compiler.assume_constant_result(trace)  # type: ignore[no-untyped-call]

    def model(x: Tensor) -> Tensor:
        # A library's kernel: nothing for the C++ compiler, which would take most of the test.
        return torch.mm(x, x) if traced() == 1 else x

    clock = CompileClock(now_s=lambda: sum(work_s))
    x = torch.ones(64, 64)
    compiled = torch.compile(model)
    with torch.no_grad(), recorded_compiles(clock):
        times = time_compilation(lambda: compiled(x), device=CPU, clock=clock)
    assert times.phases_s == {
        "dynamo": work_s.count(1.0),
        "aot": 2.0 * work_s.count(2.0),
        "inductor": 4.0 * work_s.count(4.0),
        "backend": 8.0 * work_s.count(8.0),
    }
    assert min(times.phases_s.values()) > 0
    assert times.num_late_compiles == 0


def test_a_torch_that_reports_no_events_has_no_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(dynamo_utils, "get_chromium_event_logger")
    clock = CompileClock()
    with recorded_compiles(clock):
        times = time_compilation(lambda: None, device=CPU, clock=clock)
    assert times.split_s == {}


def test_events_are_booked_only_while_they_are_recorded() -> None:
    logger = dynamo_utils.get_chromium_event_logger()
    clock = CompileClock()
    with recorded_compiles(clock):
        assert "log_event_start" in vars(logger)
    assert "log_event_start" not in vars(logger)
    assert "log_event_end" not in vars(logger)


@pytest.mark.slow
def test_without_artifacts_the_third_launch_is_warm(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", variant="aot_eager", num_launches=3, max_launches=3))
    assert [item["state"] for item in result.details["compile"]] == ["cold", "warm", "warm"]
    assert result.measurement("compile_artifacts_s") is None


@pytest.mark.nightly
@pytest.mark.slow
def test_a_launch_beyond_the_plan_is_warm(executor: LocalExecutor) -> None:
    with closing(executor.begin(order("plain", variant="default", num_launches=2))) as session:
        states = [session.launch().details["compile"]["state"] for _ in range(3)]
    assert states == ["cold", "warm", "warm"]


@pytest.mark.slow
def test_a_graph_break_has_its_line(executor: LocalExecutor) -> None:
    result = executor.execute(order("breaking", variant="aot_eager"))
    (location,) = result.details["graph_breaks"]
    assert (location["file"], location["function"]) == (FIXTURE, "forward")
    assert "torch._dynamo.graph_break()" in source_line(location)
    assert "User-inserted" in location["reason"]


@pytest.mark.slow
def test_a_model_that_recompiles_at_every_call_until_dynamo_gives_up(
    executor: LocalExecutor,
    words: SnapshotAssertion,
) -> None:
    result = executor.execute(order("counting", variant="aot_eager"))
    assert result.outcome is Outcome.OK, result.log_tail
    assert result.effective_mode == "eager"
    assert median(result, "recompiles") == torch._dynamo.config.recompile_limit - 1
    assert result.measurement("compile_cold_s") is None
    assert "phases_s" not in result.details["compile"][0]
    texts = {warning.code: warning.text for warning in result.warnings}
    assert "no compile time" in texts["still-compiling"]
    assert texts["recompile-limit"] == words
    assert "fell back to" in texts["mode-fallback"]
    location = result.details["recompiles"][0]
    assert location["reason"].startswith("self.num_calls == ")
    assert (location["file"], "self.num_calls += 1" in source_line(location)) == (FIXTURE, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text"),
    [("breaking", " in forward)"), ("counting", "recompile limit")],
)
def test_what_fullgraph_forbids_fails_with_its_reason(
    executor: LocalExecutor, kind: str, text: str
) -> None:
    result = executor.execute(order(kind, variant="fullgraph"))
    assert result.outcome is Outcome.FAILED
    assert text in result.reason


@pytest.mark.nightly
@pytest.mark.slow
def test_a_model_that_recompiles_while_samples_are_taken(
    executor: LocalExecutor, words: SnapshotAssertion
) -> None:
    result = executor.execute(order("unlimited", variant="aot_eager"))
    assert result.outcome is Outcome.OK, result.log_tail
    (warning,) = [item for item in result.warnings if item.code == "recompiles-while-sampling"]
    assert warning.text == words
    assert "`self.num_calls == " in warning.hint
    assert "odd_models.py:" in warning.hint
    assert "recompile-limit" not in {item.code for item in result.warnings}


def source_line(location: dict[str, Any]) -> str:
    text = Path(location["file"]).read_text(encoding="ascii")
    return text.splitlines()[int(location["line"]) - 1]


@pytest.mark.slow
def test_a_chosen_case_leaves_a_log_that_hud_reads(
    executor: LocalExecutor, state_dir: Path
) -> None:
    result = executor.execute(order("plain", variant="default", compile_trace="always"))
    folder = Path(result.details["compile_trace"]["folder"])
    assert folder.is_relative_to(state_dir.absolute() / FOLDER)
    (path,) = folder.glob("*.log")
    (compilation, *_) = read_log(path).compilations
    assert compilation.compile_id == "0/0"
    # The log is of a launch of its own: the measured one has the metrics, and no log.
    assert result.details["num_launches"] == 1
    assert median(result, "compile_cold_s") > 0
