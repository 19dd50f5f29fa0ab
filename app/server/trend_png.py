"""Draw the trends of alerts as PNGs: ids come in and pictures go out as JSON.

Each picture is written as a line as soon as it is drawn, so that none waits for the next.

The specification is that of the page of a series. It gets a title, a size and a light background,
since the background of a chat is unknown.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import vl_convert
from PIL import Image

from compile_hud.app.components.trend.rows import trend_chart
from compile_hud.app.data.annotations import annotated
from compile_hud.app.data.page_records import AlertPage
from compile_hud.app.views.alerts.data import load_alert_page
from compile_hud.db.errors import NotFoundError, StoreError
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.shared.text import one_line, shortened

WIDTH = 760
# This resolution is sharp enough on a phone.
_SCALE = 1.5
# A trend has a dozen colours, and their shades along edges of letters; a palette takes a tenth of
# the bytes.
_NUM_COLOURS = 128
# The font comes with the renderer, so the picture is the same on every machine.
FONT = "Liberation Sans"
_TITLE_LENGTH = 90
_INK = "#24292f"


def picture_spec(page: AlertPage) -> dict[str, Any] | None:
    """Return the trend of the series of an alert as a picture, None where the store has none."""
    if page.series is None or not page.series.points:
        return None
    metric = page.text.shown_metric
    spec = trend_chart(metric=metric, _page=annotated(page.series, metric=metric))
    title = f"{page.text.title}, {metric_label(metric)}"
    return {
        **spec,
        "width": WIDTH,
        "background": "#ffffff",
        "padding": 10,
        "title": {
            "text": shortened(one_line(title), limit=_TITLE_LENGTH),
            "anchor": "start",
            "fontSize": 14,
            "color": _INK,
        },
        "config": _light(spec["config"]),
    }


def _light(config: Mapping[str, Any]) -> dict[str, Any]:
    axis = {**config["axis"], "labelColor": _INK, "titleColor": _INK}
    return {**config, "axis": axis, "font": FONT}


def draw(spec: Mapping[str, Any]) -> bytes:
    """Return the PNG of a specification; the renderer fetches nothing for it."""
    drawn = vl_convert.vegalite_to_png(dict(spec), scale=_SCALE, allowed_base_urls=[])
    picture = Image.open(io.BytesIO(drawn)).convert("RGB")
    small = io.BytesIO()
    picture.quantize(_NUM_COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def pictures(alert_ids: list[str]) -> Iterator[dict[str, str]]:
    """Yield the picture of each alert in base64, by its id, without alerts that have no trend."""
    for alert_id in alert_ids:
        try:
            spec = picture_spec(load_alert_page(alert_id).value)
        except NotFoundError:
            continue
        if spec is not None:
            yield {alert_id: base64.b64encode(draw(spec)).decode("ascii")}


def main() -> int:
    """Read ids, write pictures; return the exit code."""
    try:
        for picture in pictures(json.load(sys.stdin)):
            sys.stdout.write(f"{json.dumps(picture)}\n")
            sys.stdout.flush()
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
