"""The pages about detection, comparison and alerts agree with the code that they describe."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from compile_hud.db.records.metrics import Direction
from compile_hud.runner.analysis.comparison.log_change import LogChange
from compile_hud.runner.analysis.comparison.measurements import (
    FAMILY_ERROR,
    Judgement,
    decide_change,
)
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise
from compile_hud.runner.analysis.comparison.paired import PairStandard, looks
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.evidence import EvidenceThreshold, Scales
from compile_hud.runner.analysis.detection.false_discovery import step_p_value
from compile_hud.runner.analysis.detection.sequential_test import CusumState
from compile_hud.runner.analysis.detector import Step, describe_steps
from compile_hud.runner.analysis.stats.estimates import (
    MEDIAN_INEFFICIENCY,
    Spread,
    robust_sd,
    student_quantile,
)
from compile_hud.runner.execution.paired_launches import PairLimits
from tests.support.sources import module_of

PAGES = Path(__file__).parents[2] / "docs" / "explanation"
TABLES = module_of("docs/detection_tables.py")
FLOOR = 0.05
GENERATED = re.compile(r"<!-- generated: .*?<!-- end generated -->", re.DOTALL)
CODE = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# `(`name`)` or `(`name`, `name`)` after the numbers in a sentence.
NAMES = re.compile(r"\((`\w+`(?:, `\w+`)*)\)")
NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?")
WORDS = {"half": 0.5, "a quarter": 0.25, "a third": 1 / 3}
HISTORY = re.compile(r"(\d+) x \(([\d. ]+)\)|([\d.]+)")

CONSTANTS = dataclasses.asdict(DEFAULT_CONFIG) | {
    name: getattr(module, name)
    for modules in (
        TABLES.COMPARISON_CONSTANTS,
        TABLES.ALERT_CONSTANTS,
        TABLES.DENSITY_CONSTANTS,
    )
    for module, names in modules.items()
    for name in names
}


def page(name: str) -> str:
    """Return the text of a page, without its generated parts."""
    return GENERATED.sub("", (PAGES / f"{name}.md").read_text(encoding="utf-8"))


def numbers_in(text: str) -> set[float]:
    written = {float(number) for number in NUMBER.findall(text)}
    return written | {value for word, value in WORDS.items() if word in text}


def forms(value: float) -> set[float]:
    """Return the numbers that a text may give for a constant: itself, in percent, a year of it."""
    others = (value, 100 * value, 100 * (value - 1), 1 / value, 365 * value)
    return {round(number, 4) for number in others}


def mentions() -> Iterator[tuple[str, str, set[float]]]:
    """Yield page, constant and the numbers next to it, for each constant that a page names."""
    for name in ("detection", "comparison", "alerts"):
        text = page(name)
        for block in CODE.findall(text):
            for line in block.splitlines():
                for word in re.findall(r"\w+", line.partition("#")[2]):
                    if word in CONSTANTS:
                        yield name, word, numbers_in(line)
        prose = " ".join(CODE.sub("", text).split())
        for match in NAMES.finditer(prose):
            before = prose[max(0, match.start() - 110) : match.start()]
            for word in re.findall(r"\w+", match[1]):
                if word in CONSTANTS:
                    yield name, word, numbers_in(before)


@pytest.mark.parametrize(("name", "constant", "numbers"), [*mentions()])
def test_a_number_next_to_the_name_of_a_constant_is_its_value(
    name: str, constant: str, numbers: set[float]
) -> None:
    value = CONSTANTS[constant]
    for item in value if isinstance(value, tuple) else (value,):
        assert forms(item) & {round(number, 4) for number in numbers}, (name, constant)


def test_the_pages_name_the_constants_that_decide() -> None:
    assert len({constant for _, constant, _ in mentions()}) >= 60


def test_each_constant_of_the_detector_is_in_the_table_with_its_meaning() -> None:
    text = TABLES.detector_constants()
    for field in dataclasses.fields(DEFAULT_CONFIG):
        (meaning,) = re.findall(rf"^\| `{field.name}` \| [^|]+ \| (.*) \|$", text, re.MULTILINE)
        assert meaning.endswith(".")
        assert meaning[0].isupper()


@pytest.mark.parametrize("modules", [TABLES.COMPARISON_CONSTANTS, TABLES.ALERT_CONSTANTS])
def test_each_constant_of_a_module_has_a_meaning(modules: object) -> None:
    assert "|  |" not in TABLES.module_constants(modules)


def test_a_comment_above_a_constant_is_its_meaning() -> None:
    source = "# Group.\n\n# One\n# two.\nFIRST = 1\nSECOND: Final = 2\n\n# Not a constant.\nx()\n"
    rows = [(row.name, row.group, row.meaning) for row in TABLES.constants_in(source)]
    assert rows == [("FIRST", "Group", "One two."), ("SECOND", "Group", "")]


def rows_of(name: str, *, header: str) -> list[list[str]]:
    """Return the cells of the table in a page whose first line is `header`."""
    lines = page(name).split(f"{header}\n", 1)[1].splitlines()[1:]
    table = lines[: next(n for n, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table]


def history(text: str) -> np.ndarray:
    values: list[float] = []
    for num, nights, single in HISTORY.findall(text):
        values += [float(night) for night in nights.split()] * int(num) if num else [float(single)]
    return np.array(values)


def steps_of(values: np.ndarray) -> list[Step]:
    return [step for step in describe_steps(values, floor=FLOOR) if not step.is_return]


def p_value(step: Step, values: np.ndarray) -> float:
    return step_p_value(values[step.start : step.index], values[step.index : step.end])


def first_report(values: np.ndarray, *, num_series: int = 0) -> str:
    """Return the night of the change on which it is reported, in a run of so many series."""
    for seen in range(1, values.size + 1):
        for step in steps_of(values[:seen]):
            p = p_value(step, values[:seen])
            if not num_series or p <= DEFAULT_CONFIG.false_discovery_rate / num_series:
                return str(seen - step.index)
    return "never"


@pytest.mark.parametrize(
    "row", rows_of("detection", header="| history | detected | alert | reason |")
)
def test_the_detector_reports_each_history_as_the_page_says(row: list[str]) -> None:
    values = history(row[0])
    assert [first_report(values), first_report(values, num_series=100)] == row[1:3]


def worked_example() -> tuple[np.ndarray, list[list[str]]]:
    quiet = history(page("detection").split("## Worked example")[1].split("```")[1])
    rows = rows_of(
        "detection",
        header="| night | value | distance | S | E | need | small | blip | mode | limit | step |",
    )
    return quiet, rows


def test_the_worked_example_is_computed_by_the_detector() -> None:
    quiet, rows = worked_example()
    logs = np.log(quiet) / math.log1p(FLOOR)
    base, noise = float(np.median(logs)), logs - np.median(logs)
    error = MEDIAN_INEFFICIENCY**2 * (1 / quiet.size - 1 / DEFAULT_CONFIG.level_points)
    scales = Scales(noise, level_error=error)
    threshold = EvidenceThreshold(num_noise=quiet.size, num_level=quiet.size)
    state, distances = CusumState(1, DEFAULT_CONFIG), []
    for night, row in enumerate(rows, start=quiet.size):
        distances.append(math.log(float(row[1])) / math.log1p(FLOOR) - base)
        state.add(night, distances[-1])
        cells = [str(night + 1), row[1], f"{distances[-1]:.2f}", f"{state.total:.2f}"]
        if len(distances) < DEFAULT_CONFIG.sustained_points:
            assert row == [*cells, *[""] * 7]
            continue
        evidence = scales.weigh(np.array(distances), min_nights=DEFAULT_CONFIG.sustained_points)
        need = threshold.required(median=evidence.median, has_modes=evidence.has_modes)
        others = evidence.alternatives
        limit = threshold.combined(others, required=need)
        numbers = (evidence.step, need, others.small, others.blip, others.mode, limit)
        answer = "yes" if threshold.is_step(evidence) else "no"
        assert row == [*cells, *(f"{number:.1f}" for number in numbers), answer]
    assert f"median of {np.median(quiet):.2f} ms and a robust deviation of" in prose_of_example()
    assert f"{100 * robust_sd(quiet) / np.median(quiet):.2f} %" in prose_of_example()
    assert f"or {robust_sd(noise):.2f} floors" in prose_of_example()
    assert f"e^{rows[-1][4]} times" in " ".join(page("detection").split())


def prose_of_example() -> str:
    return " ".join(page("detection").split("## Worked example")[1].split())


def test_the_worked_example_is_reported_on_the_night_that_the_page_says() -> None:
    quiet, rows = worked_example()
    values = np.concatenate([quiet, [float(row[1]) for row in rows]])
    assert steps_of(values[:-1]) == []
    (step,) = steps_of(values)
    text = prose_of_example()
    assert f"likeliest first night is {step.index + 1}" in text
    low, high = 100 * step.low, 100 * step.high
    assert f"change is {100 * step.change:+.1f} % [{low:+.1f}, {high:+.1f}]" in text
    assert f"on night {values.size} is {p_value(step, values):.1e}" in text
    rate = DEFAULT_CONFIG.false_discovery_rate
    assert rate / 10_000 < p_value(step, values) <= rate / 100
    later = np.concatenate([values, [10.73, 10.73]])
    (step,) = steps_of(later)
    assert f"two more nights at 10.73 ms give {p_value(step, later):.1e}" in text.lower()
    assert p_value(step, later) <= rate / 10_000


def test_the_verdicts_of_the_examples_are_those_of_the_comparison() -> None:
    rows = rows_of("comparison", header="| change | 95 % interval | verdict | reason |")
    noise = ComparisonNoise(launch=Spread(sd=0.01, degrees=20.0))
    judgement = Judgement(floor=FLOOR, noise=noise, max_p=FAMILY_ERROR)
    for change, interval, verdict, _ in rows:
        low, high = (math.log1p(float(end) / 100) for end in re.findall(r"[-+]\d+", interval))
        decision = decide_change(
            LogChange(
                log=math.log1p(float(change.rstrip(" %")) / 100),
                error=(high - low) / 2 / student_quantile(0.975, degrees=20.0),
                degrees=20.0,
            ),
            direction=Direction.LOWER_IS_BETTER,
            judgement=judgement,
        )
        assert str(decision.verdict) == verdict
    assert {row[2] for row in rows} == {"regression", "improvement", "unchanged", "inconclusive"}


def test_the_looks_and_their_limits_are_those_of_the_code() -> None:
    limits = PairLimits()
    *first, last = looks(limits.min_launches, limits.max_launches)
    text = " ".join(page("comparison").split())
    assert f"after {', '.join(map(str, first))} and {last} launches" in text
    standard = PairStandard(num_looks=len(first) + 1)
    rest = standard.max_other_p / 14
    assert f"With {standard.num_looks} looks at one case and 14 other metrics" in text
    assert f"the limits are {standard.max_time_p:g} and {rest:.2g}" in text
    target = f"{100 * limits.target_interval:g} %"
    assert f"half-width of the time's interval is at most {target}" in text
