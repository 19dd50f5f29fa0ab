"""`hud detect`: metrics that come from 0 or are below it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.records.v3_records import make_record
from tests.support.stores.imports import import_records
from tests.support.terminal import Terminal

NOISE = (0.0, 0.011, -0.013, 0.004, -0.006, 0.009, -0.002)


def alerts_of(
    terminal: Terminal, values: Sequence[float], *, direction: str = "lower"
) -> list[tuple[str, str, float, float, object]]:
    """Return verdict, state, levels and change of the alerts after nights of these values."""
    records = []
    for night, value in enumerate(values):
        record = make_record("gap", value, night=night)
        record["metric"]["extra_info"] = {"direction": direction}
        records.append(record)
    import_records(terminal, *records)
    assert terminal.hud("detect").exit_code == 0
    alerts: list[dict[str, Any]] = terminal.json("regressions", "--state", "all", "--json")
    alerts += terminal.json("alerts", "list", "--json") if not alerts else []
    names = ("verdict", "state", "baseline", "candidate", "change_pct")
    return sorted(tuple(alert[name] for name in names) for alert in alerts)


def noisy(level: float, *, nights: int) -> list[float]:
    return [level + abs(level) * NOISE[night % len(NOISE)] for night in range(nights)]


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ([0.0] * 15, [7.0] * 12, "lower"),
        ([0.0] * 9, noisy(4096.0, nights=12), "lower"),
        (noisy(-5.0, nights=15), noisy(-2.0, nights=12), "lower"),
        (noisy(-2.0, nights=15), noisy(-5.0, nights=12), "higher"),
        (noisy(-1.0, nights=15), noisy(3.0, nights=12), "lower"),
    ],
)
def test_a_lasting_change_from_zero_or_less_is_a_regression(
    terminal: Terminal, before: list[float], after: list[float], direction: str
) -> None:
    ((verdict, state, baseline, candidate, change),) = alerts_of(
        terminal, before + after, direction=direction
    )
    assert (verdict, state, change) == ("regression", "open", None)
    assert baseline == pytest.approx(before[0], rel=0.02)
    assert candidate == pytest.approx(after[0], rel=0.02)


@pytest.mark.parametrize(
    ("before", "after", "direction", "verdict", "change"),
    [
        # To 0 there is a percentage.
        ([5.0] * 15, [0.0] * 12, "higher", "regression", -100.0),
        ([3.0] * 15, [0.0] * 12, "lower", "improvement", -100.0),
        (noisy(2.0, nights=15), noisy(-1.0, nights=12), "higher", "regression", None),
        (noisy(-2.0, nights=15), noisy(-5.0, nights=12), "lower", "improvement", None),
        # One bad night does not hide the step after it.
        ([0.0] * 10 + [9.0] + [0.0] * 6, [3.0] * 12, "lower", "regression", None),
        # Noise about 0 has values of both signs, so that a ratio of some of them means nothing.
        ([100 * value for value in NOISE * 3], [5.0 + 100 * v for v in NOISE * 2], "lower")
        + ("regression", None),
    ],
)
def test_a_level_of_zero_or_less_is_judged_on_either_side(
    terminal: Terminal,
    before: list[float],
    after: list[float],
    direction: str,
    verdict: str,
    change: float | None,
) -> None:
    (alert,) = alerts_of(terminal, before + after, direction=direction)
    assert (alert[0], alert[4]) == (verdict, change)


def test_second_step_from_zero_is_another_regression(terminal: Terminal) -> None:
    first, second = alerts_of(terminal, [0.0] * 15 + [3.0] * 4 + [6.0] * 15)
    assert (first[2], first[3], first[4]) == (0.0, 3.0, None)
    assert second[2:] == (3.0, 6.0, pytest.approx(100.0))


def test_terminal_shows_the_levels_of_a_change_without_percentage(terminal: Terminal) -> None:
    alerts_of(terminal, [0.0] * 15 + [7.0] * 12)
    (alert,) = terminal.json("regressions", "--json")
    text = terminal.hud("alerts", "show", alert["id"]).stdout
    assert re.search(r"verdict +regression, 0 -> 7$", text, re.MULTILINE)


def test_a_regression_from_zero_ends_when_it_is_zero_again(terminal: Terminal) -> None:
    ((verdict, state, *_),) = alerts_of(terminal, [0.0] * 15 + [3.0] * 8 + [0.0] * 8)
    assert (verdict, state) == ("regression", "fixed")


@pytest.mark.parametrize(
    "values",
    [
        noisy(-5.0, nights=40),
        [0.0] * 40,
        [*[0.0] * 15, 9.0, 9.0, *[0.0] * 20],
        [0.1 * number for number in (-2, 1, 0, 3, -1, 2, -3, 1, 0, -2) * 4],
        # Single zeros and negative numbers are nights on which another tool failed.
        [0.0 if night % 6 == 5 else 10.0 + NOISE[night % 7] for night in range(40)],
        [-1.0 if night % 14 == 9 else 10.0 + NOISE[night % 7] for night in range(42)],
    ],
)
def test_noise_and_short_outliers_below_zero_are_no_regression(
    terminal: Terminal, values: list[float]
) -> None:
    assert alerts_of(terminal, values) == []


def test_a_gain_below_zero_is_an_improvement(terminal: Terminal) -> None:
    values = noisy(-2.0, nights=15) + noisy(-5.0, nights=12)
    ((verdict, _, _, candidate, _),) = alerts_of(terminal, values)
    assert verdict == "improvement"
    assert candidate < -4.5
