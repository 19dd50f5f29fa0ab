"""Check files by their bytes: ASCII, no trailing blanks, one newline at the end, not large.

Takes paths, or checks every file that git tracks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

TEXT_SUFFIXES = {
    "", ".cfg", ".css", ".Dockerfile", ".ini", ".md", ".py", ".pyi", ".sh", ".toml", ".txt",
    ".yaml", ".yml",
}  # fmt: skip
# Recorded results and screenshots are the largest things that belong here.
LARGE_BYTES = 2_000_000


def problems(path: Path) -> Iterable[str]:
    """Return the problems of the file at `path`, with line numbers."""
    content = path.read_bytes()
    if len(content) > LARGE_BYTES:
        yield f"{path}: {len(content)} bytes; {LARGE_BYTES} are allowed"
    if path.suffix not in TEXT_SUFFIXES or not content:
        return
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.isascii():
            yield f"{path}:{number}: not ASCII"
        if line != line.rstrip():
            yield f"{path}:{number}: blanks at the end of the line"
    if not content.endswith(b"\n") or content.endswith(b"\n\n"):
        yield f"{path}: must end with exactly one newline"


def main(arguments: list[str]) -> int:
    """Report every problem; return the exit status."""
    names = arguments
    if not names:
        listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True)
        names = [name for name in listed.stdout.decode().split("\0") if name]
    paths = [Path(name) for name in names if Path(name).is_file()]
    errors = [problem for path in paths for problem in problems(path)]
    sys.stderr.writelines(f"{problem}\n" for problem in errors)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
