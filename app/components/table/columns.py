"""Typed columns of a table that people sort, search and download: rows in, a frame out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pandas as pd

from compile_hud.app import clock
from compile_hud.app.ui.format import Scale, column_scale
from compile_hud.app.ui.theme import CHIP_COLOURS, NEUTRAL, VERDICT_SIGNS
from compile_hud.db.records.results import Verdict
from compile_hud.db.shared.text import one_line, shortened

# A longer text is whole on the page of its case.
_TEXT_LIMIT = 240
# The name of a link is the first segment of its address, and the next segment leaves it again. So
# the column sorts and searches by name, and the browser opens the address alone.
_LINK_TEXT = r"^\./([^/]*)"
_DOT_SEGMENTS = {".": "%E2%80%8B.", "..": "%E2%80%8B.."}
_MAX_DECIMALS = 3
# A smaller change rounds to zero.
_LEAST_CHANGE_PCT = 0.05
# Pixels: a character in the mean, the margins of a cell, and the widest column of texts.
_CHARACTER_WIDTH, _PADDING, _MAX_WIDTH = 6.4, 20, 300
# The unit of a column of durations: the largest in which their median is at least two.
_DURATIONS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))
# A small line shows at least this relative range, so that no noise looks like a change. It shows at
# most that one, so that a single outlier does not flatten all others.
_TREND_MARGIN, _MAX_TREND_MARGIN = 0.1, 0.6


@dataclass(frozen=True, slots=True)
class Link:
    """A text that opens a page of the dashboard; `href` is relative."""

    text: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnColumn:
    """A column of a frame: its heading, its values, and their configuration in Streamlit.

    `kind` is the name of a class in `st.column_config`, and `settings` are its arguments.
    """

    name: str
    values: Any
    kind: str
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumn:
    """A column of texts: its heading, the tooltip of it, and its width in pixels.

    A column that `is_hidden` is offered in the menu of the columns. One that `is_pinned` stays when
    the table scrolls sideways.
    """

    label: str
    help: str = ""
    width: int | None = None
    is_hidden: bool = False
    is_pinned: bool = False

    def drawn(self, values: Sequence[Any]) -> DrawnColumn:
        """Return the column with its values; None is shown as `-`."""
        texts = [None if value is None else shown_text(str(value)) for value in values]
        shown = pd.Series(texts, dtype=object)
        return self._of("TextColumn", shown, width=self.width or _width_of(self.label, texts))

    def _of(self, kind: str, values: Any, *, label: str = "", **settings: Any) -> DrawnColumn:
        """Return a column of a kind of Streamlit; without a label it has that of the column."""
        shared = {"help": self.help or None, "width": self.width, "pinned": self.is_pinned or None}
        name = label or self.label
        return DrawnColumn(name=name, values=values, kind=kind, settings={**shared, **settings})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkColumn(TextColumn):
    """A column of links (`Link` or None)."""

    def drawn(self, values: Sequence[Link | None]) -> DrawnColumn:
        """Return the column with its links, each an address that begins with the text."""
        addresses = [None if value is None else link_address(value) for value in values]
        texts = [None if value is None else shown_text(value.text) for value in values]
        return self._of(
            "LinkColumn",
            pd.Series(addresses, dtype=object),
            display_text=_LINK_TEXT,
            alignment="left",
            width=self.width or _width_of(self.label, texts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberColumn(TextColumn):
    """A column of numbers of one stored unit, such as `s`, `B`, `x`, or "" for counts and ratios.

    All are shown in one scale, which is part of the heading, with equal decimals. Without `scale`
    or `decimals` they are those that suit the numbers. One that `is_signed` shows differences.
    """

    unit: str = ""
    scale: Scale | None = None
    decimals: int | None = None
    is_signed: bool = False

    def drawn(self, values: Sequence[float | None]) -> DrawnColumn:
        """Return the column with its numbers, so that they sort as numbers."""
        known = [value for value in values if value is not None]
        scale = self.scale or column_scale(self.unit, known)
        if scale.unit == "share":
            # A column without a number has no scale that suits it, and a share is a percentage.
            scale = Scale(0.01, "%")
        shown = [None if value is None else _scaled(value, scale) for value in values]
        label = self.label if scale.unit in ("", "x") else f"{self.label} ({scale.unit})"
        sign = "+" if self.is_signed else ""
        if self.unit in ("", "1") and self.decimals is None and _are_counts(known):
            return self._numbers(label, shown, number_format=f"%{sign},d", dtype="Int64")
        if self.unit == "x":
            return self._numbers(label, shown, number_format="%.2fx")
        decimals = self.decimals
        if decimals is None:
            decimals = _decimals([value / scale.factor for value in known])
        return self._numbers(label, shown, number_format=f"%{sign},.{decimals}f")

    def _numbers(
        self,
        label: str,
        values: Sequence[float | None],
        *,
        number_format: str,
        dtype: str = "Float64",
    ) -> DrawnColumn:
        numbers: Any = pd.Series(list(values), dtype=dtype)
        return self._of("NumberColumn", numbers, label=label, format=number_format)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalColumn(TextColumn):
    """A column of intervals in the scale of the numbers that they belong to."""

    scale: Scale

    def _text(self, low: float, high: float) -> str | None:
        is_finite = all(math.isfinite(value / self.scale.factor) for value in (low, high))
        return (self.scale.interval(low, high) or None) if is_finite else None

    def drawn(self, values: Sequence[tuple[float, float] | None]) -> DrawnColumn:
        """Return the column with its intervals; one of a single sample is none."""
        texts = [None if value is None else self._text(*value) for value in values]
        label = self.label if self.scale.unit in ("", "x") else f"{self.label} ({self.scale.unit})"
        return self._of(
            "TextColumn", pd.Series(texts, dtype=object), label=label, alignment="right"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn(NumberColumn):
    """A column of changes in percent, each with its sign."""

    def drawn(self, values: Sequence[float | None]) -> DrawnColumn:
        """Return the column with its changes; one that rounds to zero has no minus."""
        shown = [
            0.0 if value is not None and abs(value) < _LEAST_CHANGE_PCT else value
            for value in values
        ]
        return self._numbers(self.label, shown, number_format="%+,.1f %%")


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationColumn(NumberColumn):
    """A column of durations in seconds, shown in seconds, minutes or hours."""

    def drawn(self, values: Sequence[float | None]) -> DrawnColumn:
        """Return the column with its durations."""
        known = [value for value in values if value]
        middle = statistics.median(known) if known else 0.0
        factor, unit = next(step for step in _DURATIONS if middle >= 2 * step[0] or step[0] == 1)
        shown = [None if value is None else value / factor for value in values]
        number_format = f"%,.{_decimals([value / factor for value in known])}f"
        return self._numbers(f"{self.label} ({unit})", shown, number_format=number_format)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareColumn(TextColumn):
    """A column of shares from 0 to 1 as bars with percent; only all of it is 100 %, none 0 %."""

    def drawn(self, values: Sequence[float | None]) -> DrawnColumn:
        """Return the column with its shares in percent."""
        shown = [None if value is None else _whole_percent(value) for value in values]
        return self._of(
            "ProgressColumn",
            pd.Series(shown, dtype="Float64"),
            format="%.0f %%",
            min_value=0,
            max_value=100,
            color=NEUTRAL,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn(TextColumn):
    """A column of moments, shown to the minute in the zone of the browser, which it names.

    Offsets in the cells would differ by season.
    """

    def drawn(self, values: Sequence[datetime | None]) -> DrawnColumn:
        """Return the column with its moments."""
        moments: Any = pd.to_datetime(pd.Series(list(values), dtype=object), utc=True)
        zone = str(clock.zone())
        return self._of(
            "DatetimeColumn",
            moments,
            label=f"{self.label} ({zone})",
            format="YYYY-MM-DD HH:mm",
            timezone=zone,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictColumn(TextColumn):
    """A column of verdicts: a sign and a word in the colour of the verdict."""

    def drawn(self, values: Sequence[Verdict | None]) -> DrawnColumn:
        """Return the column with its verdicts; None is an empty cell."""
        words = [[] if value is None else [verdict_text(value)] for value in values]
        return self._of(
            "MultiselectColumn",
            pd.Series(words, dtype=object),
            options=[verdict_text(verdict) for verdict in Verdict],
            color=[CHIP_COLOURS[verdict] for verdict in Verdict],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendColumn(TextColumn):
    """A column of small lines, each a series of numbers, oldest first, over its own median.

    All lines have one scale, so equal changes look equal.
    """

    def drawn(self, values: Sequence[Sequence[float]]) -> DrawnColumn:
        """Return the column with its lines; fewer than two numbers are none."""
        lines = [_over_median(numbers) for numbers in values]
        far = max((abs(value - 1) for line in lines if line for value in line), default=0.0)
        margin = min(max(far, _TREND_MARGIN), _MAX_TREND_MARGIN)
        low, high = 1 - margin, 1 + margin
        cut = [line and [min(max(value, low), high) for value in line] for line in lines]
        lines_shown = pd.Series(cut, dtype=object)
        return self._of("LineChartColumn", lines_shown, y_min=low, y_max=high, color=NEUTRAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTable:
    """A table to draw: the frame, its columns by name, and those that are shown at first.

    `label` is the accessible name.
    """

    frame: pd.DataFrame
    columns: dict[str, DrawnColumn]
    order: tuple[str, ...]
    label: str


def data_table(
    columns: Sequence[TextColumn], rows: Iterable[Sequence[Any]], *, label: str
) -> DataTable:
    """Return a table of `rows`, whose values have the types of `columns`."""
    listed = [tuple(row) for row in rows]
    by_column = zip(*listed, strict=True) if listed else [()] * len(columns)
    drawn = [column.drawn(list(values)) for column, values in zip(columns, by_column, strict=True)]
    names = _distinct([item.name for item in drawn])
    return DataTable(
        frame=pd.DataFrame({name: item.values for name, item in zip(names, drawn, strict=True)}),
        columns=dict(zip(names, drawn, strict=True)),
        order=tuple(
            name for name, column in zip(names, columns, strict=True) if not column.is_hidden
        ),
        label=label,
    )


def link_address(link: Link) -> str:
    """Return the address of a link that begins with its text: `./bert/../run?run=a`."""
    segment = quote(shown_text(link.text) or "-", safe="")
    return f"./{_DOT_SEGMENTS.get(segment, segment)}/../{link.href.removeprefix('./')}"


def verdict_text(verdict: Verdict) -> str:
    """Return the sign and the word of a verdict."""
    return f"{VERDICT_SIGNS[verdict]} {verdict}"


def shown_text(text: str) -> str:
    """Return `text` as one printable line of limited length."""
    return shortened(one_line(text), limit=_TEXT_LIMIT)


def _scaled(value: float, scale: Scale) -> float | None:
    """Return `value` in `scale`, None for one beyond all numbers."""
    shown = value / scale.factor
    return shown if math.isfinite(shown) else None


def _width_of(label: str, texts: Iterable[str | None]) -> int:
    """Return the pixels of the longest text: the browser measures the first rows only."""
    longest = max((len(text) for text in texts if text), default=0)
    return min(round(_CHARACTER_WIDTH * max(longest, len(label)) + _PADDING), _MAX_WIDTH)


def _are_counts(values: Sequence[float]) -> bool:
    # A browser counts exactly up to this number.
    return all(float(value).is_integer() and abs(value) < 2**53 for value in values)


def _decimals(values: Sequence[float]) -> int:
    """Return the decimals that show three digits of most numbers."""
    sizes = sorted(abs(value) for value in values if value and math.isfinite(value))
    if not sizes:
        return 0
    exponent = math.floor(math.log10(sizes[len(sizes) // 10]))
    return min(max(2 - exponent, 0), _MAX_DECIMALS)


def _over_median(values: Sequence[float]) -> list[float] | None:
    numbers = [value for value in values if math.isfinite(value)]
    middle = statistics.median(numbers) if numbers else 0.0
    if len(numbers) < 2 or not middle:
        return None
    return [value / middle for value in numbers]


def _distinct(names: Sequence[str]) -> list[str]:
    """Return `names`, a repeated one with its number: a frame needs distinct names."""
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        distinct.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return distinct


def _whole_percent(share: float) -> int:
    percent = round(100 * share)
    return min(99, max(1, percent)) if 0 < share < 1 else percent
