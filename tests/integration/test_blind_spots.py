"""What PyTorch's performance HUD cannot see, through the whole product.

Each history is written as benchmark records (schema v3) with the noise of a nightly suite, imported
with `hud import`, judged with `hud detect` and read with `hud regressions --json`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.computed import mode_summaries
from app.summary import mode_tile
from db.queries import load_alerts, load_latest
from tests.integration.terminal import Terminal
from tests.records_v3 import commit_of, make_record, write_lines

# From one night to the next, as most series of PyTorch's nightly suite have it.
NOISE_SD = 0.01
LATENCY_MS = 10.0
# The factor on the latency of a model in a mode at a night; None where it was not measured.
Level = Callable[[str, str, int], float | None]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def models(count: int) -> list[str]:
    return [f"model{number:02d}" for number in range(count)]


def latencies(
    level: Level,
    *,
    names: Sequence[str],
    nights: Iterable[int],
    modes: Sequence[str] = ("default",),
    seed: int = 0,
    **fields: Any,
) -> Iterator[dict[str, Any]]:
    """Yield the latencies of models in modes, night by night."""
    generator = random.Random(seed)
    for night in nights:
        for name in names:
            for mode in modes:
                noise = math.exp(generator.gauss(0, NOISE_SD))
                factor = level(name, mode, night)
                if factor is not None:
                    value = LATENCY_MS * factor * noise
                    yield make_record(
                        "abs_latency", value, model=name, mode=mode, night=night, **fields
                    )


def judge(terminal: Terminal, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Import and judge `records`; return every alert, improvements and fixed ones too."""
    write_lines(terminal.folder / "history.json", records)
    terminal.json("import", "history.json", "--json")
    terminal.json("detect", "--json")
    return every_alert(terminal)


def every_alert(terminal: Terminal) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = terminal.json("regressions", "--state", "all", "--json")
    return found


def open_regressions(terminal: Terminal) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = terminal.json("regressions", "--json")
    return found


def test_one_model_of_46_that_is_10_percent_slower_is_named(terminal: Terminal) -> None:
    def level(name: str, _mode: str, night: int) -> float:
        return 1.10 if name == "model17" and night >= 20 else 1.0

    judge(terminal, latencies(level, names=models(46), nights=range(30)))
    (alert,) = open_regressions(terminal)
    assert (alert["model"], alert["metric"]) == ("model17", "latency_s")
    assert alert["change_pct"] == pytest.approx(10, abs=2)
    low, high = alert["interval_pct"]
    assert low < 10 < high
    assert alert["first_bad"]["revision"] == commit_of(20)
    assert alert["last_good"]["revision"] == commit_of(19)
    # Nothing of an imported history is ever measured again.
    assert alert["confirmed"] is None


def test_a_configuration_that_vanishes_is_news(terminal: Terminal) -> None:
    def level(name: str, mode: str, night: int) -> float | None:
        return None if (name, mode) == ("model2", "max-autotune") and night >= 20 else 1.0

    names, modes = ["model1", "model2", "model3"], ["default", "max-autotune"]
    judge(terminal, latencies(level, names=names, modes=modes, nights=range(30)))
    (alert,) = open_regressions(terminal)
    assert (alert["kind"], alert["model"], alert["mode"]) == (
        "vanished",
        "model2",
        "max-autotune",
    )
    assert alert["last_good"]["revision"] == commit_of(19)
    assert (alert["baseline"], alert["change_pct"]) == (None, None)


def test_a_weekly_mode_with_two_points_is_no_alarm(terminal: Terminal) -> None:
    def level(_name: str, mode: str, night: int) -> float | None:
        return None if mode == "max-autotune" and night % 7 else 1.0

    modes = ["default", "max-autotune"]
    found = judge(terminal, latencies(level, names=models(4), modes=modes, nights=range(13)))
    assert found == []


def test_a_weekly_mode_that_stays_away_for_weeks_is_news(terminal: Terminal) -> None:
    def level(_name: str, mode: str, night: int) -> float | None:
        return None if mode == "max-autotune" and (night % 7 or night > 28) else 1.0

    modes = ["default", "max-autotune"]
    judge(terminal, latencies(level, names=["model1", "model2"], modes=modes, nights=range(60)))
    late = open_regressions(terminal)
    assert {(alert["kind"], alert["mode"]) for alert in late} == {("vanished", "max-autotune")}


def test_one_percent_a_week_for_ten_weeks_is_found(terminal: Terminal) -> None:
    def level(name: str, _mode: str, night: int) -> float:
        return 1.01 ** (night / 7) if name == "model1" else 1.0

    judge(terminal, latencies(level, names=["model1", "model2"], nights=range(70)))
    alerts = open_regressions(terminal)
    assert {alert["model"] for alert in alerts} == {"model1"}
    assert all(alert["change_pct"] > 4 for alert in alerts)
    # Told as what it is, with what it has come to.
    assert [alert["change_pct"] > 8 for alert in alerts if alert["kind"] == "drift"] == [True]


def test_a_lasting_step_is_still_open_after_three_weeks(terminal: Terminal) -> None:
    def level(_name: str, _mode: str, night: int) -> float:
        return 1.08 if night >= 20 else 1.0

    records = list(latencies(level, names=["model1"], nights=range(42)))
    seen: list[set[tuple[str, str]]] = []
    for nights in (24, 31, 42):
        judge(terminal, records[:nights])
        seen.append({(alert["id"], alert["state"]) for alert in every_alert(terminal)})
    # One alert, the same one all the time, and open at the end.
    assert len({identity for found in seen for identity, _state in found}) == 1
    (alert,) = open_regressions(terminal)
    assert alert["change_pct"] == pytest.approx(8, abs=2)
    assert alert["first_bad"]["revision"] == commit_of(20)


