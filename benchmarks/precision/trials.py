"""Compare models with themselves and with a slower twin, over and over, as a gate would.

Each trial is one paired comparison of the product (`measure_pair`) with a floor of 5 %. Half of the
trials compare equal code; in the other half the candidate does 5 % more of the same work
(benchmarks/planted.py). The document is written anew after each trial, so that a run may be ended
at any time. `--resume` continues the document.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

from benchmarks.precision.rates import summarise
from benchmarks.startup import RESULTS, ROOT, describe_machine
from compile_hud.db.records.results import Case, Dtype, Phase, Verdict
from compile_hud.models_zoo.catalog.variants import VARIANTS
from compile_hud.runner.analysis.comparison.runs import DEFAULT_FAIL_ABOVE, CaseComparison
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.execution.paired_launches import PairLimits, PairSide, measure_pair
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.messages import MeasureSettings, Workload

# 1: first version.
SCHEMA_VERSION = 1
KINDS = ("linear", "convolution", "attention", "chain")
NUM_BLOCKS = 20
# Enough passes that the constant cost of a call is no part of the 5 %: with 20 passes, one more
# took 4 % longer for tiny operators. The blocks take turns.
NUM_PASSES = 80
# Short launches, and many: launches differ by more than the samples of one.
SETTINGS = MeasureSettings(num_rounds=20, budget_s=0.4, target_interval=0.0)
LIMITS = PairLimits()
MORE_WORK = 1.05


def order(kind: str, *, variant: str, num_passes: int) -> CaseOrder:
    """Return the order of `num_passes` passes through blocks of `kind`."""
    way = VARIANTS[variant]
    case = Case(
        model=f"planted-{kind}",
        family="planted",
        phase=Phase.INFERENCE,
        shape="default",
        dtype=Dtype.FP32,
        mode=way.mode,
        variant=way.name,
        backend=way.backend,
        device="cpu",
    )
    workload = Workload(
        build=f"{ROOT / 'benchmarks' / 'planted.py'}:blocks",
        config={"kind": kind, "num_blocks": NUM_BLOCKS, "num_passes": num_passes},
        num_samples=1,
        num_tokens=None,
    )
    return CaseOrder(run_id="trial", case=case, workload=workload, settings=SETTINGS)


def run_trial(
    executor: LocalExecutor, *, subject: tuple[str, str], planted: float, limits: PairLimits
) -> dict[str, Any]:
    """Return the result of one paired comparison of a candidate `planted` times as slow."""
    started_s = time.monotonic()
    kind, variant = subject
    sides = [
        PairSide(executor=executor, order=order(kind, variant=variant, num_passes=num_passes))
        for num_passes in (NUM_PASSES, round(NUM_PASSES * planted))
    ]
    result = measure_pair(sides[0], sides[1], limits=limits)
    times = {row.metric: row for row in result.rows}
    clock = "latency_cpu_s" if "latency_cpu_s" in times else "latency_s"
    measured = result.baseline.measurement(clock)
    assert measured is not None, result.baseline.reason
    return {
        "subject": " ".join(subject),
        "planted": planted,
        "verdict": str(times[clock].comparison.verdict),
        "time": row_json(times[clock]),
        "changes": [
            row_json(row)
            for row in result.rows
            if row.comparison.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
        ],
        "num_launches": len(measured.launches),
        "seconds": round(time.monotonic() - started_s, 2),
        "load": round(os.getloadavg()[0], 2),
    }


def row_json(row: CaseComparison) -> dict[str, Any]:
    """Return the fields of one row that a trial stores."""
    comparison = row.comparison
    return {
        "metric": row.metric,
        "ratio": comparison.ratio,
        "interval": [comparison.low, comparison.high],
        "verdict": str(comparison.verdict),
    }


def plan(
    variants: Sequence[str], *, num_same: int, num_planted: int
) -> Iterator[tuple[tuple[str, str], float]]:
    """Return subject and factor of each trial: equal code and slowed down in turn, round robin."""
    subjects = cycle(product(KINDS, variants))
    for number, subject in enumerate(islice(subjects, max(num_same, num_planted))):
        if number < num_same:
            yield subject, 1.0
        if number < num_planted:
            yield subject, MORE_WORK


def document_of(trials: list[dict[str, Any]], *, machine: dict[str, Any]) -> dict[str, Any]:
    """Return the document to write."""
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "precision_trials",
        "at": datetime.now(timezone.utc).isoformat(),
        "machine": machine,
        "fail_above": DEFAULT_FAIL_ABOVE,
        "summary": summarise(trials),
        "trials": trials,
    }


def main() -> int:
    """Run the trials and update the document after each; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--same", type=int, default=60, help="trials of equal code")
    parser.add_argument("--planted", type=int, default=60, help="trials of 5 %% more work")
    parser.add_argument(
        "--variants", nargs="+", default=["eager"], help="`default` takes minutes a trial"
    )
    parser.add_argument("--max-launches", type=int, default=LIMITS.max_launches)
    parser.add_argument("--resume", action="store_true", help="go on with the document there is")
    parser.add_argument("--output", type=Path, default=RESULTS / "precision_trials.json")
    arguments = parser.parse_args()
    trials: list[dict[str, Any]] = []
    machine = describe_machine()
    if arguments.resume and arguments.output.exists():
        document = json.loads(arguments.output.read_text(encoding="utf-8"))
        trials, machine = document["trials"], document["machine"]
    limits = PairLimits(min_launches=LIMITS.min_launches, max_launches=arguments.max_launches)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        executor = LocalExecutor(python=Path(sys.executable), state_dir=Path(folder))
        executor.open()
        try:
            todo = plan(arguments.variants, num_same=arguments.same, num_planted=arguments.planted)
            for subject, planted in islice(todo, len(trials), None):
                trials.append(run_trial(executor, subject=subject, planted=planted, limits=limits))
                write_json(arguments.output, document_of(trials, machine=machine))
        finally:
            executor.close()
    print(json.dumps(summarise(trials), indent=1))
    print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
