"""`hud detect`: metrics that come from 0 or are below it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.v3_records import DAY_S, make_record
from tests.support.stores.imports import import_records
from tests.support.terminal import Terminal

NOISE = (0.0, 0.011, -0.013, 0.004, -0.006, 0.009, -0.002)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    # After every night that is imported.
    terminal.clock.advance(60 * DAY_S)
    return terminal


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
