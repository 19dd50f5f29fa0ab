"""The frames of an error in the user's own model, without those of other code.

A user looks for a mistake in their own file. The frames of this worker, of torch and of other
libraries do not help. This module imports no torch.
"""

from __future__ import annotations

import importlib.util
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from traceback import FrameSummary

from compile_hud.models_zoo.catalog.spec import ZOO_PREFIX
from compile_hud.runner.measure.compile.source_locations import (
    USER_CODE,
    quoted_frames,
    short_location,
)

_OUR_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCodeError:
    """An error with the frames of the user's code that led to it, the innermost last."""

    error: BaseException
    frames: tuple[FrameSummary, ...]

    @property
    def text(self) -> str:
        """Return the traceback, as Python writes one."""
        kind = "".join(traceback.format_exception_only(self.error)).partition(USER_CODE)[0]
        head = ["Traceback (of the model's own code):\n"] if self.frames else []
        return "".join([*head, *traceback.format_list(list(self.frames)), kind.rstrip(), "\n"])

    @property
    def location(self) -> str:
        """Return the innermost line: `bench.py:12 in forward`; empty where none is known."""
        return short_location(self.frames)


def user_traceback(error: BaseException, *, build: str) -> UserCodeError | None:
    """Return the frames of `error` in the code that `build` names; None without any.

    It is None for models of the zoo too: their developers need the whole traceback.
    """
    location = build.partition(":")[0]
    if location.startswith(ZOO_PREFIX):
        return None
    folders = _folders(location)
    # The innermost cause with a frame of the user's code counts.
    for cause in reversed(list(_chain(error))):
        frames = tuple(frame for frame in _frames(cause) if _is_own(frame.filename, folders))
        if frames or _is_own(getattr(cause, "filename", None) or "", folders):
            return UserCodeError(error=cause, frames=frames)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _frames(error: BaseException) -> list[FrameSummary]:
    return [*traceback.extract_tb(error.__traceback__), *quoted_frames(error)]


def _folders(location: str) -> tuple[Path, ...]:
    """Return the folders of a model's code, which may be installed among other packages."""
    if location.endswith(".py"):
        return (Path(location).expanduser().resolve().parent,)
    try:
        spec = importlib.util.find_spec(location.partition(".")[0])
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations:
        return tuple(Path(folder).resolve() for folder in spec.submodule_search_locations)
    return () if spec.origin is None else (Path(spec.origin).resolve(),)


def _is_own(file: str, folders: tuple[Path, ...]) -> bool:
    """Return whether `file` is the user's: the nearest folder with a known owner decides.

    A user's package may be among the installed ones, and a virtual environment next to their file.
    """
    if not file or file.startswith("<"):
        return False
    path = Path(file).resolve()
    foreign = _depth(path, folders=_foreign_folders())
    return foreign == 0 or _depth(path, folders=folders) >= foreign


def _depth(path: Path, *, folders: Iterable[Path]) -> int:
    """Return the number of path parts of the longest of `folders` that contains `path`, else 0."""
    return max((len(item.parts) for item in folders if path.is_relative_to(item)), default=0)


def _foreign_folders() -> Iterator[Path]:
    for name in ("db", "models_zoo", "runner"):
        yield _OUR_ROOT / name
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    for folder in (*site.getsitepackages(), *(sysconfig.get_path(name) for name in names)):
        yield Path(folder).resolve()
    yield Path(site.getusersitepackages()).resolve()
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__ is not None:
        yield Path(torch.__file__).resolve().parent
