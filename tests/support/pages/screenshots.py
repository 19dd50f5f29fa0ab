"""`python -m tests.support.pages.screenshots FOLDER STORE_URL [PAGE...]`: pictures of every page.

Each page is taken at three widths, light and dark; by default the pages of a store with runs. The
page `documents` takes those in docs/images, of the store that `hud demo` writes.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urljoin

from PIL import Image
from playwright.sync_api import Browser, Page

from tests.support.pages.dashboard import IDLE, browsing, serving, window

WIDTHS = (1440, 800, 390)
SCHEMES = ("light", "dark")
# An argument of the command line: the pictures in the documents.
DOCUMENTS = "documents"
SLOWER = 'table.full a[href^="series?case=vit%2F"][href*="reduce-overhead"]'
ALERT = '.stMain a[href^="alerts?alert="]'
KERNEL_DIFF = '.stMain a[href^="kernel-diff?"]'
# Name, page, largest width and height, and colour scheme of each picture. Then come the links to
# follow from there; the last page is the picture. The case is one that got slower in the store of
# `hud demo`.
DOCUMENT_PICTURES = (
    ("overview", "./?machine=synthetic-demo", 1440, 1560, "light", ()),
    ("overview-narrow", "./?machine=synthetic-demo", 800, 1560, "dark", ()),
    ("series", "./?machine=synthetic-demo", 1200, 905, "dark", (SLOWER,)),
    ("trends", "trends", 1440, 1310, "light", ()),
    ("modes", "modes", 1200, 920, "light", ()),
    ("alerts", "alerts", 1200, 900, "light", ()),
    ("alert", "model?model=vit", 1200, 1100, "light", (ALERT,)),
    ("compare", "compare", 1200, 1000, "light", ()),
    ("release", "release", 1200, 1000, "light", ()),
    ("models", "models", 1200, 900, "dark", ()),
    ("kernels", "model?model=vit", 1200, 1100, "light", ('.stMain a[href^="kernels?"]',)),
    ("kernel-diff", "model?model=vit", 1200, 1100, "light", (ALERT, KERNEL_DIFF)),
    ("run", "./", 1200, 900, "light", ('.stMain a[href^="run?"]',)),
)
# With fewer colours the few words in the colour of a verdict turn grey.
_NUM_COLOURS = 256


def take(
    browser: Browser, address: str, *, folder: Path, pages: Sequence[str], prefix: str = ""
) -> None:
    """Write a picture of each page at each width in each colour scheme."""
    for scheme in SCHEMES:
        for width in WIDTHS:
            with window(browser, width=width, scheme=scheme) as context:
                view = context.new_page()
                for number, path in enumerate(pages):
                    view.goto(urljoin(address + "/", path))
                    settle(view)
                    # Streamlit scrolls inside the page; a window as high as its content shows all.
                    height = view.evaluate("document.querySelector('.stMain').scrollHeight")
                    view.set_viewport_size({"width": width, "height": min(max(height, 500), 4000)})
                    settle(view)
                    name = f"{prefix}{number}-{path.split('?')[0].strip('./') or 'overview'}"
                    view.screenshot(path=str(folder / f"{name}-{width}-{scheme}.png"))
                    view.set_viewport_size({"width": width, "height": 900})


def take_for_documents(browser: Browser, address: str, *, folder: Path) -> None:
    """Write the pictures of DOCUMENT_PICTURES, in few colours and without the store's path."""
    for name, page, width, most, scheme, links in DOCUMENT_PICTURES:
        with window(browser, width=width, scheme=scheme) as context:
            view = context.new_page()
            view.goto(urljoin(address + "/", page))
            settle(view)
            for link in links:
                view.goto(urljoin(address + "/", view.locator(link).first.get_attribute("href")))
                settle(view)
            # Elements inside Streamlit's scroll area are drawn only when the window has room for
            # them.
            view.set_viewport_size({"width": width, "height": most + 200})
            settle(view)
            foot = view.get_by_text("store /").last.bounding_box()
            height = min(foot["y"] if foot else most, most)
            png = view.screenshot(clip={"x": 0, "y": 0, "width": width, "height": height})
            few = Image.open(io.BytesIO(png)).convert("RGB").quantize(_NUM_COLOURS)
            few.save(folder / f"{name}.png", optimize=True)


def settle(view: Page) -> None:
    """Wait until the page was drawn."""
    view.wait_for_selector(IDLE)
    view.wait_for_timeout(600)


def visible_pages(browser: Browser, address: str) -> list[str]:
    """Return the overview, the first series and run that it links to, and single pages."""
    with window(browser) as context:
        view = context.new_page()
        view.goto(address)
        settle(view)
        pages = ["./"]
        for selector in ('a[href^="series?"]', '.stMain a[href^="run?"]'):
            first = view.locator(selector)
            if first.count():
                pages.append(str(first.first.get_attribute("href")))
        others = (
            "alerts",
            "trends",
            "compare",
            "modes",
            "models",
            "studies",
            "runs",
            "health",
            "settings",
        )
        return [*pages, *others]


def main(arguments: Sequence[str]) -> None:
    """Take the pictures that the command line names."""
    folder, store_url, *pages = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    with serving(store_url) as address, browsing() as browser:
        if pages == [DOCUMENTS]:
            take_for_documents(browser, address, folder=Path(folder))
            return
        take(
            browser,
            address,
            folder=Path(folder),
            pages=pages or visible_pages(browser, address),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
