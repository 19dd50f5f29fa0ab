"""Remarks of people about dates, shown in every trend that they concern.

An annotation is written once, under an id that is the hash of its content. A removal is a record
too, so author and remover stay known. Writing or removing twice changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import insert, select, update

from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.records.codec import JsonRecord, Name, decode
from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.triage import fits
from compile_hud.db.rows.mapping import clean_text, utc, utc_or_none
from compile_hud.db.schema.tables import AnnotationTable
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store

# The pattern of an annotation that concerns every series.
EVERYTHING: Final = "*"
# An annotation is a remark and no document; a trend shows the beginning of it.
MAX_TEXT: Final = 1000
_ID_LENGTH: Final = 12
_ALL: Final = select(AnnotationTable).order_by(
    AnnotationTable.c.at, AnnotationTable.c.made_at, AnnotationTable.c.id
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation(JsonRecord):
    """A remark about the moment `at`, with author and time, and with its removal if it was removed.

    `pattern` is a glob of `case#metric`, EVERYTHING for all. `removed_by` is empty until its
    removal.
    """

    id: Name
    at: datetime
    pattern: Name
    text: str
    by: str
    made_at: datetime
    removed_by: str = ""
    removed_at: datetime | None = None

    @classmethod
    def from_json(cls, document: Any) -> Annotation:
        """Return the annotation that `document` describes; raise RecordError for an invalid one."""
        annotation = decode(cls, document)
        if problem := problem_of(annotation):
            raise RecordError(problem)
        return annotation


def new_annotation(
    text: str, *, at: datetime, pattern: str, by: str, made_at: datetime
) -> Annotation:
    """Return an annotation whose id is the hash of its content: entered twice, it is one."""
    text = text.strip()
    content = json.dumps([time_to_json(at), pattern, text, by])
    id = hashlib.sha256(content.encode()).hexdigest()[:_ID_LENGTH]
    return Annotation(id=id, at=at, pattern=pattern, text=text, by=by, made_at=made_at)


def problem_of(annotation: Annotation) -> str:
    """Return the reason why this annotation cannot be shown, "" for none."""
    if not annotation.text.strip():
        return "an annotation needs a text"
    if len(annotation.text) > MAX_TEXT:
        signs = counted(len(annotation.text), "sign")
        return f"the text has {signs}; an annotation has {MAX_TEXT} at most"
    if not annotation.id or not annotation.pattern:
        return "an annotation needs an id and a pattern"
    return ""


def put_annotations(store: Store, annotations: Iterable[Annotation]) -> int:
    """Store new annotations, and removals of stored ones; return the number of changes."""
    num_changed = 0
    with store.write() as connection:
        known = {item.id: item for item in map(_record, connection.execute(_ALL))}
        for item in annotations:
            old = known.get(item.id)
            if old is None:
                connection.execute(insert(AnnotationTable).values(**_values(item)))
            elif item.removed_by and not old.removed_by:
                changed = {"removed_by": item.removed_by, "removed_at": item.removed_at}
                here = AnnotationTable.c.id == item.id
                connection.execute(update(AnnotationTable).where(here).values(**changed))
            else:
                continue
            known[item.id] = item
            num_changed += 1
    return num_changed


def remove_annotation(store: Store, id: str, *, by: str, at: datetime) -> bool:
    """Remove an annotation; return False if it was removed before; raise NotFoundError."""
    annotation = {item.id: item for item in load_annotations(store, with_removed=True)}.get(id)
    if annotation is None:
        raise NotFoundError(
            f"no annotation {id!r} in {store.name}; `hud annotate list` lists them",
            annotation=id,
            store=store.name,
        )
    removed = dataclasses.replace(annotation, removed_by=by, removed_at=at)
    return bool(put_annotations(store, [removed]))


def load_annotations(store: Store, *, with_removed: bool = False) -> tuple[Annotation, ...]:
    """Return the annotations by date, removed ones only with `with_removed`."""
    with store.read() as connection:
        annotations = map(_record, connection.execute(_ALL))
        return tuple(item for item in annotations if with_removed or not item.removed_by)


def concerning(
    annotations: Iterable[Annotation], *, case_key: str, metric: str
) -> tuple[Annotation, ...]:
    """Return the annotations of a metric of a case."""
    # A series key ends with the environment, which an annotation ignores.
    key = f"{case_key}#{metric}@"
    return tuple(item for item in annotations if fits(item.pattern, series_key=key))


def _values(item: Annotation) -> dict[str, Any]:
    texts = {name: clean_text(getattr(item, name)) for name in ("id", "pattern", "text", "by")}
    return {
        **texts,
        "at": item.at,
        "made_at": item.made_at,
        "removed_by": clean_text(item.removed_by) or None,
        "removed_at": item.removed_at,
    }


def _record(row: Any) -> Annotation:
    return Annotation(
        id=row.id,
        at=utc(row.at),
        pattern=row.pattern,
        text=row.text,
        by=row.by,
        made_at=utc(row.made_at),
        removed_by=row.removed_by or "",
        removed_at=utc_or_none(row.removed_at),
    )
