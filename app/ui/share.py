"""Links, Markdown, commands, pictures and tables with which a view is shared."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import streamlit as st

from compile_hud.app.ui.scripts import script
from compile_hud.app.ui.templates.environment import render
from compile_hud.db.shared.text import one_line

# Our Markdown has this for the address at which the browser shows the page.
HERE = "HUD-THIS-PAGE"
_ACTS = {
    "link": ("Copy link", "The link is copied."),
    "markdown": ("Copy as Markdown", "The Markdown is copied."),
    "command": ("Copy command", "The command is copied."),
    "png": ("PNG", "The picture is saved."),
    "svg": ("SVG", "The drawing is saved."),
}
_STYLES = """
div.row { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; font-size: 13px; }
button { font: inherit; color: inherit; background: none; border-radius: 4px; cursor: pointer;
  padding: 3px 9px; border: 1px solid color-mix(in srgb, currentColor 30%, transparent); }
button:hover { background: color-mix(in srgb, currentColor 7%, transparent); }
button:focus-visible { outline: 2px solid currentColor; outline-offset: 1px; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The shareable contents of a view, besides its link; empty ones are not offered.

    `name` is that of files. `markdown` summarises the page, with HERE for its address; `command`
    measures it again. `chart` is the key of a chart, `csv` makes a table when it is called. `url`
    is a permanent address for a page whose own address means the newest.
    """

    name: str
    url: str = ""
    markdown: str = ""
    command: str = ""
    chart: str = ""
    csv: Callable[[], str] | None = None


def show_share(share: Share) -> None:
    """Draw a row of small buttons for the contents of a view."""
    acts = ["link"]
    acts += ["markdown"] if share.markdown else []
    acts += ["command"] if share.command else []
    acts += ["png", "svg"] if share.chart else []
    mount = st.components.v2.component(
        f"hud_share_{'_'.join(acts)}",
        html=render("parts.html", "share", acts=[(act, *_ACTS[act]) for act in acts]),
        css=_STYLES,
        js=script("share"),
    )
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        mount(
            # Streamlit accepts no id with two underscores, which the name of a model may have.
            key=f"share {hashlib.sha256(share.name.encode()).hexdigest()[:16]}",
            data={
                "markdown": share.markdown,
                "command": share.command,
                "chart": share.chart,
                "here": HERE,
                "url": share.url,
                "name": share.name,
            },
            width="content",
        )
        if share.csv is not None:
            st.download_button(
                "CSV",
                share.csv,
                file_name=f"{share.name}.csv",
                mime="text/csv",
                type="tertiary",
                # A rerun may drop the file before the browser asks for it.
                on_click="ignore",
            )


def go(url: str) -> None:
    """Let the browser go to a page of the dashboard, as a link does.

    After `st.switch_page` with parameters, the browser's back button shows this page with those
    parameters.
    """
    st.components.v2.component("hud_go", js=script("go"))(key="go", data={"url": url})


def file_name(*parts: str) -> str:
    """Return a file name made of names in the store, in characters that every system allows."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", " ".join(parts)).strip("-.")[:80] or "hud"


def code(text: str) -> str:
    """Return `text` as inline code in Markdown; backticks in it cannot end the code."""
    return f"`{one_line(text.replace('`', chr(39)))}`"


def block(text: str) -> str:
    """Return `text` as a block of code in Markdown; fences in it cannot end the block."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def summary_text(title: str, *, lines: Iterable[str], command: str) -> str:
    """Return a summary in Markdown: a title, a list, the address of the page, and a command."""
    listed = [f"- {line}" for line in (*lines, HERE)]
    return "\n".join([title, "", *listed, *(["", block(command)] if command else []), ""])
