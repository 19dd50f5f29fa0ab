"""One alert has one change: every surface has the same levels, the same change and interval."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.records.alerts import Alert
from compile_hud.db.store import Store
from compile_hud.runner.format import levels, percent
from compile_hud.runner.notifications.alert_changes import diff_alerts
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.message_text import render_message
from tests.app.conftest import OpenPage
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_document,
    make_notification,
    make_run,
    make_run_ref,
)
from tests.support.pages.page_elements import text_of
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal


def random_alert(seed: int) -> Alert:
    """Return a regression whose levels, change and interval differ from seed to seed."""
    random = np.random.default_rng(seed)
    metric, unit, exponent = (("latency_s", "s", -6), ("peak_bytes", "B", 18))[seed % 2]
    baseline = float(random.lognormal(exponent, 2))
    ratio = 1 + float(random.uniform(0.06, 1.9))
    below, above = random.uniform(0.005, 0.05, size=2)
    return make_alert(
        f"alert{seed}",
        case=make_case("vit", mode="reduce-overhead"),
        metric=metric,
        unit=unit,
        last_good=make_run_ref(),
        baseline=baseline,
        candidate=ratio * baseline,
        change_pct=100 * (ratio - 1),
        interval_pct=(100 * (ratio - 1 - below), 100 * (ratio - 1 + above)),
    )


def message_texts(alert: Alert) -> tuple[str, str]:
    """Return the title of the notification about a new alert, and its first line."""
    (group,) = diff_alerts([], [alert], events={}, at=START)
    document: dict[str, Any] = {**alert.to_json(), "repro": "hud run", "url": "http://hud/alert"}
    item = Item(notification=make_notification(title=group.title), alerts=(document,), num_alerts=1)
    (section,) = render_message(Message(id="msg_1", at=START, items=(item,))).sections
    return section.title, section.lines[0]


def numbers(text: str) -> list[str]:
    """Return the numbers of `text`, without plus signs."""
    return re.findall(r"-?\d+(?:\.\d+)?", text)


def has_in_order(text: str, parts: list[str]) -> bool:
    """Return whether the numbers of `text` have `parts` one after the other."""
    seen = numbers(text)
    width = len(parts)
    return any(seen[start : start + width] == parts for start in range(len(seen) - width + 1))


@pytest.mark.parametrize("seed", range(4))
def test_every_surface_has_the_same_change_of_an_alert(
    seed: int, store: Store, store_path: Path, open_page: OpenPage
) -> None:
    alert = random_alert(seed)
    assert alert.interval_pct is not None
    run = make_run(plan=(alert.case,), finished_at=START)
    store.migrate()
    with store.write() as connection:
        put_documents(connection, [make_document(run)], at=START)
    save_alerts(store, [alert])
    terminal = Terminal(store_path.parent)

    def hud(*arguments: str) -> str:
        result = terminal.hud(*arguments, "--store", f"duckdb:///{store_path}")
        assert result.exit_code == 0, result.output
        return result.stdout

    title, line = message_texts(alert)
    alert_page = text_of(open_page("alerts", alert=alert.id))
    change = numbers(percent(alert.change_pct))
    interval = [number for end in alert.interval_pct for number in numbers(percent(end))]
    before_and_after = numbers(levels(alert.baseline, alert.candidate, unit=alert.unit))
    texts = {
        "hud regressions": hud("regressions"),
        "hud alerts show": hud("alerts", "show", alert.id),
        "hud alerts digest": hud("alerts", "digest", "--dry-run"),
        "message title": title,
        "message line": line,
        "alert": alert_page,
        "alerts": text_of(open_page("alerts")),
        "overview": text_of(open_page("overview")),
    }
    for surface, text in texts.items():
        assert has_in_order(text, change), surface
    for surface in ("hud regressions", "hud alerts show", "message line"):
        assert has_in_order(texts[surface], before_and_after), surface
    for surface in ("hud alerts show", "message line", "alert"):
        assert has_in_order(texts[surface], [*change, *interval]), surface
    for command in (("regressions",), ("alerts", "list"), ("alerts", "show", alert.id)):
        document = json.loads(hud(*command, "--json"))
        (item,) = document if isinstance(document, list) else [document]
        shown = (item["baseline"], item["candidate"], item["change_pct"], item["interval_pct"])
        expected = (alert.baseline, alert.candidate, alert.change_pct, list(alert.interval_pct))
        assert shown == expected, command
