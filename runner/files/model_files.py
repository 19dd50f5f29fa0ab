"""The files of a model: its own, and its imports from its own folder or package.

Method: the import statements of each file are read, wherever they stand, and followed to files
below the model's folder and the working directory. Imports by a computed name are not seen.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

# A package of this many modules is a library; its version tells more than its files.
MAX_FILES = 500


def model_files(build: str, *, folder: Path) -> tuple[Path, ...]:
    """Return the files that the build string `build` leads to, its own first.

    `folder` is the working directory. There are none where the model is not a file below it, or is
    installed.
    """
    location = build.partition(":")[0]
    if location.endswith(".py"):
        entry = _resolved(folder / location)
        roots = [entry.parent, _resolved(folder)]
    else:
        roots = [_resolved(folder), _resolved(folder / "src")]
        entries = _files_of(location, roots=roots)
        entry = entries[-1] if entries else folder / location
    if not entry.is_file():
        return ()
    files = {entry: None}
    queue = [entry]
    while queue and len(files) < MAX_FILES:
        for path in _imports(queue.pop(), roots=roots):
            if path not in files:
                files[path] = None
                queue.append(path)
    return tuple(files)


def _resolved(path: Path) -> Path:
    # Path.resolve raises on a loop of links, which is no file.
    return Path(os.path.realpath(path))


def _imports(path: Path, *, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the files below `roots` that `path` imports; none where it is no Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        # The launch fails with the reason; the file itself is hashed all the same.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(alias.name, roots=roots)
        elif isinstance(node, ast.ImportFrom):
            own = _package(path, level=node.level)
            places = roots if own is None else [own]
            base = node.module or ""
            names = [f"{base}.{alias.name}".strip(".") for alias in node.names]
            for name in [*([base] if base else []), *names]:
                yield from _files_of(name, roots=places)


def _package(path: Path, *, level: int) -> Path | None:
    """Return the folder that a relative import of `level` starts from, None for an absolute one."""
    return path.parents[level - 1] if 0 < level <= len(path.parents) else None


def _files_of(name: str, *, roots: Sequence[Path]) -> list[Path]:
    """Return the files that importing the module `name` executes, the packages first."""
    for root in roots:
        parts = name.split(".")
        packages = [root.joinpath(*parts[: end + 1], "__init__.py") for end in range(len(parts))]
        module = root.joinpath(*parts[:-1], f"{parts[-1]}.py")
        files = [_resolved(path) for path in (*packages, module) if path.is_file()]
        if root.joinpath(*parts).is_dir() or module.is_file():
            return files
    return []
