"""The GPU campaign with lanes that pretend, and its choice and files; no test needs a GPU."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu.__main__ import main
from benchmarks.gpu.chunks import CHUNKS, Work, works
from benchmarks.gpu.claims import CLAIMS, ClaimVerdict, asks, judge_claims
from benchmarks.gpu.eager import EagerLevels
from benchmarks.gpu.ledger import (
    FOLDER,
    append,
    newest,
    read_ledger,
    without_machine_paths,
)
from benchmarks.gpu.merge import merged
from benchmarks.gpu.output import ResultFiles, read_results
from benchmarks.gpu.page import page_text
from benchmarks.gpu.selection import Costs, Evidence, next_wave, ranked, worth
from benchmarks.gpu.waves import HostLane, Waves
from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.protocol.messages import LaunchReport
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)

WORKS = works(device="cuda")
FACTS: dict[str, Any] = {
    "device_name": "NVIDIA Pretender",
    "driver_version": "1",
    "torch_version": "2.99",
    "cuda_version": "13.0",
}


class PretendSession:
    """A session whose launch waits at the pipe of its lane, then writes down that it sampled."""

    def __init__(self, work: Work, lane: PretendLane) -> None:
        self._work = work
        self._lane = lane
        self.num_launches = 0

    def launch(self) -> LaunchReport:
        lane = self._lane
        lane.released.wait(lane.compile_s)
        if lane.released.is_set():
            return LaunchReport(outcome=Outcome.FAILED, reason="cancelled")
        lane.pipe.read_bytes()
        with lane.guard:
            lane.sampled.append(self._work.case.key)
        self.num_launches += 1
        return LaunchReport(outcome=Outcome.OK)

    def forget_last(self) -> None:
        self.num_launches -= 1

    def finish(self) -> CaseResult:
        measured = (make_measurement("latency_s"), make_measurement("compile_cold_s"))
        return make_result(case=self._work.case, measurements=measured)

    def close(self) -> None:
        return None


class PretendLane:
    """A lane whose launches compile for `compile_s`."""

    def __init__(self, folder: Path, *, sampled: list[str], compile_s: float = 0.0) -> None:
        self.pipe = folder / f"pipe-{id(self)}"
        self.sampled = sampled
        self.compile_s = compile_s
        self.released = threading.Event()
        self.guard = threading.Lock()
        self.moves: list[str] = []

    def begin(self, work: Work, *, timeout_s: float) -> PretendSession:
        assert timeout_s > 0
        return PretendSession(work, self)

    def cancel(self) -> None:
        self.moves.append("cancel")
        self.released.set()

    def freeze(self) -> None:
        self.moves.append("freeze")

    def thaw(self) -> None:
        self.moves.append("thaw")


def waves_of(lanes: list[PretendLane], *, seconds: float = 60.0) -> Waves:
    return Waves(lanes, until_s=time.monotonic() + seconds, launch_limit_s=100.0)


def run(waves: Waves, chosen: list[Work], *, patience_s: float = 30.0) -> Any:
    return waves.run(chosen, patience_s=patience_s, sample_s=0.0, sample_limit_s=30.0)


def once(work: Work) -> Work:
    return replace(work, settings=replace(work.settings, num_launches=1))


def test_a_wave_samples_each_launch_once_and_one_after_the_other(tmp_path: Path) -> None:
    sampled: list[str] = []
    lanes = [PretendLane(tmp_path, sampled=sampled) for _ in range(3)]
    chosen = [once(work) for work in WORKS[:3]]
    wave = run(waves_of(lanes), chosen)
    assert sorted(sampled) == sorted(work.case.key for work in chosen)
    assert [entry.result().outcome for entry in wave.ended] == [Outcome.OK] * 3


def test_a_second_launch_goes_along_with_the_next_wave(tmp_path: Path) -> None:
    sampled: list[str] = []
    lanes = [PretendLane(tmp_path, sampled=sampled) for _ in range(2)]
    waves = waves_of(lanes)
    twice = replace(WORKS[0], settings=replace(WORKS[0].settings, num_launches=2))
    assert run(waves, [twice]).ended == ()
    assert [work.case.key for work in waves.open] == [twice.case.key]
    (entry,) = run(waves, []).ended
    assert entry.num_done == 2
    assert sampled == [twice.case.key] * 2


def test_a_late_launch_is_stopped_while_others_sample(tmp_path: Path) -> None:
    sampled: list[str] = []
    late = PretendLane(tmp_path, sampled=sampled, compile_s=600.0)
    lanes = [late, *(PretendLane(tmp_path, sampled=sampled) for _ in range(3))]
    waves = waves_of(lanes)
    wave = run(waves, [once(work) for work in WORKS[:4]], patience_s=0.0)
    assert (wave.num_late, len(wave.ended)) == (1, 3)
    assert late.moves == ["freeze"]
    late.released.set()
    assert waves.close() == ()
    assert late.moves == ["freeze", "cancel"]


def test_what_hangs_is_killed_when_the_time_is_over(tmp_path: Path) -> None:
    lane = PretendLane(tmp_path, sampled=[], compile_s=600.0)
    waves = waves_of([lane], seconds=0.2)
    wave = run(waves, [once(WORKS[0])])
    (entry,) = wave.ended
    assert lane.moves == ["cancel"]
    assert entry.result().outcome is Outcome.TIMEOUT
    assert entry.result().measurements == ()


def test_a_stopped_compilation_has_no_compile_time(tmp_path: Path) -> None:
    lane = PretendLane(tmp_path, sampled=[])
    (entry,) = run(waves_of([lane]), [once(WORKS[0])]).ended
    assert entry.result().measurement("compile_cold_s") is not None
    entry.num_done = 0
    entry.freeze()
    assert [item.metric for item in entry.result().measurements] == ["latency_s"]


def test_a_frozen_lane_stops_whatever_its_host_started(tmp_path: Path) -> None:
    lane = HostLane(
        number=0,
        python=Path(sys.executable),
        state=tmp_path,
        run_id="run",
        amend=lambda result, _trace: result,
        now=lambda: START,
    )
    with subprocess.Popen(["sleep", "60"]) as child:
        lane._host = SimpleNamespace(pid=os.getpid())  # type: ignore[assignment]
        lane.freeze()
        assert _state(child.pid) == "T"
        lane.thaw()
        assert _state(child.pid) != "T"
        child.kill()


def _state(pid: int) -> str:
    """Return what the kernel says a process does, once a signal has had time to arrive."""
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0]
        if state == "T":
            break
        time.sleep(0.001)
    return state


@pytest.mark.nightly
def test_a_campaign_on_a_cpu_measures_and_ends_in_time(tmp_path: Path) -> None:
    options = "--device cpu --size tiny --chunk inference --model dcgan --mode eager"
    words = [sys.executable, "-m", "benchmarks.gpu", *options.split(), "--width", "1"]
    paths = ["--out", str(tmp_path / "out"), "--ledger", str(tmp_path / "ledger")]
    ended = subprocess.run(
        [*words, *paths, "--seconds", "200", "--launches", "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    (path,) = (tmp_path / "out").glob("results-*.jsonl.gz")
    run, (result,) = read_results(path)
    assert (result.outcome, result.case.model) == (Outcome.OK, "dcgan"), result.log_tail
    assert run.environment["torch_version"]
    assert result.measurement("latency_s") is not None


def test_every_chunk_has_cases_and_every_case_is_planned_once() -> None:
    assert {work.chunk.name for work in WORKS} == {chunk.name for chunk in CHUNKS}
    keys = [work.case.key for work in WORKS]
    assert len(keys) == len(set(keys))


def test_an_open_claim_comes_before_a_new_case_and_that_before_an_old_one() -> None:
    first, second, third = (replace(work, chunk=CHUNKS[0]) for work in _compiled()[:3])
    evidence = Evidence(
        measured_at={third.case.key: START - timedelta(days=10)}, claimed={first.case.key}
    )
    values = [worth(work, evidence=evidence, now=START) for work in (first, second, third)]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 3


def test_older_evidence_is_worth_more() -> None:
    work = _compiled()[0]
    old, young = (
        worth(
            work,
            evidence=Evidence(measured_at={work.case.key: START - timedelta(days=days)}),
            now=START,
        )
        for days in (90, 1)
    )
    assert old > young


def test_a_wave_fits_into_what_is_left() -> None:
    costs, works_ = Costs(), _compiled()
    ranking = ranked(works_, evidence=Evidence(), costs=costs, lanes=15, now=START)

    def chosen(left_s: float, *, memory_gb: float = 56.0, lanes: int = 15) -> list[Work]:
        return next_wave(
            ranking, costs=costs, lanes=lanes, memory_limit_gb=memory_gb, left_s=left_s
        )

    assert chosen(5.0) == []
    assert 0 < len(chosen(45.0)) < len(chosen(600.0)) <= 15
    assert len(chosen(600.0, memory_gb=0.0)) == 1
    assert chosen(600.0, lanes=0) == []


def test_costs_are_learnt_without_the_time_of_waiting() -> None:
    costs, work = Costs(), _compiled()[0]
    steps = [
        {"name": "compile", "start_s": 0.0, "end_s": 7.0},
        {"name": "turn", "start_s": 7.0, "end_s": 107.0},
        {"name": "sample", "start_s": 107.0, "end_s": 109.0},
    ]
    costs.learn(work.case, steps)
    assert costs.of(work).prepare_s == 7.0
    assert costs.of(work).sample_s == pytest.approx(2.0)


def test_results_survive_a_file_that_was_cut_off(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path, run=make_run(environment=FACTS))
    files.add(make_result(case=make_case("bert")))
    files.add(make_result(case=make_case("vit")))
    (path,) = tmp_path.glob("*.gz")
    path.write_bytes(path.read_bytes()[:-20])
    _, results = read_results(path)
    assert [result.case.model for result in results] == ["bert"]


def test_no_file_grows_beyond_its_limit(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path, run=make_run(), max_bytes=3000)
    for _ in range(9):
        files.add(make_result(case=make_case("bert")))
    paths = list(tmp_path.glob("*.gz"))
    assert 1 < len(paths) <= 5
    assert all(gzip.decompress(path.read_bytes()).endswith(b"\n") for path in paths)


def test_a_merge_leaves_out_what_had_no_time(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path / "out", run=make_run(environment=FACTS))
    files.add(make_result(case=make_case("bert")))
    files.add(make_result(case=make_case("vit"), outcome=Outcome.TIMEOUT, measurements=()))
    (document,) = merged(list((tmp_path / "out").glob("*.gz")))
    append(document, folder=tmp_path / "ledger")
    append(document, folder=tmp_path / "ledger")
    (read,) = read_ledger(tmp_path / "ledger")
    assert [result.case.model for result in read.results] == ["bert"]
    assert "NVIDIA Pretender" in page_text([read])


def test_a_merge_leaves_out_what_lacked_the_memory_of_its_neighbours(tmp_path: Path) -> None:
    files = ResultFiles(tmp_path, run=make_run(environment=FACTS))
    for model, others in (("bert", ""), ("vit", " Process 7 has 9.20 GiB memory in use.")):
        files.add(
            make_result(
                case=make_case(model),
                outcome=Outcome.OUT_OF_MEMORY,
                reason=f"CUDA out of memory.{others}",
                measurements=(),
            )
        )
    (document,) = merged(list(tmp_path.glob("*.gz")))
    assert [result.case.model for result in document.results] == ["bert"]


@pytest.mark.nightly
def test_a_renewed_model_has_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--plan", "--chunk", "inference", "--model", "gpt2", "--mode", "default"]
    lines = []
    for renewed in ([], ["--renew", "gpt2"]):
        assert main([*words, *renewed]) == 0
        lines.append(capsys.readouterr().out)
    assert "worth 0.0" in lines[0]
    assert "worth 8.0" in lines[1]


def test_the_claim_about_short_texts_is_of_short_texts_alone() -> None:
    (claim,) = (item for item in CLAIMS if "short" in item.published.what)
    shapes = {case.shape for case in (work.case for work in WORKS) if asks(claim, case)}
    assert shapes == {f"full-b{batch}-l{length}" for batch in (1, 8, 32) for length in (16, 128)}


def test_without_a_row_every_comparable_claim_is_open() -> None:
    for judged in judge_claims([], device="NVIDIA Pretender"):
        unlike = bool(judged.claim.published.unlike)
        assert judged.verdict is (ClaimVerdict.NOT_COMPARABLE if unlike else ClaimVerdict.OPEN)
        assert judged.reason


@pytest.mark.parametrize(
    ("speedup", "other_eager_s", "verdict"),
    [
        (1.6, 1.6e-3, ClaimVerdict.REPRODUCED),
        (1.3, 1.3e-3, ClaimVerdict.REFUTED),
        # Another eager process would have made it a speedup of 1.3.
        (1.6, 1.3e-3, ClaimVerdict.OPEN),
    ],
)
def test_a_claim_is_decided_where_all_eager_processes_agree(
    speedup: float, other_eager_s: float, verdict: ClaimVerdict
) -> None:
    """Published: 1.43 times, a training step of a mixture of experts."""
    (judged,) = (
        item
        for item in judge_claims([_moe_document(speedup, other_eager_s)], device="NVIDIA Pretender")
        if item.claim.study.name == "moe" and not item.claim.published.unlike
    )
    modes = {"default", "reduce-overhead", "max-autotune"}
    assert (judged.verdict, judged.variant in modes) == (verdict, True), judged.reason


def test_the_newest_row_that_is_ok_counts() -> None:
    run, case = make_run(environment=FACTS), make_case("bert", device="cuda")
    good, bad = (
        make_result(case=case),
        make_result(case=case, outcome=Outcome.FAILED, measurements=()),
    )
    (row,) = newest([make_document(run, results=[good, bad])]).values()
    assert row.result.outcome is Outcome.OK


def test_each_eager_process_is_a_level() -> None:
    document = _moe_document(1.6, 1.3e-3)
    levels = EagerLevels([document], device="NVIDIA Pretender")
    (latencies,) = levels.by_workload.values()
    assert min(latencies) == pytest.approx(1.3e-3)
    assert max(latencies) == pytest.approx(1.6e-3)


def test_there_are_as_many_claims_as_studies_name() -> None:
    assert len(CLAIMS) == 23


def _compiled() -> list[Work]:
    return [once(work) for work in WORKS if work.case.variant == "default"]


def _moe_document(speedup: float, other_eager_s: float) -> Any:
    results = []
    for mode in ("default", "reduce-overhead", "max-autotune"):
        case = make_case(
            "moe",
            family="mixture-of-experts",
            phase="training",
            shape="full",
            dtype="bf16",
            mode=mode,
            device="cuda",
        )
        measured = (
            make_measurement("latency_s", samples=(1e-3,)),
            make_measurement("eager_latency_s", samples=(speedup * 1e-3,)),
            make_measurement("speedup", samples=(speedup,)),
        )
        results.append(make_result(case=case, measurements=measured))
    eager = make_case(
        "moe",
        family="mixture-of-experts",
        phase="training",
        shape="full",
        dtype="bf16",
        mode="eager",
        device="cuda",
    )
    other = (make_measurement("latency_s", samples=(other_eager_s,)),)
    results.append(make_result(case=eager, measurements=other))
    return make_document(make_run(environment=FACTS), results=results)


def test_the_ledger_has_no_path_of_a_machine() -> None:
    text = (
        '{"line": "/home/me/env/lib/python3.12/site-packages/torch/nn/functional.py:12",'
        ' "zoo": "/srv/hud/models_zoo/vision/vit.py:3", "other": "/opt/x/diffusers/models/unet.py",'
        ' "rate": "GB/s", "relative": "models_zoo/bert.py",'
        ' "hint": "`/opt/torch/bin/python3 -m pip install onnx`"}'
    )
    assert json.loads(without_machine_paths(text)) == {
        "line": "site-packages/torch/nn/functional.py:12",
        "zoo": "models_zoo/vision/vit.py:3",
        "other": "diffusers/models/unet.py",
        "rate": "GB/s",
        "relative": "models_zoo/bert.py",
        "hint": "`python -m pip install onnx`",
    }
    content = [gzip.decompress(path.read_bytes()).decode() for path in FOLDER.glob("*.json.gz")]
    assert content
    assert all(without_machine_paths(item) == item for item in content)
