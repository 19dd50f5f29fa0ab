"""Read and write annotations of dates; a part of app/data/store.py.

Each write checks the role of the person again, whatever the page has shown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.data.store import StoreVersion, open_store, store_url
from compile_hud.app.data.triage import DecisionNote
from compile_hud.db.alerts.annotations import (
    EVERYTHING,
    Annotation,
    concerning,
    load_annotations,
    new_annotation,
    problem_of,
    put_annotations,
    remove_annotation,
)
from compile_hud.db.errors import StoreError
from compile_hud.db.records.results import Case
from compile_hud.db.records.triage import JUDGE, is_reserved
from compile_hud.db.shared.access_rules import Role
from compile_hud.runner.analysis.repro import glob_escape

ACTION = "annotating"
_REMOVED = "an equal annotation was removed; use other words"


def annotated(page: SeriesPage, *, metric: str) -> SeriesPage:
    """Return `page` with the annotations that concern it, by their date."""
    every = _annotations().value
    annotations = concerning(every, case_key=page.case.key, metric=metric)
    return dataclasses.replace(page, annotations=annotations)


def patterns_of(case: Case, *, metric: str) -> dict[str, str]:
    """Return the pattern of each scope that an annotation can have, by its name."""
    return {
        "this series": f"{glob_escape(case.key)}#{glob_escape(metric)}",
        f"model {case.model}": f"{glob_escape(case.model)}/*",
        "everything": EVERYTHING,
    }


def write(text: str, *, at: datetime, pattern: str, note: DecisionNote) -> str:
    """Save an annotation; return the reason if it is not saved, else ""."""

    def save(by: str) -> str:
        made = new_annotation(text, at=at, pattern=pattern, by=by, made_at=clock.now())
        if problem := problem_of(made):
            return problem
        store = open_store(store_url())
        put_annotations(store, [made])
        # A second click makes an annotation with the same id, which is stored already.
        is_there = any(item.id == made.id for item in load_annotations(store))
        return "" if is_there else _REMOVED

    return _authorised(save, note=note)


def remove(annotation: Annotation, *, note: DecisionNote) -> str:
    """Remove an annotation, on record; return the reason if it is not removed, else ""."""

    def save(by: str) -> str:
        store = open_store(store_url())
        remove_annotation(store, annotation.id, by=by, at=clock.now())
        return ""

    return _authorised(save, note=note)


def _authorised(save: Callable[[str], str], *, note: DecisionNote) -> str:
    """Call `save` with the name for the record if the person is a triager; return the problem, or
    "".
    """
    person = access.present()
    try:
        access.require(person, Role.TRIAGER, action=ACTION)
        if not person.is_signed_in and is_reserved(note.author):
            problem = f"enter your name ('{JUDGE}' is reserved)"
        else:
            problem = save(person.signed_as(note.author))
    except (access.NotAllowed, StoreError) as error:
        problem = str(error)
    return f"Not saved: {problem}." if problem else ""


@cached_read
def _annotations(at: StoreVersion) -> tuple[Annotation, ...]:
    return load_annotations(at.store)
