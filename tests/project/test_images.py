"""The pictures in the documents are there, small, and not taken for measurements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 150_000


@pytest.mark.parametrize("document", ["README.md", "docs/index.md", "docs/reference/dashboard.md"])
def test_a_picture_is_there_small_and_called_synthetic(document: str) -> None:
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    matches = re.findall(r"!\[[^]]*\]\(([^)]*)\)\n\n(.*)", text)
    assert matches
    for name, caption in matches:
        picture = path.parent / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < LARGEST_BYTES
        assert "hud demo" in text[text.index(caption) :].split("\n\n")[0]


def test_each_picture_is_in_a_document() -> None:
    text = (ROOT / "docs/reference/dashboard.md").read_text(encoding="utf-8")
    for picture in (ROOT / "docs/images").glob("*.png"):
        assert f"(../images/{picture.name})" in text
