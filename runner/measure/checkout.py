"""Import a model's code from the checkout of another commit instead of its repository.

The checkout replaces the repository in the import path, in packages installed from there in
editable mode, and as the working directory. A module that still comes from the repository is an
error: the launch would have measured another commit.
"""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from compile_hud.models_zoo.building.loader import ModelLoadError
from compile_hud.runner.protocol.messages import Checkout

_OUR_ROOT = Path(__file__).resolve().parents[2]
_OURS = tuple(str(_OUR_ROOT / name) for name in ("db", "models_zoo", "runner"))
# setuptools uses this prefix for the finder of a package in editable mode.
_EDITABLE_PREFIX = "__editable__"


def enter(checkout: Checkout) -> None:
    """Make this process import from `checkout` instead of its repository."""
    for folder in _editable_folders(checkout):
        # The path precedes the finder, so a module on the path wins.
        sys.path.insert(0, str(folder))
    sys.path[:] = [str(_moved(Path(entry), checkout)) if entry else entry for entry in sys.path]
    folder = _moved(Path.cwd(), checkout)
    if folder.is_dir():
        os.chdir(folder)


def check_imports(checkout: Checkout, *, build: str) -> None:
    """Raise ModelLoadError when some module is the repository's, or none is the checkout's."""
    num_inside = 0
    for name, path in _loaded_files():
        num_inside += path.is_relative_to(checkout.folder)
        if _is_repositorys(path, checkout):
            raise ModelLoadError(
                f"the model {build!r} imports {name} from {path}, not from the commit that is"
                f" measured ({checkout.folder}): let the folder it is imported from be one that"
                " this commit has"
            )
    if not num_inside:
        raise ModelLoadError(
            f"the model {build!r} imports nothing from {checkout.repository}: is it another"
            " repository's?"
        )


def _moved(path: Path, checkout: Checkout) -> Path:
    """Return `path` moved into the checkout, or `path` itself if the checkout has no such file."""
    resolved = path.resolve()
    if not _is_repositorys(resolved, checkout):
        return path
    inside = Path(checkout.folder) / resolved.relative_to(checkout.repository)
    return inside if inside.exists() else path


def _is_repositorys(path: Path, checkout: Checkout) -> bool:
    """Return whether `path` is code of the repository itself: no checkout, nothing installed."""
    return (
        path.is_relative_to(checkout.repository)
        and not path.is_relative_to(checkout.folder)
        and not any(path.is_relative_to(folder) for folder in _installed(sys.prefix))
    )


@functools.cache
def _installed(prefix: str) -> set[str]:
    """Return the folders of installed packages, ours included: they may lie in the repository."""
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), prefix}
    return {*_OURS, *(str(Path(folder).resolve()) for folder in folders)}


def _loaded_files() -> Iterator[tuple[str, Path]]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            yield name, Path(file).resolve()


def _editable_folders(checkout: Checkout) -> Iterator[Path]:
    """Yield the folders of the repository's packages that are installed in editable mode."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(_EDITABLE_PREFIX):
            continue
        for target in getattr(module, "MAPPING", {}).values():
            if _is_repositorys(Path(target).resolve(), checkout):
                yield Path(target).parent