def test_an_improvement_is_reported_as_one(terminal: Terminal) -> None:
    def speedups() -> Iterator[dict[str, Any]]:
        generator = random.Random(0)
        for night in range(30):
            level = 1.8 if night >= 20 else 1.5
            value = level * math.exp(generator.gauss(0, NOISE_SD))
            yield make_record("speedup", value, night=night)

    (alert,) = judge(terminal, speedups())
    assert (alert["verdict"], alert["metric"]) == ("improvement", "speedup")
    assert alert["change_pct"] == pytest.approx(20, abs=3)
    assert open_regressions(terminal) == []


def test_a_slower_eager_is_not_blamed_on_the_compiler(terminal: Terminal) -> None:
    def records() -> Iterator[dict[str, Any]]:
        generator = random.Random(0)
        for night in range(30):
            # The model's own code got slower by 10 %: eager and what is compiled of it alike.
            factor = 1.10 if night >= 20 else 1.0
            noise = [math.exp(generator.gauss(0, NOISE_SD)) for _ in range(3)]
            eager_ms = 15.0 * factor * noise[0]
            compiled_ms = LATENCY_MS * factor * noise[1]
            yield make_record("abs_latency", compiled_ms, night=night)
            yield make_record("speedup", eager_ms / compiled_ms, night=night)
            yield make_record("abs_latency", 15.0 * factor * noise[2], mode="eager", night=night)

    judge(terminal, records())
    alerts = open_regressions(terminal)
    assert {(alert["mode"], alert["metric"]) for alert in alerts} == {
        ("default", "latency_s"),
        ("eager", "latency_s"),
    }
    causes = {alert["mode"]: alert["cause"] for alert in alerts}
    assert all(cause["kind"] != "compiler" for cause in causes.values())
    assert "not the compiler" in causes["default"]["text"]


def test_a_slower_compiled_model_is_blamed_on_the_compiler(terminal: Terminal) -> None:
    def records() -> Iterator[dict[str, Any]]:
        generator = random.Random(0)
        for night in range(30):
            factor = 1.10 if night >= 20 else 1.0
            noise = [math.exp(generator.gauss(0, NOISE_SD)) for _ in range(2)]
            compiled_ms = LATENCY_MS * factor * noise[0]
            yield make_record("abs_latency", compiled_ms, night=night)
            yield make_record("speedup", 15.0 * noise[1] / compiled_ms, night=night)

    judge(terminal, records())
    alerts = open_regressions(terminal)
    assert {alert["metric"] for alert in alerts} == {"latency_s", "speedup"}
    assert {alert["cause"]["kind"] for alert in alerts} == {"compiler"}


def test_other_hardware_starts_another_baseline(terminal: Terminal) -> None:
    def level(_name: str, _mode: str, night: int) -> float:
        return 1.0 if night < 20 else 1.5

    names = ["model1", "model2"]
    old = latencies(level, names=names, nights=range(20))
    new = latencies(level, names=names, nights=range(20, 40), runner="NVIDIA T4")
    assert judge(terminal, [*old, *new]) == []


def test_noise_alone_is_silent(terminal: Terminal) -> None:
    records = latencies(lambda *_: 1.0, names=models(20), nights=range(40))
    assert judge(terminal, records) == []


def test_a_mean_over_7_of_40_models_says_so(terminal: Terminal) -> None:
    def records() -> Iterator[dict[str, Any]]:
        generator = random.Random(0)
        for night in range(12):
            for number, name in enumerate(models(40)):
                for mode in ("default", "max-autotune"):
                    # The fast ones stay: a mean over what is there would rise by half.
                    if mode == "max-autotune" and night >= 8 and number >= 7:
                        continue
                    level = 2.4 if number < 7 else 1.5
                    value = level * math.exp(generator.gauss(0, NOISE_SD))
                    yield make_record("speedup", value, model=name, mode=mode, night=night)

    def tiles() -> dict[str, list[str]]:
        store = terminal.store()
        summaries = mode_summaries(load_latest(store), alerts=load_alerts(store))
        found = dict(mode_tile(summary) for summary in summaries)
        return {
            mode: [cell.text, *(note.text for note in cell.notes)] for mode, cell in found.items()
        }

    whole = list(records())
    judge(terminal, [record for record in whole if record["workflow_id"] < 1008])
    before = tiles()["max-autotune"]
    assert before[1:] == ["geometric mean over 40 of 40", "40 of 40 ok"]
    alerts = judge(terminal, whole)
    after = tiles()
    assert after["max-autotune"][1:] == ["geometric mean over 7 of 40", "7 of 40 ok, 33 vanished"]
    assert after["default"][1:] == ["geometric mean over 7 of 40", "40 of 40 ok"]
    assert len([alert for alert in alerts if alert["kind"] == "vanished"]) == 33


def test_commits_are_told_by_the_digits_that_find_them(terminal: Terminal) -> None:
    def level(_name: str, _mode: str, night: int) -> float:
        return 1.1 if night >= 20 else 1.0

    judge(terminal, latencies(level, names=["model1"], nights=range(30)))
    (alert,) = open_regressions(terminal)
    first, last = (alert[name]["revision"] for name in ("first_bad", "last_good"))
    assert (len(first), len(last)) == (40, 40)
    row = terminal.hud("regressions").stdout
    assert f"{first[:10]}  since the last good run: revision {last[:10]} -> {first[:10]}" in row
    assert first[:11] not in row
    compared = terminal.hud("compare", last[:10], first[:10])
    assert first in compared.stdout
