"""The same two commits in other tools, each with the time that `hud compare --repo` took.

Each tool is used as its documentation says, with a threshold of 5 % where it takes one. asv and
pytest-benchmark decide themselves; `torch.utils.benchmark.Compare` and hyperfine print numbers, and
a reader calls a change by the threshold. Compiled code is cached between the processes of a tool.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.answers.planted_repository import PlantedRepository

THRESHOLD = 0.05
# Importing torch and compiling from a warm cache, which no tool counts as sampling.
START_S = 8.0
MIN_SAMPLING_S = 2.0

_ASV_CODE = """
from planted_call import make_call

class Planted:
    timeout = 600
    rounds = 2
    repeat = (5, 1000, {sampling_s})
    warmup_time = 0.2

    def setup(self):
        self.call = make_call()

    def time_call(self):
        self.call()
"""
_PYTEST_CODE = """
from planted_call import make_call

def test_call(benchmark):
    benchmark(make_call())
"""
_TIMER_CODE = """
import json, sys
from torch.utils.benchmark import Timer
from planted_call import make_call

timer = Timer("call()", globals={"call": make_call()}, label="planted", description=sys.argv[1])
measurement = timer.blocked_autorange(min_run_time=float(sys.argv[2]))
json.dump(measurement.median, open(sys.argv[3], "w"))
"""
_LOOP_CODE = """
import sys
from planted_call import make_call

call = make_call()
for _ in range(int(sys.argv[1])):
    call()
