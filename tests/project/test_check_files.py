"""The check of files by their bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

SCRIPT = ROOT / ".ci" / "check_files.py"


def check(path: Path) -> tuple[int, str]:
    """Return the exit status and the complaints about the file at `path`."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\xc3\xa9\n", ":1: not ASCII"),
        (b"one\ntwo \n", ":2: blanks at the end of the line"),
        (b"one\r\n", ":1: blanks at the end of the line"),
        (b"one", "must end with exactly one newline"),
        (b"one\n\n", "must end with exactly one newline"),
        (b"x" * 80 + b"\n" + b"y\n" * 1_000_000, "2000081 bytes; 2000000 are allowed"),
    ],
)
def test_a_flaw_is_reported(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "file.py"
    path.write_bytes(content)
    status, text = check(path)
    assert status == 1
    assert complaint in text


@pytest.mark.parametrize(
    ("name", "content"), [("file.py", b"fine\n"), ("empty.py", b""), ("image.png", b"\x89PNG \r\n")]
)
def test_clean_file_passes(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert check(path) == (0, "")
