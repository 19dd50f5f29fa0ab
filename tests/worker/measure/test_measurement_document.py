"""Constants, steps and metrics in the documents of the measurement are those of the code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from compile_hud.db.records.metrics import METRICS
from compile_hud.runner.measure import steps
from tests.support.sources import ROOT, module_of, python_files, text_of

TABLES = module_of("docs/measurement_tables.py")
PAGE = text_of("docs/explanation/measurement.md")
COLUMNS = "metric, unit, method, clock, formula, missing when, and why, checked against"
CONSTANTS = [
    (module, name)
    for modules in (
        TABLES.MEASUREMENT_CONSTANTS,
        TABLES.MODE_CONSTANTS,
        TABLES.KERNEL_CONSTANTS,
    )
    for module, rows in modules.items()
    for name, _unit, _meaning in rows
] + [(TABLES.ACCURACY, name) for name in TABLES.ACCURACY_LIMITS]


def metric_rows() -> list[list[str]]:
    """Return the cells of each row of the methods of all metrics, the header first."""
    section = text_of("docs/reference/metrics.md").partition("\n## Methods\n")[2]
    lines = [line.strip() for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]
    return [header, *rows]


ROWS = metric_rows()[1:]


@cache
def all_tests() -> str:
    return "".join(text_of(name) for name in python_files("tests"))


def row_name(row: Sequence[str]) -> str:
    return row[0].strip("`")


@pytest.mark.parametrize(("module", "name"), CONSTANTS)
def test_a_constant_of_the_page_has_its_value_of_the_code(module: str, name: str) -> None:
    path = module if module.startswith("db/") else f"runner/{module}"
    imported = import_module(f"compile_hud.{path.removesuffix('.py').replace('/', '.')}")
    assert TABLES.constant_of(ROOT / path, name) == getattr(imported, name)


@pytest.mark.parametrize(("page", "least"), [("measurement", 10), ("modes", 3), ("kernels", 5)])
def test_each_constant_that_the_text_names_is_in_its_table(page: str, least: int) -> None:
    whole = text_of(f"docs/explanation/{page}.md")
    text, _, generated = whole.partition("\n## Constants\n")
    named = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", text)) - {"TORCH_TRACE"}
    assert len(named) >= least
    assert [name for name in sorted(named) if f"\n| `{name}` | " not in generated] == []


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.005, "s", "5 ms"),
        (1e-5, "s", "10 us"),
        (1.0, "s", "1 s"),
        (0.97, "%", "97 %"),
        (0.002, "%", "0.2 %"),
        (0.1, "%", "10 %"),
        (1.0, "%", "100 %"),
        (1024, "B", "1 KiB"),
        (256 << 20, "B", "256 MiB"),
        (2.0, "x", "2 x"),
        (50, "", "50"),
        (1e8, "", "100,000,000"),
    ],
)
def test_a_constant_is_shown_with_its_unit(value: object, unit: str, shown: str) -> None:
    assert TABLES._shown(value, unit) == shown


def test_a_constant_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("LIMIT = 2 * HALF\nHALF = [1]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="LIMIT is no number"):
        TABLES.constant_of(path, "LIMIT")


def test_the_page_lists_the_steps_in_order() -> None:
    indices = [PAGE.index(f"\n| {step} |") for step in steps.STEP_ORDER]
    assert indices == sorted(indices)


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
    assert [name for name in tests if f"def {name}(" not in all_tests()] == []
