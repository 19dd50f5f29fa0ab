"""The pictures in the documents are there, small, and not taken for measurements."""

from __future__ import annotations

import re

import pytest
from PIL import Image

from tests.support.pages.tour import STOPS, framed
from tests.support.sources import ROOT, documents, text_of

LARGEST_BYTES = {".png": 150_000, ".webp": 1_500_000}


@pytest.mark.parametrize("document", ["README.md", "docs/index.md", "docs/reference/dashboard.md"])
def test_a_picture_is_there_small_and_called_synthetic(document: str) -> None:
    path = ROOT / document
    text = path.read_text(encoding="utf-8")
    matches = re.findall(r"!\[[^]]*\]\(([^)]*)\)\n\n(.*)", text)
    assert matches
    for name, caption in matches:
        picture = path.parent / name
        with Image.open(picture) as image:
            assert f".{image.format.lower()}" == picture.suffix
        assert picture.stat().st_size < LARGEST_BYTES[picture.suffix]
        assert "hud demo" in text[text.index(caption) :].split("\n\n")[0]


def test_each_picture_is_in_a_document() -> None:
    texts = [text_of(name) for name in documents()]
    for picture in (ROOT / "docs/images").iterdir():
        assert any(f"images/{picture.name})" in text for text in texts)


def test_the_readme_shows_the_product_in_motion() -> None:
    with Image.open(ROOT / "docs/images/tour.webp") as image:
        assert image.n_frames >= len(STOPS)
        assert image.info["loop"] == 0
        durations_ms = []
        for index in range(image.n_frames):
            image.seek(index)
            image.load()
            durations_ms.append(image.info["duration"])
    assert 10 <= sum(durations_ms) / 1000 <= 60
    assert "(docs/images/tour.webp)" in text_of("README.md")


def test_each_frame_of_the_tour_is_labelled_as_synthetic() -> None:
    page = Image.new("RGB", (1280, 800), "white")
    frame = framed(page, question="", duration_ms=1)
    label = frame.image.crop((0, 600, 960, 634))
    assert frame.image.size == (960, 634)
    # A question and a label in the colour of warnings on a dark line.
    assert (251, 191, 36) in {colour for _, colour in label.getcolors(10_000)}
