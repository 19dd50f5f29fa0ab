"""`python -m tests.support.pages.tour FILE STORE_URL`: the tour of the README, an animated WebP.

The store is that of `hud demo`. The tour goes from the overview to an alert, its kernel diff and
the trends. Each frame is labelled as synthetic data.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Locator, Page

from tests.support.pages.dashboard import browsing, serving, window
from tests.support.pages.screenshots import KERNEL_DIFF, settle

_WIDTH, _HEIGHT = 1280, 800
# The picture in the document is smaller, with a line below the page.
_FRAME_WIDTH, _LABEL_HEIGHT = 960, 34
_SCROLL_PX = 90
_SCROLL_MS, _LOOK_MS, _CLICK_MS = 90, 1900, 1100
_QUALITY = 62
_LABEL = "synthetic data of `hud demo`"
_EVENT = '.stMain a[href^="alerts?event="]'
_TRENDS = 'a[href$="/trends"]'
# A table on a canvas has its links as the text of cells; then the table is marked.
_CELL = '[data-testid=stDataFrame] canvas tbody td:has-text("alerts?alert=")'
_MARK = """link => {
    const element = link.closest("[data-testid=stDataFrame]") || link;
    element.scrollIntoView({block: "center"});
    element.style.outline = "3px solid #d55e00";
}"""
_PANE = "document.querySelector('.stMain')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One page of the tour: its question, how far it is scrolled, and the link that leads on."""

    question: str
    scroll_px: int
    link: str


STOPS = (
    Stop(question="What got slower?", scroll_px=540, link=_EVENT),
    Stop(question="Which cases does it concern?", scroll_px=0, link=_CELL),
    Stop(question="By how much, and since which revision?", scroll_px=540, link=KERNEL_DIFF),
    Stop(question="Which kernels are behind it?", scroll_px=720, link=_TRENDS),
    Stop(question="How does each mode develop?", scroll_px=810, link=""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A picture of the tour and the time for which it stays."""

    image: Image.Image
    duration_ms: int


def tour(view: Page, address: str) -> Iterator[Frame]:
    """Yield the frames of the tour."""
    view.goto(urljoin(address + "/", "./?machine=synthetic-demo"))
    for stop in STOPS:
        settle(view)
        # The foot names the file of the store.
        view.get_by_text("store /").last.evaluate("foot => foot.remove()")
        yield _frame(view, stop, duration_ms=_LOOK_MS)
        for top in range(_SCROLL_PX, stop.scroll_px + 1, _SCROLL_PX):
            view.evaluate(f"{_PANE}.scrollTop = {top}")
            view.wait_for_timeout(250)
            yield _frame(view, stop, duration_ms=_SCROLL_MS)
        if stop.scroll_px:
            yield _frame(view, stop, duration_ms=_LOOK_MS)
        if stop.link:
            link = view.locator(stop.link).first
            yield _frame_of_click(view, stop, link)
            href = link.get_attribute("href") or link.text_content() or ""
            view.goto(urljoin(view.url, href))


def _frame_of_click(view: Page, stop: Stop, link: Locator) -> Frame:
    link.evaluate(_MARK)
    view.wait_for_timeout(250)
    return _frame(view, stop, duration_ms=_CLICK_MS)


def _frame(view: Page, stop: Stop, *, duration_ms: int) -> Frame:
    page = Image.open(io.BytesIO(view.screenshot())).convert("RGB")
    return framed(page, question=stop.question, duration_ms=duration_ms)


def framed(page: Image.Image, *, question: str, duration_ms: int) -> Frame:
    """Return the picture of a page above its question and the label of synthetic data."""
    height = round(page.height * _FRAME_WIDTH / page.width)
    image = Image.new("RGB", (_FRAME_WIDTH, height + _LABEL_HEIGHT), "#1f2937")
    image.paste(page.resize((_FRAME_WIDTH, height), Image.Resampling.LANCZOS))
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=17)
    middle = height + _LABEL_HEIGHT // 2
    draw.text((14, middle), question, fill="white", font=font, anchor="lm")
    draw.text((_FRAME_WIDTH - 14, middle), _LABEL, fill="#fbbf24", font=font, anchor="rm")
    return Frame(image=image, duration_ms=duration_ms)


def write(path: Path, frames: Sequence[Frame]) -> None:
    """Write an animated WebP that repeats."""
    first, *others = (frame.image for frame in frames)
    first.save(
        path,
        save_all=True,
        append_images=others,
        duration=[frame.duration_ms for frame in frames],
        loop=0,
        quality=_QUALITY,
        method=6,
    )


def main(arguments: Sequence[str]) -> None:
    """Take the tour of the store that the command line names."""
    path, store_url = arguments
    with (
        serving(store_url) as address,
        browsing() as browser,
        window(browser, width=_WIDTH) as context,
    ):
        view = context.new_page()
        view.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
        write(Path(path), list(tour(view, address)))


if __name__ == "__main__":
    main(sys.argv[1:])
