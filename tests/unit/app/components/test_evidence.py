"""The environment differences on the page of an alert."""

from __future__ import annotations

from compile_hud.app.components.evidence import difference_table


def test_each_difference_of_the_ends_is_a_row() -> None:
    difference = {"torch": ["2.12", "2.13"], "packages.pip": [None, "25.0"]}
    html = difference_table(difference, ends=("last good", "first bad"), label="environment")
    for text in ("torch", "2.12", "2.13", "packages.pip", "25.0", "last good", "first bad"):
        assert text in html


def test_ends_that_differ_in_nothing_have_no_table() -> None:
    assert difference_table({}, ends=("last good", "first bad"), label="environment") == ""
