"""The trends in words: which mode is the fastest, and how each changed."""

from __future__ import annotations

from datetime import timedelta

from compile_hud.db.shared.text import counted, listed, signed, signed_percent
from compile_hud.runner.analysis.trends.records import PASS_RATE, ModePoint, ModeTrend, ModeTrends
from compile_hud.runner.analysis.trends.trends import change_of

# A text names so many models; the others are counted.
_NUM_NAMED = 3
# Below it, the length of a range is in hours.
_FEW_DAYS = timedelta(days=2)


def headline(trends: ModeTrends) -> str:
    """Return the fastest mode, its speedup and its change; the range without a speedup.

    Several phases or devices have a mode each, without the change.
    """
    fastest: dict[str, ModeTrend] = {}
    for trend in trends.trends:
        if trend.metric == "speedup" and not trend.group:
            best = fastest.setdefault(trend.label, trend)
            if trend.points[-1].value > best.points[-1].value:
                fastest[trend.label] = trend
    if not fastest:
        return f"Trends over {range_text(trends)}"
    if len(fastest) > 1:
        texts = [
            f"{label}: {best.mode} {best.points[-1].value:.2f}x" for label, best in fastest.items()
        ]
        return f"Fastest modes: {'; '.join(texts)}"
    (best,) = fastest.values()
    words = f"{best.mode} is the fastest mode: {best.points[-1].value:.2f}x"
    change = change_text(best)
    return f"{words}, {change} in {range_text(trends)}" if change else words


def range_text(trends: ModeTrends) -> str:
    """Return the time from the first to the newest run: `59 days`, `7 hours`."""
    length = trends.runs[-1].at - trends.runs[0].at
    if length < _FEW_DAYS:
        return counted(round(length / timedelta(hours=1)), "hour")
    return counted(round(length / timedelta(days=1)), "day")


def change_text(trend: ModeTrend) -> str:
    """Return the change from the first to the newest linked point, "" for a single one.

    It is in percent, that of a pass rate in points. If older points are not comparable, it names
    the date of the first comparable one.
    """
    change = change_of(trend)
    if change is None:
        return ""
    linked = trend.linked
    since = "" if len(linked) == len(trend.points) else f" since {linked[0].run.at:%Y-%m-%d}"
    if trend.metric == PASS_RATE:
        return f"{signed(100 * change.value)} points{since}"
    return f"{signed_percent(change.value - 1)}{since}"


def change_interval_text(trend: ModeTrend) -> str:
    """Return the interval of the change in percent, `[-1.9, -0.5]`, "" for none."""
    change = change_of(trend)
    if change is None or trend.metric == PASS_RATE or change.low == change.high:
        return ""
    return f"[{signed(100 * (change.low - 1))}, {signed(100 * (change.high - 1))}]"


def cohort_change_text(point: ModePoint) -> str:
    """Return the models that joined and left: `t5 joined; a, b, c and 2 more left`."""
    sides = ((point.joined, "joined"), (point.left, "left"))
    return "; ".join(f"{listed(names, limit=_NUM_NAMED)} {verb}" for names, verb in sides if names)
