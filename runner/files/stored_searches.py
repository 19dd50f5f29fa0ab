"""The states of searches, each a file in a folder that is written after each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from compile_hud.db.errors import RecordError
from compile_hud.db.records.codec import decode, encode
from compile_hud.db.records.json_fields import get_value
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.protocol.files import write_json


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSearch(ABC):
    """A search that a later process can continue; `NOUN` is its name in errors."""

    NOUN: ClassVar[str]
    VERSION: ClassVar[int]

    id: str
    started_at: datetime

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Return whether nothing is left to measure."""

    def to_json(self) -> dict[str, Any]:
        """Return the search as a JSON object."""
        return {"schema_version": self.VERSION, **encode(self)}

    @classmethod
    def from_json(cls: type[_Search], document: Any) -> _Search:
        """Return the search that `document` describes; raise RecordError when it does not."""
        version = get_value(document, "schema_version")
        if version != cls.VERSION:
            raise RecordError(f"schema_version is {version!r}, not {cls.VERSION}", version=version)
        return decode(cls, document)


_Search = TypeVar("_Search", bound=StoredSearch)


def write_search(search: StoredSearch, *, folder: Path) -> None:
    """Write `search` to `folder`, completely and synchronised to the disk; raise OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{search.id}.json", search.to_json())


def search_ids(folder: Path, *, begins: str = "") -> list[str]:
    """Return the ids of the stored searches that begin with `begins`."""
    return sorted(path.stem for path in folder.glob("*.json") if path.stem.startswith(begins))


def read_searches(kind: type[_Search], *, folder: Path, begins: str = "") -> list[_Search]:
    """Return the searches stored in `folder` whose ids begin with `begins`, the newest first.

    Raises RecordError with the name of an invalid file.
    """
    searches = []
    for name in search_ids(folder, begins=begins):
        path = folder / f"{name}.json"
        try:
            searches.append(kind.from_json(read_json(path)))
        except RecordError as error:
            version = error.parameters.get("version")
            is_newer = isinstance(version, int) and version > kind.VERSION
            advice = "continue it with the version that wrote it" if is_newer else "remove it"
            raise RecordError(
                f"{path} is no {kind.NOUN}: {error}; {advice}", path=path, reason=str(error)
            ) from error
    return sorted(searches, key=lambda item: item.started_at, reverse=True)
