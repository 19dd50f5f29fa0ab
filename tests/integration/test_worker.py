"""Real launches through a real worker host: what each kind of model comes back as."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from db.records import Case, CaseResult, Dtype, Outcome, Phase
from models_zoo.variants import VARIANTS
from runner.errors import ExecutorError
from runner.executor import LocalExecutor
from runner.executor_api import CaseOrder
from runner.protocol import PROTOCOL_VERSION, MeasureSettings, Workload

FIXTURES = Path(__file__).parents[1] / "fixtures"
MODEL_FILE = f"{FIXTURES / 'odd_models.py'}:make"
QUICK: dict[str, Any] = {"num_launches": 1, "num_rounds": 6, "budget_s": 0.2, "timeout_s": 240.0}
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def executor(state_dir: Path) -> Iterator[LocalExecutor]:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    yield local
    local.close()


def order(
    kind: str,
    *,
    variant: str = "eager",
    phase: Phase = Phase.INFERENCE,
    dtype: Dtype = Dtype.FP32,
    config: dict[str, Any] | None = None,
    build: str = MODEL_FILE,
    **settings: Any,
) -> CaseOrder:
    way = VARIANTS[variant]
    case = Case(
        model=kind,
        family="odd",
        phase=phase,
        shape="default",
        dtype=dtype,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cpu",
    )
    workload = Workload(
        build=build,
        config={"kind": kind, **(config or {})},
        num_samples=4,
        num_tokens=None,
        dynamic=way.dynamic,
        fullgraph=way.fullgraph,
    )
    return CaseOrder(
        run_id="run", case=case, workload=workload, settings=MeasureSettings(**(QUICK | settings))
    )


def median(result: CaseResult, metric: str) -> float:
    measurement = result.measurement(metric)
    assert measurement is not None, (metric, result.reason, result.log_tail)
    return measurement.median


def step_names(result: CaseResult) -> list[list[str]]:
    return [[step["name"] for step in launch] for launch in result.details["steps"]]


def test_facts_describe_the_environment(executor: LocalExecutor) -> None:
    facts = executor.open()
    json.dumps(facts)
    assert facts["torch_version"]
    assert facts["python_minor"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert facts["num_cpus"] == len(os.sched_getaffinity(0))


def test_an_eager_case_has_latency_memory_and_accuracy(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", num_launches=2))
    assert result.outcome is Outcome.OK, result.log_tail
    latency = result.measurement("latency_s")
    assert latency is not None
    assert latency.launches == (6, 6)
    assert latency.warmups
    assert median(result, "cosine_similarity") == pytest.approx(1.0)
    throughput = result.measurement("throughput_samples_per_s")
    assert throughput is not None
    assert list(throughput.samples) == pytest.approx([4 / sample for sample in latency.samples])
    assert result.measurement("throughput_tokens_per_s") is None
    assert result.measurement("speedup") is None
    assert step_names(result) == [
        [
            "fingerprint",
            "build",
            "eager oracle",
            "accuracy",
            "warm up",
            "sample",
            "memory",
            "result",
        ],
        ["fingerprint", "build", "warm up", "sample", "result"],
    ]


def test_peak_memory_of_eager_is_the_hand_counted_one(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain"))
    activation = 4 * 64 * 4
    weights = 2 * (64 * 64 + 64) * 4
    # Alive at once: the input, and of a layer its product, its relu and the sum before them.
    assert weights + 3 * activation <= median(result, "peak_bytes") <= weights + 4 * activation


@pytest.mark.slow
def test_a_compiled_case_has_cold_and_warm_compile_time_and_a_speedup(
    executor: LocalExecutor,
) -> None:
    result = executor.execute(order("plain", variant="default", num_launches=3))
    assert result.outcome is Outcome.OK, result.log_tail
    assert result.effective_mode == "default"
    assert median(result, "compile_cold_s") > median(result, "compile_warm_s") > 0
    warm = result.measurement("compile_warm_s")
    assert warm is not None
    assert warm.launches == (1, 1)
    speedup = result.measurement("speedup")
    eager = result.measurement("eager_latency_cpu_s")
    variant = result.measurement("latency_cpu_s")
    assert speedup is not None
    assert eager is not None
    assert variant is not None
    ratios = [left / right for left, right in zip(eager.samples, variant.samples, strict=True)]
    assert list(speedup.samples) == pytest.approx(ratios)
    assert median(result, "graphs") == 1
    assert median(result, "graph_breaks") == 0
    assert median(result, "recompiles") == 0
    assert step_names(result)[0] == [
        "fingerprint",
        "build",
        "eager oracle",
        "compile",
        "accuracy",
        "warm up",
        "sample",
        "memory",
        "result",
    ]
    for earlier, later in zip(
        result.details["steps"][0], result.details["steps"][0][1:], strict=False
    ):
        assert earlier["end_s"] <= later["start_s"]


@pytest.mark.slow
def test_a_mode_without_cuda_graphs_says_what_really_ran(executor: LocalExecutor) -> None:
    executor.execute(order("plain", variant="default"))
    result = executor.execute(order("plain", variant="reduce-overhead"))
    assert result.effective_mode == "default"
    codes = {warning.code: warning.text for warning in result.warnings}
    assert codes["mode-fallback"] == (
        "asked for reduce-overhead, ran as default: CUDA graphs need a CUDA device"
    )
    assert "the very kernels of default" in codes["same-code"]


@pytest.mark.slow
def test_a_graph_break_is_counted_with_its_reason(executor: LocalExecutor) -> None:
    result = executor.execute(order("breaking", variant="aot_eager"))
    assert median(result, "graph_breaks") == 1
    assert median(result, "graphs") == 2
    assert "graph_break" in result.details["graph_break_reasons"][0]


@pytest.mark.slow
def test_a_graph_break_under_fullgraph_fails_with_its_reason(executor: LocalExecutor) -> None:
    result = executor.execute(order("breaking", variant="fullgraph"))
    assert result.outcome is Outcome.FAILED
    assert "graph_break" in result.reason


@pytest.mark.slow
def test_recompilation_is_counted_with_its_reason(executor: LocalExecutor) -> None:
    result = executor.execute(order("recompiling", variant="aot_eager"))
    assert median(result, "recompiles") == 1
    assert "is_odd" in result.details["recompile_reasons"][0]


@pytest.mark.slow
def test_a_training_step_is_checked_by_its_gradients(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", variant="aot_eager", phase=Phase.TRAINING))
    assert result.outcome is Outcome.OK, result.log_tail
    error = result.measurement("max_abs_error")
    assert error is not None
    assert error.method.endswith("outputs, gradients; the worst of them")
    # The same operators in the same order on the same weights: the same rounding.
    assert median(result, "rmse_ratio") == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [Dtype.FP32, Dtype.BF16])
def test_wrong_gradients_are_inaccurate_however_small(
    executor: LocalExecutor, dtype: Dtype
) -> None:
    result = executor.execute(
        order("wrongbackward", variant="aot_eager", phase=Phase.TRAINING, dtype=dtype)
    )
    assert result.outcome is Outcome.INACCURATE, result.log_tail
    assert result.reason.startswith("gradients: cosine similarity to the fp64 oracle is -")


def test_bf16_is_allowed_bf16_rounding(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", dtype=Dtype.BF16))
    assert result.outcome is Outcome.OK, result.reason
    assert median(result, "max_abs_error") > 1e-4


def test_a_dtype_that_the_device_cannot_run_is_skipped(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", dtype=Dtype.FP16_AUTOCAST))
    assert result.outcome is Outcome.SKIPPED
    assert "CUDA" in result.reason
    assert result.measurements == ()


@pytest.mark.slow
def test_a_fast_wrong_result_is_inaccurate_and_has_no_numbers(executor: LocalExecutor) -> None:
    result = executor.execute(order("wrong", variant="aot_eager"))
    assert result.outcome is Outcome.INACCURATE
    assert "cosine similarity to the fp64 oracle is -" in result.reason
    assert result.measurements == ()


def test_nan_where_the_oracle_is_finite_is_inaccurate(executor: LocalExecutor) -> None:
    result = executor.execute(order("notfinite"))
    assert result.outcome is Outcome.INACCURATE
    assert "NaN" in result.reason


def test_a_raising_model_fails_with_its_own_traceback(executor: LocalExecutor) -> None:
    result = executor.execute(order("raising"))
    assert result.outcome is Outcome.FAILED
    assert result.reason == "ValueError: the model met 4 samples and gave up"
    assert "odd_models.py" in result.log_tail


def test_a_missing_model_file_says_what_to_write(executor: LocalExecutor) -> None:
    result = executor.execute(order("plain", build="no/such/file.py"))
    assert result.outcome is Outcome.FAILED
    assert "no/such/file.py" in result.reason


def test_a_model_without_end_of_memory_is_out_of_memory(executor: LocalExecutor) -> None:
    result = executor.execute(order("hungry", memory_limit_bytes=1500 * MEGABYTE))
    assert result.outcome is Outcome.OUT_OF_MEMORY, result.reason
    assert result.measurements == ()


def test_a_segfault_is_a_failure_of_the_case_alone(executor: LocalExecutor) -> None:
    result = executor.execute(order("crashing"))
    assert result.outcome is Outcome.FAILED
    assert result.reason == "the worker was killed by SIGSEGV"
    assert "odd_models.py" in result.log_tail
    assert executor.execute(order("plain")).outcome is Outcome.OK


def test_leaving_without_a_word_is_a_failure_with_the_status(executor: LocalExecutor) -> None:
    result = executor.execute(order("leaving"))
    assert result.outcome is Outcome.FAILED
    assert "ended with status 7" in result.reason


def test_sys_exit_is_a_failure_with_its_message(executor: LocalExecutor) -> None:
    result = executor.execute(order("exiting"))
    assert result.outcome is Outcome.FAILED
    assert result.reason == "SystemExit: the model took its 4 samples home"


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_hanging_model_times_out_and_leaves_no_process(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    result = executor.execute(order("hanging", config={"pid_path": str(pids)}, timeout_s=20.0))
    assert result.outcome is Outcome.TIMEOUT
    assert "not done after 20 s" in result.reason
    worker, stray = map(int, pids.read_text(encoding="ascii").split())
    assert not is_alive(worker)
    assert not is_alive(stray)


def test_no_time_left_is_a_timeout_at_once(executor: LocalExecutor) -> None:
    result = executor.execute(order("hanging", config={"pid_path": "unused"}, timeout_s=0.0))
    assert result.outcome is Outcome.TIMEOUT


def wait_for(path: Path, *, watch: subprocess.Popen[bytes] | None = None) -> str:
    """Block until `path` exists, at most a minute; a file has no other way to announce itself."""
    pause = threading.Event()
    for _ in range(1200):
        if path.exists():
            return path.read_text(encoding="ascii")
        assert watch is None or watch.poll() is None, "the runner ended early"
        pause.wait(0.05)
    raise AssertionError(f"{path} never appeared")


def test_cancel_ends_the_running_case_and_every_later_one(state_dir: Path, tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    pids = tmp_path / "pids"

    def cancel() -> None:
        wait_for(pids)
        local.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    result = local.execute(order("hanging", config={"pid_path": str(pids)}))
    thread.join()
    assert result.reason == "cancelled"
    assert local.execute(order("plain")).reason == "cancelled"
    local.close()
    assert not is_alive(int(pids.read_text(encoding="ascii").split()[0]))


def test_cancel_between_two_cases_ends_the_host(state_dir: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    host = local._host
    assert host is not None
    local.cancel()
    host.wait(timeout=60)
    assert local.execute(order("plain")).reason == "cancelled"
    local.close()


def test_a_cancel_that_arrives_with_its_launch_is_not_lost(state_dir: Path, tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    host = local._host
    assert host is not None
    assert host.stdin is not None
    launch = {
        "protocol_version": PROTOCOL_VERSION,
        "action": "facts",
        "device": "cpu",
        "report_path": str(tmp_path / "facts.json"),
        "log_path": str(tmp_path / "log.txt"),
        "timeout_s": 60.0,
    }
    # One write of both: the host reads them at once.
    os.write(host.stdin.fileno(), json.dumps(launch).encode() + b'\n{"action": "cancel"}\n')
    answer = local._read_answer()
    assert answer is not None
    assert answer["ending"] == "cancelled"
    host.wait(timeout=60)
    local.close()


def killed_in_mid_case(state_dir: Path, pids: Path, *, is_host: bool) -> tuple[CaseResult, int]:
    """Return what a hanging case is when its worker (or host) is killed, and its stray child."""
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()

    def kill() -> None:
        worker = int(wait_for(pids).split()[0])
        assert local._host is not None
        os.kill(local._host.pid if is_host else worker, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    result = local.execute(order("hanging", config={"pid_path": str(pids)}))
    thread.join()
    assert local.execute(order("plain")).outcome is Outcome.OK
    local.close()
    return result, int(pids.read_text(encoding="ascii").split()[1])


def test_a_killed_worker_fails_its_case_alone(state_dir: Path, tmp_path: Path) -> None:
    result, stray = killed_in_mid_case(state_dir, tmp_path / "pids", is_host=False)
    assert result.outcome is Outcome.FAILED
    assert result.reason == "the worker was killed by SIGKILL"
    assert not is_alive(stray)


def test_a_host_killed_in_mid_case_leaves_no_process(state_dir: Path, tmp_path: Path) -> None:
    result, stray = killed_in_mid_case(state_dir, tmp_path / "pids", is_host=True)
    assert result.outcome is Outcome.FAILED
    assert "the worker host died and took the case along" in result.reason
    assert not is_alive(stray)


def test_folders_of_dead_runners_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, own = tmp_path / "work" / f"{ended.pid}-x", tmp_path / "work" / f"{os.getpid()}-x"
    for folder in (dead, own):
        folder.mkdir(parents=True)
    local = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path)
    local.open()
    local.close()
    assert not dead.exists()
    assert own.exists()


def test_a_killed_host_costs_one_case_and_is_started_again(state_dir: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    host = local._host
    assert host is not None
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    assert local.execute(order("plain")).outcome is Outcome.FAILED
    assert local.execute(order("plain")).outcome is Outcome.OK
    local.close()


RUNNER = """
import sys
from pathlib import Path
from tests.integration.test_worker import order
from runner.executor import LocalExecutor
executor = LocalExecutor(python=Path(sys.executable), state_dir=Path(sys.argv[1]))
executor.execute(order("hanging", config={"pid_path": sys.argv[2]}))
"""


def test_a_killed_runner_takes_host_and_worker_along(state_dir: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    root = Path(__file__).parents[2]
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(state_dir), str(pids)], cwd=root)
    worker, stray = map(int, wait_for(pids, watch=runner).split())
    runner.kill()
    runner.wait()
    pause = threading.Event()
    for _ in range(400):
        if not is_alive(worker) and not is_alive(stray):
            break
        pause.wait(0.05)
    assert not is_alive(worker)
    assert not is_alive(stray)


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    local = LocalExecutor(python=Path("/no/such/python"), state_dir=tmp_path)
    with pytest.raises(ExecutorError, match=r"cannot start .*/no/such/python.*\[toolchains\]"):
        local.open()


def test_an_interpreter_without_torch_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n', encoding="ascii")
    bare.chmod(0o755)
    local = LocalExecutor(python=bare, state_dir=tmp_path)
    with pytest.raises(ExecutorError, match="is torch installed there"):
        local.open()


def test_the_host_has_fixed_addresses_where_that_is_allowed(executor: LocalExecutor) -> None:
    allowed = subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False)
    assert executor.open()["flags"]["has_fixed_addresses"] is (allowed.returncode == 0)


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    local = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path / "file")
    with pytest.raises(ExecutorError, match="cannot start the worker host in .*file"):
        local.open()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path, device="cuda")
    with pytest.raises(ExecutorError, match="cannot measure on cuda: no CUDA device") as caught:
        local.open()
    local.close()
    assert "\n" not in str(caught.value)


def test_temporary_files_of_a_killed_case_go_with_it(state_dir: Path, tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    place = tmp_path / "place"
    result = local.execute(order("littering", config={"place": str(place)}))
    local.close()
    assert result.outcome is Outcome.FAILED
    assert not Path(place.read_text(encoding="utf-8")).exists()
