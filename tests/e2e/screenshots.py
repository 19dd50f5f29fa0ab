"""`python -m tests.e2e.screenshots FOLDER STORE_URL [PAGE...]`: pictures of every page.

Each page at two widths, light and dark; without pages, those that a store with runs has.
docs/images/overview.png is `overview-1440-light` of the store that `hud demo` writes, without the
empty margins and the store's path, in 64 colours.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import Browser, Page

from tests.e2e.dashboard import browsing, serving, window

WIDTHS = (1440, 800)
SCHEMES = ("light", "dark")


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


def settle(view: Page) -> None:
    """Wait until the page was drawn."""
    view.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    view.wait_for_timeout(600)


def found_pages(browser: Browser, address: str) -> list[str]:
    """Return the overview, the first series and run that it leads to, and pages of their own."""
    with window(browser) as context:
        view = context.new_page()
        view.goto(address)
        settle(view)
        pages = ["./"]
        for selector in ('a[href^="series?"]', 'a[href^="run?"]'):
            first = view.locator(selector)
            if first.count():
                pages.append(str(first.first.get_attribute("href")))
        others = ("alerts", "compare", "modes", "models", "studies", "runs", "health", "settings")
        return [*pages, *others]


def main(arguments: Sequence[str]) -> None:
    """Take the pictures that the command line asks for."""
    folder, store_url, *pages = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    with serving(store_url) as address, browsing() as browser:
        take(
            browser,
            address,
            folder=Path(folder),
            pages=pages or found_pages(browser, address),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
