"""Text on the terminal: nothing of it is executed, and each character has bytes."""

from __future__ import annotations

import io
import sys

import pytest

from compile_hud.runner.cli.echo import echo, escape_unencodable, print_document
from compile_hud.runner.cli.tables import stderr, stdout

# It clears the screen of a terminal.
CLEAR = "\x1b[2J"
HALF = "\ud800"


@pytest.mark.parametrize("text", [f"a{CLEAR}b", f"a{HALF}b", "a\rb", "a\x07b", "a\x9bb"])
def test_a_line_has_no_character_that_a_terminal_executes(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    echo(text)
    echo(text, err=True)
    stdout().print(text, markup=False)
    stderr().print(text, markup=False)
    written = capsys.readouterr()
    for lines in (written.out, written.err):
        assert lines.count("\n") == 2
        assert all(line.isprintable() for line in lines.splitlines())


def test_lines_and_tabs_stay(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\tb\nc", nl=False)
    assert capsys.readouterr().out == "a\tb\nc"


def test_styles_stay_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    stdout().print(f"[bold]{CLEAR}[/]", "end")
    assert capsys.readouterr().out == "?[2J end\n"


def test_a_document_is_unchanged_but_for_characters_without_bytes(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    print_document(f"a{CLEAR}\u2581{HALF}\n")
    assert capfdbinary.readouterr().out == f"a{CLEAR}\u2581\\ud800\n".encode()


def test_a_character_that_the_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    escape_unencodable()
    stream.write("\u2581")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\u2581"  # type: ignore[attr-defined]
