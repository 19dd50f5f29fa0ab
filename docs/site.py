"""Hooks of the site: documents outside this folder become pages, and links to them lead there."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Page of the site -> document of the repository.
OUTSIDE = {
    "benchmarks.md": "benchmarks/README.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "models.md": "models_zoo/README.md",
}
_PAGES = {source: page for page, source in OUTSIDE.items()} | {"README.md": "index.md"}
_LINK = re.compile(r"\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\)")


def source_of(page: str) -> str:
    """Return the path in the repository of a page of the site."""
    return OUTSIDE.get(page, f"docs/{page}")


def relink(markdown: str, *, page: str) -> str:
    """Return the text of a page with links that hold in the site.

    A link to a file that is no page becomes its text: the site has no copy of the code.
    """

    def link(match: re.Match[str]) -> str:
        text, target = match["text"], match["target"]
        path, mark, anchor = target.partition("#")
        if "://" in target or not path or path.startswith("mailto:"):
            return match[0]
        source = source_of(page)
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        goal = _PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else "")
        if not goal or goal.endswith((".py", ".service")):
            return text
        return f"[{text}]({posixpath.relpath(goal, posixpath.dirname(page) or '.')}{mark}{anchor})"

    return _LINK.sub(link, markdown)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the documents outside this folder as pages."""
    from mkdocs.structure.files import File

    for page, source in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Return the text of a page with links that hold in the site."""
    return relink(markdown, page=page.file.src_uri)
