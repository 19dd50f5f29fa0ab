"""The trends as Markdown, to paste into an issue or a mail. Pure."""

from __future__ import annotations

from compile_hud.app.ui.format import scale_for
from compile_hud.app.ui.share import code, summary_text
from compile_hud.app.views.trends.tables import trend_label
from compile_hud.runner.analysis.trends.answers import change_text, headline
from compile_hud.runner.analysis.trends.records import ModeTrend, ModeTrends

_MAX_LINES = 40


def trends_markdown(trends: ModeTrends, *, command: str) -> str:
    """Return a title, a line for each trend, the address of the page and the command."""
    title = f"**{headline(trends)}** on {code(trends.machine)}"
    lines = [_line(trend) for trend in trends.trends[:_MAX_LINES]]
    return summary_text(title, lines=lines, command=command)


def _line(trend: ModeTrend) -> str:
    newest = trend.points[-1]
    change = change_text(trend)
    names = " ".join(code(name) for name in (trend.label, trend.mode) if name)
    value = scale_for(trend.unit, [newest.value]).text(newest.value)
    changed = f", {change}" if change else ""
    cohort = f"{newest.num_counted} of {newest.num_subjects}"
    return f"{names} {trend_label(trend.metric)}: {value}{changed} ({cohort})"
