"""The pictures in the documents are there, small, and not taken for measurements."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 200_000


@pytest.mark.parametrize("document", ["README.md", "docs/dashboard.md"])
def test_a_picture_is_there_small_and_called_synthetic(document: str) -> None:
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    ((name, caption),) = re.findall(r"!\[[^]]*\]\(([^)]*)\)\n\n(.*)", text)
    picture = path.parent / name
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < LARGEST_BYTES
    assert "hud demo" in text[text.index(caption) :].split("\n\n")[0]
