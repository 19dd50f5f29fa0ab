"""The site has every document, and its links hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT, documents, module_of, text_of

SITE = module_of("docs/site.py")


@pytest.mark.parametrize(
    ("page", "link", "in_site"),
    [
        ("index.md", "[a](how-to/ci.md)", "[a](how-to/ci.md)"),
        ("how-to/ci.md", "[a](../reference/cli.md#compare)", "[a](../reference/cli.md#compare)"),
        ("how-to/ci.md", "[a](../../README.md)", "[a](../index.md)"),
        ("how-to/ci.md", "[a](../../benchmarks/README.md#b)", "[a](../benchmarks.md#b)"),
        ("contributing.md", "[a](docs/how-to/ci.md)", "[a](how-to/ci.md)"),
        ("models.md", "[a](../docs/reference/zoo.md)", "[a](reference/zoo.md)"),
        ("index.md", "[a](https://example.com/x.md)", "[a](https://example.com/x.md)"),
        ("index.md", "[a](#below)", "[a](#below)"),
        ("index.md", "![a](images/overview.png)", "![a](images/overview.png)"),
        ("how-to/ci.md", "[`ci.yml`](../../.github/workflows/ci.yml)", "`ci.yml`"),
        ("how-to/deployment.md", "[unit](../compile-hud.service)", "unit"),
    ],
)
def test_links_hold_in_the_site(page: str, link: str, in_site: str) -> None:
    assert SITE.relink(f"See {link}.", page=page) == f"See {in_site}."


def test_every_document_is_a_page_of_the_site() -> None:
    navigation = text_of("mkdocs.yml")
    pages = {source: page for page, source in SITE.OUTSIDE.items()}
    names = [pages.get(name, name.removeprefix("docs/")) for name in documents()]
    absent = {
        name for name in names if f": {name}\n" not in navigation and f"- {name}" not in navigation
    }
    assert {name for name in absent if not name.startswith("adr/0")} == {"README.md"}


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis.com" not in home
    assert (tmp_path / "site" / "search" / "search_index.json").is_file()
