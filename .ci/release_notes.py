"""Print the notes of a release: `python .ci/release_notes.py v0.2.0`.

The tag, pyproject.toml, docker-compose.yml, CITATION.cff and the newest section of CHANGELOG.md
must name one version. The exit status is 1 if they do not.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
_SECTION = re.compile(
    r"^## \[(?P<version>[^\]]+)\](?: - \S+)?\n(?P<text>.*?)(?=^## \[|\Z)", re.M | re.S
)
_IMAGE = re.compile(r"^\s+image: compile-hud-[a-z-]+:(?P<version>\S+)$", re.MULTILINE)


def versions(root: Path) -> dict[str, str]:
    """Return the version that each file of the project names, by the file."""
    compose = {match["version"] for match in _IMAGE.finditer(_text(root, "docker-compose.yml"))}
    citation = re.search(r"^version: (\S+)$", _text(root, "CITATION.cff"), re.MULTILINE)
    released = [name for name in sections(_text(root, "CHANGELOG.md")) if name != "Unreleased"]
    return {
        "pyproject.toml": tomllib.loads(_text(root, "pyproject.toml"))["project"]["version"],
        "docker-compose.yml": ", ".join(sorted(compose)),
        "CITATION.cff": citation[1] if citation else "",
        "CHANGELOG.md": released[0] if released else "",
    }


def sections(changelog: str) -> dict[str, str]:
    """Return the text of each version of a changelog, the newest first."""
    return {match["version"]: match["text"].strip() for match in _SECTION.finditer(changelog)}


def notes(root: Path, *, tag: str) -> str:
    """Return the notes of the release `tag`; raise ValueError where a file names another one."""
    version = tag.removeprefix("v")
    wrong = [
        f"{name} has {named or 'none'}"
        for name, named in versions(root).items()
        if named != version
    ]
    if wrong:
        raise ValueError(f"the tag is of version {version}, but {', '.join(wrong)}")
    text = sections(_text(root, "CHANGELOG.md"))[version]
    if not text:
        raise ValueError(f"CHANGELOG.md has nothing under version {version}")
    return text


def _text(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Print the notes; return the exit status."""
    try:
        (tag,) = arguments
        sys.stdout.write(notes(ROOT, tag=tag) + "\n")
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
