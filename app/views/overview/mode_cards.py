"""The cards of the compile modes: speedup, its trend, pass rate, compile time and memory. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.components.trend.sparkline import Sparkline, SparkPoint, sparkline_html
from compile_hud.app.components.trend.window import thinned_indices
from compile_hud.app.data.page_records import ModeSummary
from compile_hud.app.ui.format import Scale, moment, outcome_label, scale_for
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import OverviewState, TrendsState, cases_url
from compile_hud.app.views.overview.records import CardFact, ModeCard
from compile_hud.db.records.alerts import MISSING_WORDS
from compile_hud.db.records.results import Case
from compile_hud.db.shared.text import counted, listed
from compile_hud.runner.analysis.trends.answers import (
    change_interval_text,
    change_text,
    range_text,
)
from compile_hud.runner.analysis.trends.records import ModeTrend, ModeTrends

SPEEDUP = "speedup"
_RATIO = Scale(1.0, "x")
# The other numbers of a card, and their names in it.
_FACTS = (
    ("compile_cold_s", "cold compile"),
    ("compile_warm_s", "warm compile"),
    ("peak_bytes", "peak memory"),
)
_EAGER = "eager"
_MAX_POOLED = 3
# A trend and a table may add in another order.
_ROUNDING = 1e-6


def mode_cards(
    summaries: Sequence[ModeSummary],
    *,
    trends: ModeTrends,
    state: OverviewState,
) -> list[ModeCard]:
    """Return a card for each mode, phase by phase."""
    by_metric = {(trend.label, trend.mode, trend.metric): trend for trend in trends.trends}
    cards = []
    for summary in summaries:
        url = cases_url(
            TrendsState(
                machine=state.machine,
                toolchain=state.toolchain,
                device=state.device,
                phase=state.phase,
                dtype=state.dtype,
                shape=state.shape,
                model=state.model,
                range=state.range,
                mode=summary.variant,
            )
        )
        if summary.unavailable:
            cards.append(
                ModeCard(
                    mode=summary.variant,
                    label=summary.label,
                    url=url,
                    reason=summary.unavailable,
                )
            )
            continue
        own = {
            metric: trend
            for (label, mode, metric), trend in by_metric.items()
            if (label, mode) == (summary.label, summary.variant)
        }
        cards.append(_mode_card(summary, own, trends=trends, url=url))
    return cards


def _mode_card(
    summary: ModeSummary, own: Mapping[str, ModeTrend], *, trends: ModeTrends, url: str
) -> ModeCard:
    trend = own.get(SPEEDUP)
    text, reason = _mean_texts(summary)
    num_others = sum(number for _, number in summary.effective_modes)
    is_own = not num_others or summary.num_ok > num_others
    return ModeCard(
        mode=summary.variant,
        label=summary.label,
        url=url,
        cohort=reason,
        speedup=text if is_own else f"({text})",
        interval=_interval(summary, trend),
        is_own=is_own and summary.mean is not None,
        change=None if trend is None else _change_fact(trend, trends=trends),
        line=None if trend is None else sparkline_of(trend, trends=trends),
        num_ok=summary.num_ok,
        num_attempted=summary.num_attempted,
        pass_text=_pass_text(summary),
        bad=tuple(_bad_links(summary)),
        facts=tuple(_fact(own[metric], name) for metric, name in _FACTS if metric in own),
        notes=tuple(_card_notes(summary)),
    )


def _mean_texts(summary: ModeSummary) -> tuple[str, str]:
    """Return the mean of a mode and its cohort, or the reason why there is none."""
    models = counted(summary.num_subjects, "model")
    if summary.mean is not None:
        return _RATIO.text(summary.mean), f"{summary.num_common} of {models}"
    if summary.num_speedups:
        return "no common model", f"none of {models} has a speedup in every mode"
    if not summary.num_ok:
        return "no speedup", "no case of this mode is ok"
    return "no speedup", "none was measured against eager"


def _interval(summary: ModeSummary, trend: ModeTrend | None) -> str:
    """Return the interval of the mean, "" if the trend ends with another number."""
    if trend is None or summary.mean is None:
        return ""
    newest = trend.points[-1]
    is_same = math.isclose(newest.value, summary.mean, rel_tol=_ROUNDING)
    return _RATIO.interval(newest.low, newest.high) if is_same else ""


def _change_fact(trend: ModeTrend, *, trends: ModeTrends) -> CardFact | None:
    change = change_text(trend)
    if not change:
        return None
    interval = change_interval_text(trend)
    title = f"from the first to the newest run of the range{f', {interval} %' if interval else ''}"
    text = change if " since " in change else f"{change} in {range_text(trends)}"
    return CardFact(name="change", text=text, title=title)


def _pass_text(summary: ModeSummary) -> str:
    return f"{summary.num_ok} of {counted(summary.num_attempted, 'case')} ok"


def _bad_links(summary: ModeSummary) -> Iterator[tuple[str, str]]:
    """Yield the number of cases of each bad outcome with the address of these cases."""
    words = {name: outcome_label(name) for name, _ in summary.failures} | MISSING_WORDS
    for name, number in (*summary.failures, *summary.missing):
        yield f"{number} {words[name]}", summary.bad_urls.get(name, "")


def _fact(trend: ModeTrend, name: str) -> CardFact:
    newest = trend.points[-1]
    scale = scale_for(trend.unit, [newest.value])
    change, interval = change_text(trend), scale.interval(newest.low, newest.high)
    over = f"{newest.num_counted} of {counted(newest.num_subjects, 'model')}"
    title = f"geometric mean over {over}: {scale.text(newest.value)} {interval}".rstrip()
    if change:
        title += f", {change} over the range"
    return CardFact(name=name, text=scale.text(newest.value), title=title)


def _card_notes(summary: ModeSummary) -> Iterable[str]:
    if summary.untried:
        texts = [f"{number} {outcome_label(name)}" for name, number in summary.untried]
        yield f"not counted: {', '.join(texts)}"
    for mode, number in summary.effective_modes:
        yield f"{number} fell back to {mode}"
    if summary.stand_in and not summary.effective_modes:
        yield f"same code as {summary.stand_in}"


def sparkline_of(trend: ModeTrend, *, trends: ModeTrends) -> Sparkline | None:
    """Return the line of a trend over the time of all `trends`, None for a single point."""
    points = trend.points
    if len(points) < 2:
        return None
    start, end = trends.runs[0].at, trends.runs[-1].at
    values = [point.value for point in points]
    scale = Scale(0.01, "%") if trend.unit == "share" else scale_for(trend.unit, values)
    least, most = scale.text(min(values)), scale.text(max(values))
    span = (end - start).total_seconds() or 1.0
    zone = clock.zone()
    days = (start.astimezone(zone), end.astimezone(zone))
    first, last = (f"{at:%b} {at.day}" for at in days)
    return Sparkline(
        points=tuple(
            SparkPoint(
                (point.run.at - start).total_seconds() / span,
                point.value,
                point.low,
                point.high,
                point.segment,
            )
            for point in (points[index] for index in thinned_indices(values, always=()))
        ),
        first=first,
        last=last,
        least=least,
        most=most,
        label=(
            f"{trend.mode} {trend.metric} from {moment(start)} to {moment(end)}: {least} to {most},"
            f" newest {scale.text(points[-1].value)}"
        ),
    )


def cards_html(cards: Sequence[ModeCard]) -> Markup:
    """Return the cards side by side, each phase and device in a row of its own."""
    rows = [
        (label, [(card, _line(card), _pass_share(card)) for card in own])
        for label, own in groupby(cards, key=lambda card: card.label)
    ]
    return render("overview.html", "cards", rows=rows)


def _line(card: ModeCard) -> Markup:
    return sparkline_html(card.line) if card.line else Markup()


def _pass_share(card: ModeCard) -> str:
    """Return the pass rate as the length of a bar."""
    return f"{card.num_ok / card.num_attempted if card.num_attempted else 0.0:.1%}"


def pooled_text(cases: Iterable[Case]) -> str:
    """Return the shapes and dtypes that are averaged inside each model, "" for one of each."""
    compiled = [case for case in cases if case.mode != _EAGER and not case.is_reference]
    axes = {
        name: sorted({str(value) for value in values})
        for name, values in (
            ("shapes", [case.shape for case in compiled]),
            ("dtypes", [case.dtype for case in compiled]),
        )
    }
    texts = [
        f"{name} ({listed(values, limit=_MAX_POOLED)})"
        for name, values in axes.items()
        if len(values) > 1
    ]
    if not texts:
        return ""
    return f"A model counts with the mean of its {' and '.join(texts)}. Compare > Modes has each."
