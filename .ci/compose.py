"""Unpack the program Docker Compose into a folder, which reads docker-compose.yml.

Debian 12 only has a Compose from before the Compose Specification. Debian 13 has this one, which
needs nothing but libc. The exit status is 1 if it cannot be downloaded; the tests that need it are
skipped then.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import urllib.request
from pathlib import Path

URL = "http://deb.debian.org/debian/pool/main/d/docker-compose/docker-compose_2.26.1-4_amd64.deb"
SHA256 = "47681197cb2b1ab88206b42a1a92fc75f50d9530a6322d03494a473eed0408ea"
TIMEOUT_S = 60


def fetch(url: str, *, sha256: str) -> bytes:
    """Return the file at `url`; raise OSError if the download fails or has another digest."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        package: bytes = answer.read()
    if hashlib.sha256(package).hexdigest() != sha256:
        raise OSError(f"{url} is not the package that was asked for")
    return package


def unpack(package: bytes, folder: Path) -> None:
    """Put the files of a Debian package below `folder`; raise OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["dpkg-deb", "--extract", "/dev/stdin", str(folder)], input=package, check=False
    )
    if done.returncode:
        raise OSError("dpkg-deb cannot unpack it")


def main(folder: Path) -> None:
    """Fetch and unpack."""
    try:
        unpack(fetch(URL, sha256=SHA256), folder)
    except OSError as error:
        sys.exit(f"no Docker Compose: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
