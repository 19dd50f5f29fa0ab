"""Print the files of the interpreter's packages and its variables as one JSON object.

It runs under the interpreter of a toolchain, from Python 3.10, with the standard library alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import site
import sys
from collections.abc import Iterator

# Compiled modules follow from the others, and pip writes these for itself.
_NOT_CONTENT = re.compile(
    r"(^|/)__pycache__/|\.pyc$|\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json)$"
)
# A library of this size is compared by its size.
_LARGEST_HASHED = 1 << 20


def package_folders() -> list[str]:
    """Return the folders of packages in the order of imports, without those of another one."""
    names = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        names = [site.getusersitepackages(), *names]
    return [name for name in dict.fromkeys(map(os.path.realpath, names)) if os.path.isdir(name)]


def files_below(folder: str) -> Iterator[str]:
    """Yield the paths of all files below `folder`, relative to it."""
    for path, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        below = os.path.relpath(path, folder)
        yield from (name if below == "." else f"{below}/{name}" for name in sorted(names))


def plain(name: str) -> str:
    """Return the name of a package as the packaging tools compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def owners_in(folder: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the packages in `folder`, and the package of each recorded file."""
    versions: dict[str, str] = {}
    owners: dict[str, str] = {}
    for item in importlib.metadata.distributions(path=[folder]):
        name = plain(item.metadata["Name"] or "")
        if not name or name in versions:
            continue
        versions[name] = item.version
        for file in item.files or ():
            owners.setdefault(os.path.normpath(str(file)), name)
    return versions, owners


def owner_of(path: str, owners: dict[str, str], tops: dict[str, str]) -> str:
    """Return the package of a file, or `=` and the name at the top of what no package owns."""
    top = path.partition("/")[0]
    return owners.get(path) or tops.get(top) or f"={top}"


def digest(path: str) -> str:
    """Return the hash of a file, of a large one its size."""
    size = os.path.getsize(path)
    if size > _LARGEST_HASHED:
        return str(size)
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def describe() -> dict[str, object]:
    """Return the facts of this interpreter."""
    packages: dict[str, dict[str, object]] = {}
    for folder in package_folders():
        versions, owners = owners_in(folder)
        tops: dict[str, str] = {}
        for path, name in owners.items():
            tops.setdefault(path.partition("/")[0], name)
        files: dict[str, list[str]] = {}
        for path in files_below(folder):
            if not path.startswith("__pycache__/"):
                files.setdefault(owner_of(path, owners, tops), []).append(path)
        for name, paths in files.items():
            if name in packages:
                # The first folder hides the package of the later one.
                continue
            content = hashlib.sha256()
            for path in paths:
                if _NOT_CONTENT.search(path) is None:
                    content.update(f"{path}\0{digest(os.path.join(folder, path))}\n".encode())
            packages[name] = {
                "version": versions.get(name, ""),
                "folder": folder,
                "files": paths,
                "digest": content.hexdigest(),
            }
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "base": getattr(sys, "_base_executable", sys.executable),
        "variables": dict(os.environ),
        "packages": packages,
    }


if __name__ == "__main__":
    json.dump(describe(), sys.stdout)
