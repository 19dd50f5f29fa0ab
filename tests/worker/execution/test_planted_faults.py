"""Planted faults of the measurement: each is detected, and reported on the case result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.execution.local_executor import LocalExecutor
from tests.support.runs.launches import order

# Joins the worker on its core: the last one that this process may use.
SPIN = """
import os
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
print("spinning", flush=True)
while True:
    pass
"""


@pytest.fixture
def busy_neighbour() -> Iterator[None]:
    # A session of its own, or it would share its time with whatever else the tests run.
    process = subprocess.Popen(
        [sys.executable, "-c", SPIN], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"spinning\n"
    yield
    process.kill()
    process.communicate()


def measured(executor: LocalExecutor, kind: str) -> CaseResult:
    result = executor.execute(order(kind, num_rounds=30, budget_s=60.0))
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)
    return result


@pytest.mark.usefixtures("busy_neighbour")
def test_a_busy_neighbour_on_the_same_core_is_noticed(executor: LocalExecutor) -> None:
    result = measured(executor, "plain")
    (warning,) = [item for item in result.warnings if item.code == "noisy-neighbour"]
    (conditions,) = result.details["conditions"]
    assert conditions["cpu_share"] < 0.9
    assert f"core {max(os.sched_getaffinity(0))}," in warning.hint
    latency = result.measurement("latency_s")
    on_cpu = result.measurement("latency_cpu_s")
    assert latency is not None
    assert on_cpu is not None
    assert sum(on_cpu.samples) < 0.9 * sum(latency.samples)


def test_after_a_warm_up_cliff_the_settled_latency_is_reported(executor: LocalExecutor) -> None:
    result = measured(executor, "warmingup")
    (sampling,) = result.details["sampling"]
    assert sampling["num_falls"] >= 1
    assert sampling["is_settled"]
    latency = result.measurement("latency_cpu_s")
    assert latency is not None
    assert len(latency.samples) == 30
    # The cliff is a hundredfold; what comes after it is all that counts.
    assert max(latency.samples) < latency.warmups[0] / 5
    assert sampling["num_warmup_rounds"] == len(latency.warmups)
    # Six products before the cliff made a sample of one call, which is too short after it.
    assert sampling["iterations_per_sample"]["variant"] > 1


def test_a_latency_with_two_modes_is_noticed(executor: LocalExecutor) -> None:
    result = measured(executor, "alternating")
    assert "bimodal" in [warning.code for warning in result.warnings]
