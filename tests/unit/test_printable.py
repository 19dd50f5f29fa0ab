"""What a terminal is spared."""

from __future__ import annotations

import pytest

from runner.commands.common import printable


@pytest.mark.parametrize("sign", ["\x1b", "\x07", "\r", "\x9b", "\u202e", "\0"])
def test_a_sign_that_steers_a_terminal_is_replaced(sign: str) -> None:
    assert printable(f"a{sign}[31mb") == "a?[31mb"


@pytest.mark.parametrize("text", ["bert", "two\nlines", "a [b] & c", "\u00e4\u4e2d"])
def test_text_stays(text: str) -> None:
    assert printable(text) == text
