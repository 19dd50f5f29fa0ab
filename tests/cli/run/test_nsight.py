"""hud run --nsys, --ncu: the commands, and a profiler that is there and does as NVIDIA's do."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.runner.cli.run.nsight_commands import METRICS, Command, run_commands
from compile_hud.runner.errors import ProfilerFailed
from compile_hud.runner.protocol.messages import LaunchReport, LaunchRequest
from tests.support.builders import START, make_document, make_kernel, make_result, make_run
from tests.support.runs.launches import order
from tests.support.terminal import Terminal

WORDS = ("--model", "net", "--mode", "default", "--device", "cuda")
ADD = make_kernel("triton_poi_fused_add_0", library="triton")
# A profiler that notes its arguments, and the variable without which it sees no range of PyTorch.
FAKE = """#!/bin/sh
echo "$NSYS_NVTX_PROFILER_REGISTER_ONLY $@" >> calls.txt
if [ "$1" = stats ]; then
    echo "Processing [nsys.sqlite] ..."
    echo "Time (%),Total Time (ns),Instances,Name"
    echo "100.0,6000,3,triton_poi_fused_add_0"
fi
exit ${FAKE_STATUS:-0}
"""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder that is the first place where programs are looked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    return Terminal(tmp_path)


def install(name: str) -> None:
    path = Path("bin") / name
    path.write_text(FAKE)
    path.chmod(0o755)


def request() -> LaunchRequest:
    """Return what was left for the profiler to start."""
    (path,) = Path(".hud/nsight").glob("*/request.json")
    return LaunchRequest.from_json(json.loads(path.read_text()))


def store_kernels(terminal: Terminal, **facts: Any) -> None:
    """Store a run of the case that was left, with `facts`, and its result with a kernel."""
    run = make_run(**{"plan": [request().case], "toolchain": "current", **facts})
    result = make_result(f"of-{run.id}", run=run, kernels=[ADD])
    Path("out.json").write_text(json.dumps(make_document(run, results=[result]).to_json()))
    assert terminal.hud("ingest", "out.json").exit_code == 0


def test_commands_are_printed_where_the_profiler_is_not(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", *WORDS, "--nsys")
    assert result.exit_code == 0
    assert result.stderr == words
    measure, profile, stats, keep = result.stdout.splitlines()
    folder = Path(".hud/nsight/net-inference-default-fp32-default-cuda").absolute()
    assert measure.startswith("hud run --model net --mode default --phase inference --dtype fp32")
    assert "NSYS_NVTX_PROFILER_REGISTER_ONLY=0 nsys profile " in profile
    assert " --capture-range=nvtx --nvtx-capture=hud/kernels " in profile
    assert profile.endswith(f" -m compile_hud.runner.measure.single_launch {folder}/request.json")
    assert stats.startswith("nsys stats --report=cuda_gpu_kern_sum --format=csv ")
    assert stats.endswith(f" > {folder}/nsys.csv")
    key = "net/inference/default/fp32/default/cuda"
    assert keep == f"hud kernels counters latest {key} {folder}/nsys.csv"


def test_counters_are_those_of_iterations_alone(terminal: Terminal) -> None:
    count = terminal.hud("run", *WORDS, "--ncu").stdout.splitlines()[1]
    words = shlex.split(count)
    assert words[words.index("--nvtx-include") + 1] == r"hud\/iteration/"
    assert words[words.index("--metrics") + 1] == ",".join(METRICS)
    assert words[words.index("--log-file") + 1].endswith("/ncu.csv")


def test_what_is_watched_is_one_short_launch_without_a_profiler_of_ours(
    terminal: Terminal,
) -> None:
    terminal.hud("run", *WORDS, "--ncu")
    left = request()
    assert (left.is_watched, left.launch, left.trace_path) == (True, 0, "")
    assert (left.settings.num_launches, left.settings.num_rounds) == (1, 5)


def test_a_profiler_that_is_there_is_run_and_its_counters_kept(terminal: Terminal) -> None:
    terminal.hud("run", *WORDS, "--nsys")
    store_kernels(terminal)
    install("nsys")
    result = terminal.hud("run", *WORDS, "--nsys")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 4
    assert result.stdout.endswith("nsys.csv: 2 counters for 1 of 1 kernel\n")
    profile, stats = Path("calls.txt").read_text().splitlines()
    assert profile.startswith("0 profile ")
    assert stats.startswith(" stats ")
    (kernel,) = terminal.json("kernels", "latest", "net", "--json")["kernels"]
    assert kernel["launch"]["counters"]["nsys.calls"]["value"] == 3.0


def test_counters_go_to_the_newest_kernels_of_this_machine_and_toolchain(
    terminal: Terminal,
) -> None:
    terminal.hud("run", *WORDS, "--ncu")
    hours = [START + timedelta(hours=number) for number in range(4)]
    store_kernels(terminal, id="older", started_at=hours[0])
    store_kernels(terminal, id="ours", started_at=hours[1])
    store_kernels(terminal, id="elsewhere", started_at=hours[2], machine="other")
    store_kernels(terminal, id="nightly", started_at=hours[3], toolchain="nightly")
    keep = terminal.hud("run", *WORDS, "--ncu").stdout.splitlines()[-1]
    assert keep.startswith("hud kernels counters ours net/inference/")


def test_a_profiler_that_fails_is_reported_with_its_command(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.hud("run", *WORDS, "--nsys")
    store_kernels(terminal)
    install("nsys")
    monkeypatch.setenv("FAKE_STATUS", "7")
    result = terminal.hud("run", *WORDS, "--nsys")
    assert result.exit_code == 2
    assert "`nsys profile` ended with 7; what it said stands above" in result.stderr
    assert len(Path("calls.txt").read_text().splitlines()) == 1


def test_nothing_is_run_while_counters_have_no_kernels_to_go_to(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    install("ncu")
    result = terminal.hud("run", *WORDS, "--ncu")
    assert result.exit_code == 2
    assert result.stderr == words
    assert not Path("calls.txt").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--model", "net", "--device", "cuda"),
        (*WORDS[:-1], "cpu"),
        WORDS[:-2],
        (*WORDS, "--no-store"),
        (*WORDS, "--toolchain", "none"),
    ],
)
def test_an_unsupported_profile_is_one_line(
    terminal: Terminal, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", *arguments, "--nsys")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == words
    assert not Path(".hud/nsight").exists()


def test_a_command_is_quoted_for_a_shell() -> None:
    command = Command(words=["a b", "c"], variables={"X": "1 2"}, output=Path("/o ut"))
    assert command.text == "X='1 2' 'a b' c > '/o ut'"


def test_the_first_command_that_fails_is_the_last_one(words: SnapshotAssertion) -> None:
    with pytest.raises(ProfilerFailed) as caught:
        run_commands([Command(words=["false", "now"]), Command(words=["no such program"])])
    assert caught.value.parameters == {"returncode": 1, "command": "false now"}
    assert str(caught.value) == words


def test_a_launch_alone_leaves_its_report(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: SnapshotAssertion,
) -> None:
    from compile_hud.runner.measure import single_launch as alone

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    order_of_case = order("plain")
    launch = LaunchRequest(
        case=order_of_case.case,
        workload=order_of_case.workload,
        settings=order_of_case.settings,
        launch=0,
        cache_dir=str(tmp_path / "cache"),
        report_path=str(tmp_path / "report.json"),
        log_path="",
        is_watched=True,
    )
    path = tmp_path / "request.json"
    seen = []

    def run_launch(request: LaunchRequest) -> LaunchReport:
        seen.append((request, os.environ["TORCHINDUCTOR_CACHE_DIR"]))
        return LaunchReport(outcome=Outcome(request.case.model), reason="no memory")

    monkeypatch.setattr(alone, "run_launch", run_launch)
    for outcome, status in (("ok", 0), ("out_of_memory", 1)):
        changed = replace(launch, case=replace(order_of_case.case, model=outcome))
        path.write_text(json.dumps(changed.to_json()))
        assert alone.main([str(path)]) == status
        assert seen[-1] == (changed, changed.cache_dir)
        report = LaunchReport.from_json(json.loads((tmp_path / "report.json").read_text()))
        assert report.outcome == outcome
    assert capsys.readouterr().err == words
