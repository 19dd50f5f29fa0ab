"""Numbers in docs/explanation/methodology.md that also live in code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from compile_hud.db.records.memory.peak import MAX_HOLDERS
from compile_hud.db.records.metrics import METRICS
from compile_hud.runner.measure import shape_sweep as shapes
from compile_hud.runner.measure import steps
from compile_hud.runner.measure.accuracy import metrics as accuracy
from compile_hud.runner.measure.accuracy import oracle_cache
from compile_hud.runner.measure.compile import compiler as compiling
from compile_hud.runner.measure.compile import peak_memory
from compile_hud.runner.measure.latency import steady_state as settling
from compile_hud.runner.measure.latency import timing
from compile_hud.runner.measure.resources import counters_step, energy, telemetry

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "explanation" / "methodology.md").read_text(encoding="ascii")
WORDS = " ".join(TEXT.split())
COLUMNS = "metric, unit, method, clock, formula, missing when, and why, checked against"


def metric_rows() -> list[list[str]]:
    """Return the cells of each row of the table of every metric, the header first."""
    section = TEXT.partition("\n## Every metric\n")[2].partition("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]
    return [header, *rows]


ROWS = metric_rows()[1:]


def row_name(row: Sequence[str]) -> str:
    return row[0].strip("`")


@pytest.mark.parametrize(
    "statement",
    [
        f"lasts {timing.SAMPLE_S * 1e3:g} ms (`SAMPLE_S`)",
        f"at least {timing.MIN_ROUNDS} (`MIN_ROUNDS`)",
        f"the last {settling.STEADY_ROUNDS} (`STEADY_ROUNDS`)",
        f"within {settling.STEADY_SPREAD * 100:g} % (`SETTLED_SPREAD`)",
        f"at most {timing.MAX_WARMUP_ROUNDS} (`MAX_WARMUP_ROUNDS`)",
        f"the first {compiling.NUM_COMPILE_CALLS} (`NUM_COMPILE_CALLS`) calls",
        f"reads their marks every {peak_memory.MIN_INTERVAL_S * 1e3:g} ms and takes at most"
        f" {peak_memory.MAX_SHARE:.1%} of a core".replace("%", " %"),
        f"at most every {telemetry.MIN_INTERVAL_S * 1e3:g} ms (`MIN_INTERVAL_S`)",
        f"The {MAX_HOLDERS} (`MAX_HOLDERS`) largest operators",
        f"at least {energy.NVML_S:g} s on a GPU (`NVML_S`)",
        f"after {energy.NVML_SETTLE_S:g} s (`NVML_SETTLE_S`)",
        f"{energy.RAPL_S:g} s on a CPU (`RAPL_S`)",
        f"batches of {energy.BATCH_S * 1e3:g} ms",
        f"Up to {counters_step.NUM_SAMPLES} (`NUM_SAMPLES`) samples",
        f"within {counters_step.BUDGET_S:g} s (`BUDGET_S`), of a slow model one",
        f"not below {accuracy.MIN_COSINE['fp32']} (fp32)",
        f"{accuracy.MIN_COSINE['tf32']} (tf32;"
        f" {accuracy.GRADIENT_MIN_COSINE['tf32']} for gradients)",
        f"or {accuracy.MIN_COSINE['bf16']} (bf16, fp16 and both under autocast;"
        f" {accuracy.GRADIENT_MIN_COSINE['bf16']} for their gradients)",
        f"relative {accuracy.ROUNDING_RMSE['fp32']} in fp32",
        f"{accuracy.ROUNDING_RMSE['bf16']} in bf16 and bf16-autocast",
        f"{accuracy.ROUNDING_RMSE['fp16']} in tf32, fp16 and fp16-autocast",
        f"or within {accuracy.RMSE_FACTOR:g} times the RMS error of eager",
        f"tie: {100 * accuracy.DISCRETE_SHARE:g} %",
        f"{oracle_cache.MAX_SHARED_BYTES >> 20} MiB (`MAX_SHARED_BYTES`)",
        f"up to {shapes.NUM_ROUNDS} (`NUM_ROUNDS`) rounds within",
        f"within {shapes.BUDGET_S:g} s (`BUDGET_S`), at least",
        f"at least {shapes.MIN_ROUNDS} (`MIN_ROUNDS`). `details.shapes`",
        f"beyond {shapes.TIME_SHARE:g} (`TIME_SHARE`) of the case's time",
        f"with a cosine below {accuracy.MIN_EAGER_COSINE:g} prove nothing",
    ],
)
def test_numbers_of_the_methodology_are_those_of_the_code(statement: str) -> None:
    assert statement in WORDS


def test_the_methodology_lists_the_steps_in_order() -> None:
    places = [TEXT.index(f"| {step} |") for step in steps.STEP_ORDER]
    assert places == sorted(places)


def test_every_metric_has_exactly_one_row_and_no_row_is_stale() -> None:
    assert Counter(row_name(row) for row in ROWS) == Counter(METRICS.keys())


def test_every_row_has_every_cell() -> None:
    assert ", ".join(metric_rows()[0]) == COLUMNS
    assert [row[0] for row in ROWS if len(row) != 7 or not all(row)] == []


@pytest.mark.parametrize("row", ROWS, ids=row_name)
def test_a_row_has_the_unit_of_its_metric(row: Sequence[str]) -> None:
    assert row[1] == METRICS[row_name(row)].unit


@pytest.mark.parametrize("row", ROWS, ids=row_name)
def test_a_row_names_a_check_that_exists(row: Sequence[str]) -> None:
    tests = re.findall(r"`(test_\w+)`", row[6])
    benchmarks = re.findall(r"`(benchmarks/[\w./]+)`", row[6])
    assert tests or benchmarks
    assert [name for name in benchmarks if not (ROOT / name).exists()] == []
    sources = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert [name for name in tests if not any(f"def {name}(" in text for text in sources)] == []