"""
# A loop of some seconds, after the start of Python, torch and the compiled code.
_NUM_LOOPS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAnswer:
    """The answer of a tool about two commits, its ratio, and the time that it took."""

    tool: str
    is_regression: bool
    ratio: float | None
    took_s: float

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSetup:
    """An interpreter with asv, pytest-benchmark and torch, the program hyperfine, and a folder."""

    python: Path
    hyperfine: Path
    folder: Path

    def run(
        self, *command: str | Path | int, cwd: Path, models: Path, is_checked: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` where the model of `models` can be imported."""
        env = {
            **os.environ,
            # asv looks for an interpreter of its version there.
            "PATH": f"{self.python.parent}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": f"{models}:{os.environ.get('PYTHONPATH', '')}",
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if is_checked and done.returncode:
            raise RuntimeError(f"{command[:3]} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done


def sampling_s(budget_s: float, *, num_processes: int) -> float:
    """Return the seconds of sampling of each of `num_processes` within `budget_s`."""
    return max(MIN_SAMPLING_S, budget_s / num_processes - START_S)


def asv_continuous(repository: PlantedRepository, *, setup: PeerSetup, budget_s: float) -> Any:
    """Return whether `asv continuous` calls it a regression, and its ratio."""
    folder = setup.folder / "asv"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").write_text("")
    # Two rounds of each commit, interleaved.
    seconds = sampling_s(budget_s, num_processes=4)
    code = _ASV_CODE.format(sampling_s=seconds)
    (folder / "benchmarks" / "planted_bench.py").write_text(code)
    packages = setup.run(
        setup.python, "-c", "import torch; print(torch.__path__[0])", cwd=folder, models=folder
    ).stdout.strip()
    version = setup.run(
        *(setup.python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"),
        cwd=folder,
        models=folder,
    ).stdout.strip()
    link = (
        "import pathlib, sysconfig; pathlib.Path(sysconfig.get_paths()['purelib'], 'own.pth')"
        f".write_text('{Path(packages).parent}\\n{{build_dir}}/models\\n')"
    )
    config = {
        "version": 1,
        "project": "planted",
        "repo": str(repository.folder),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "pythons": [version],
        "build_command": [],
        "install_command": [f'python -c "{link}"'],
        "uninstall_command": ['python -c "pass"'],
        "benchmark_dir": "benchmarks",
    }
    (folder / "asv.conf.json").write_text(json.dumps(config))
    setup.run(setup.python, "-m", "asv", "machine", "--yes", cwd=folder, models=folder)
    done = setup.run(
        *(setup.python, "-m", "asv", "continuous", "--interleave-rounds", "--show-stderr"),
        *("--factor", str(1 + THRESHOLD), repository.base, repository.head),
        cwd=folder,
        models=folder,
        is_checked=False,
    )
    ratio = re.search(r"([0-9.]+)\s*\|?\s*planted_bench", done.stdout)
    if "planted_bench" not in done.stdout and "BENCHMARKS NOT" not in done.stdout:
        raise RuntimeError(f"asv failed: {done.stdout[-1500:]} {done.stderr[-1500:]}")
    is_regression = "PERFORMANCE DECREASED" in done.stdout
    return is_regression, float(ratio[1]) if ratio else None


def pytest_benchmark(repository: PlantedRepository, *, setup: PeerSetup, budget_s: float) -> Any:
    """Return whether `--benchmark-compare-fail=median:5%` fails, and the ratio of medians."""
    folder = setup.folder / "pytest"
    folder.mkdir()
    (folder / "test_planted.py").write_text(_PYTEST_CODE)
    seconds = sampling_s(budget_s, num_processes=2)
    common = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--benchmark-max-time={seconds}")
    base, head = (checkout / "models" for checkout in repository.checkouts)
    setup.run(setup.python, *common, "--benchmark-save=base", cwd=folder, models=base)
    done = setup.run(
        *(setup.python, *common, "--benchmark-save=head", "--benchmark-compare=0001"),
        f"--benchmark-compare-fail=median:{100 * THRESHOLD:g}%",
        cwd=folder,
        models=head,
        is_checked=False,
    )
    medians = [
        json.loads(path.read_text())["benchmarks"][0]["stats"]["median"]
        for path in sorted(folder.glob(".benchmarks/*/*.json"))
    ]
    if len(medians) != 2:
        raise RuntimeError(f"pytest-benchmark failed: {done.stdout[-1500:]}")
    return done.returncode != 0, medians[1] / medians[0]


def torch_compare(repository: PlantedRepository, *, setup: PeerSetup, budget_s: float) -> Any:
    """Return whether the medians that `Compare` prints differ by the threshold, and the ratio."""
    folder = setup.folder / "timer"
    folder.mkdir()
    (folder / "measure.py").write_text(_TIMER_CODE)
    seconds = sampling_s(budget_s, num_processes=2)
    medians = []
    for name, checkout in zip(("base", "head"), repository.checkouts, strict=True):
        path = folder / f"{name}.json"
        setup.run(
            *(setup.python, folder / "measure.py", name, str(seconds), path),
            cwd=folder,
            models=checkout / "models",
        )
        medians.append(json.loads(path.read_text()))
    ratio = medians[1] / medians[0]
    return ratio >= 1 + THRESHOLD, ratio


def hyperfine(repository: PlantedRepository, *, setup: PeerSetup, budget_s: float) -> Any:
    """Return whether the means of two runs of hyperfine differ by the threshold, and the ratio."""
    folder = setup.folder / "hyperfine"
    folder.mkdir()
    (folder / "loop.py").write_text(_LOOP_CODE)
    loop = (setup.python, folder / "loop.py", _NUM_LOOPS)
    # Once for each side: the first run of each compiles.
    durations_s = []
    for checkout in repository.checkouts:
        started_s = time.monotonic()
        setup.run(*loop, cwd=folder, models=checkout / "models")
        durations_s.append(time.monotonic() - started_s)
    num_runs = max(2, int((budget_s - sum(durations_s)) / 2 / min(durations_s)))
    means = []
    for checkout in repository.checkouts:
        path = folder / "result.json"
        setup.run(
            *(setup.hyperfine, "--runs", num_runs, "--export-json", path),
            " ".join(str(part) for part in loop),
            cwd=folder,
            models=checkout / "models",
        )
        means.append(json.loads(path.read_text())["results"][0]["mean"])
    ratio = means[1] / means[0]
    return ratio >= 1 + THRESHOLD, ratio


Peer = Callable[..., Any]
PEERS: dict[str, Peer] = {
    "asv continuous": asv_continuous,
    "pytest-benchmark compare": pytest_benchmark,
    "torch.utils.benchmark.Compare": torch_compare,
    "hyperfine": hyperfine,
}


def ask(
    tool: str, repository: PlantedRepository, *, setup: PeerSetup, budget_s: float
) -> PeerAnswer:
    """Return the answer of `tool` about the two commits of `repository`."""
    started_s = time.monotonic()
    is_regression, ratio = PEERS[tool](repository, setup=setup, budget_s=budget_s)
    return PeerAnswer(
        tool=tool,
        is_regression=is_regression,
        ratio=ratio,
        took_s=time.monotonic() - started_s,
    )
