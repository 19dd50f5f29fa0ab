"""What of an error lies in the code of a user's own model: its traceback without anybody else's.

A user looks for their mistake in their file. The frames of this worker around it, and those of
torch and of other libraries within it, say nothing of that. No torch in here.
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
    """Return what of `error` lies in the code that `build` names; None where nothing does.

    It is None for models of the zoo too: who works on these wants the whole traceback.
    """
    location = build.partition(":")[0]
    if location.startswith(ZOO_PREFIX):
        return None
    folders = _folders(location)
    # The innermost cause that the user's code has a part in.
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
    """Return where the code of a model lies that may be installed beside all other packages."""
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
    """Return whether `file` is the user's: the nearest folder that somebody is known for decides.

    A package of theirs may lie among the installed ones, a virtual environment beside their file.
    """
    if not file or file.startswith("<"):
        return False
    path = Path(file).resolve()
    foreign = _depth(path, folders=_foreign_folders())
    return foreign == 0 or _depth(path, folders=folders) >= foreign


def _depth(path: Path, *, folders: Iterable[Path]) -> int:
    """Return how many parts the longest of `folders` that has `path` has, 0 for none."""
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
