"""The legend of a trend: the signs that the chart has at that moment, and no other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_hud.app.components.trend.chart import Trend
from compile_hud.app.ui.charts import Row
from compile_hud.app.ui.format import is_interval
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.summaries import Sample

# The number is that of the detector, whose code a pure part of a page does not import.
NOISE_TEXT = "noise: median +- 3 robust SD"
_VERDICT_SIGNS = {
    Verdict.REGRESSION: LegendItem(sign="up", text="regression"),
    Verdict.IMPROVEMENT: LegendItem(sign="down", text="improvement"),
    Verdict.INCONCLUSIVE: LegendItem(sign="diamond", text="inconclusive"),
    Verdict.IDENTICAL: LegendItem(sign="square", text="identical"),
}

_CHANGES = {"bad": "regression", "good": "improvement", "grey": "change"}


def trend_legend(trend: Trend) -> tuple[LegendItem, ...]:
    """Return the signs of the chart of `trend`."""
    return tuple(_signs(trend))


def samples_legend(samples: Sequence[Sample], *, low: float, high: float) -> tuple[LegendItem, ...]:
    """Return the signs of the chart of `samples`, whose estimate has the interval `low` to `high`.

    The points of a launch are in the order in which they were taken.
    """
    items = [LegendItem(sign="point", text="sample, in the order taken")]
    if any(sample.is_warmup for sample in samples):
        items.append(LegendItem(sign="cross-open", text="warm-up, not counted"))
    if is_interval(low, high):
        items.append(LegendItem(sign="band", text="estimate, 95 % interval"))
    else:
        items.append(LegendItem(sign="line", text="estimate"))
    return tuple(items)


def _signs(trend: Trend) -> Iterator[LegendItem]:
    if trend.points:
        yield _point_sign(trend.points)
    if trend.is_normalised:
        yield LegendItem(sign="hollow", text="normalised for machine speed, used for detection")
    if trend.samples:
        yield LegendItem(sign="samples", text="single samples")
    if trend.bands:
        yield LegendItem(sign="noise", text=NOISE_TEXT)
    verdicts = {point["verdict"] for point in trend.points}
    yield from (item for verdict, item in _VERDICT_SIGNS.items() if verdict in verdicts)
    yield from _mark_signs(trend.marks)
    if trend.failures:
        yield LegendItem(sign="cross", text="run without a result")
    if any(point["is_new_revision"] for point in trend.points):
        yield LegendItem(sign="tick", text="new revision")


def _point_sign(points: Sequence[Row]) -> LegendItem:
    if any(is_interval(point["low"], point["high"]) for point in points):
        return LegendItem(sign="point-bar", text="run: median, 95 % interval")
    if all(point["num_samples"] == 1 for point in points):
        return LegendItem(sign="point", text="run with one sample: no interval")
    return LegendItem(sign="point", text="run: median of equal samples")


def _mark_signs(marks: Sequence[Row]) -> Iterator[LegendItem]:
    """Yield the signs of the upright lines, the shades and the slopes of changes."""
    spans = {_colour(mark) for mark in marks if "after" in mark}
    lines = {_colour(mark) for mark in marks if _has_full_line(mark) and "after" not in mark}
    slopes = {_colour(mark) for mark in marks if "until" in mark}
    for colour, name in _CHANGES.items():
        if colour in spans:
            yield LegendItem(sign=f"span-{colour}", text=f"{name}: last good to first bad run")
        if colour in lines:
            yield LegendItem(sign=f"line-{colour}", text=f"{name}: first run")
        if colour in slopes:
            text = f"{name}: drift, upright where first seen"
            yield LegendItem(sign=f"slope-{colour}", text=text)
    if any(not mark["verdict"] for mark in marks):
        yield LegendItem(sign="dashed", text="new baseline or annotation")


def _colour(mark: Row) -> str:
    """Return the part of a sign's name that stands for the colour of `mark`."""
    return VERDICT_STYLES.get(mark["verdict"], "grey")


def _has_full_line(mark: Row) -> bool:
    return mark["verdict"] in VERDICT_STYLES and "is_elsewhere" not in mark
