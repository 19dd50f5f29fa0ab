"""Search of everything that has a page: models, cases, alerts, runs, kernels and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.urls import (
    decide_url,
    kernels_url,
    model_url,
    run_url,
    series_url,
)
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.kernels import find_kernels
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.summaries import LatestCell, RunSummary
from compile_hud.db.records.triage import worst_first
from compile_hud.db.shared.settings_snapshot import SETTINGS_VARIABLE, settings_from_json
from compile_hud.db.shared.text import short_revision

# A person who does not see it among so many types another word.
MAX_HITS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A page that fits: its name, its address, and a text that tells it from others."""

    text: str
    href: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HitGroup:
    """The first hits of a kind, of `num_hits` in all."""

    kind: str
    hits: tuple[Hit, ...]
    num_hits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Searchable:
    """The records in which a search looks."""

    cells: tuple[LatestCell, ...]
    alerts: tuple[Alert, ...]
    runs: tuple[RunSummary, ...]


@cached_read
def load_searchable(at: StoreVersion) -> Searchable:
    """Return the newest result of each case, all alerts and the newest runs."""
    cells = load_latest(at.store, metrics=())
    return Searchable(
        cells=tuple(cell for cell in cells if not cell.summary.case.is_reference),
        alerts=tuple(worst_first(load_alerts(at.store))),
        runs=load_newest_runs.read_at(at),
    )


@cached_read
def load_kernel_hits(at: StoreVersion, text: str) -> HitGroup:
    """Return the kernels of the newest results whose label or name has all words of `text`."""
    cells = {cell.summary.id: cell for cell in load_searchable.read_at(at).cells}
    kernels = find_kernels(at.store, search_words(text), result_ids=cells)
    hits = [
        Hit(
            text=label,
            href=kernels_url(cells[id].run_id, case_key=cells[id].summary.case.key),
            note=cells[id].summary.case.key,
        )
        for label, id in kernels
    ]
    return HitGroup(kind="Kernels", hits=tuple(hits[:MAX_HITS]), num_hits=len(hits))


def search_words(text: str) -> tuple[str, ...]:
    """Return the words of a search in lower case, each once."""
    return tuple(dict.fromkeys(text.casefold().split()))


def search(text: str, known: Searchable) -> tuple[HitGroup, ...]:
    """Return the hits of each kind but kernels; every word of `text` must occur in a hit."""
    words = search_words(text)
    return tuple(
        group
        for kind, make in _KINDS.items()
        if (group := _group(kind, make(known), words=words)).hits
    )


def _group(kind: str, hits: Iterable[Hit], *, words: Sequence[str]) -> HitGroup:
    fitting = [
        hit for hit in hits if all(word in f"{hit.text} {hit.note}".casefold() for word in words)
    ]
    # A name that begins with the first word is what most people mean.
    fitting.sort(key=lambda hit: not hit.text.casefold().startswith(words[0]))
    return HitGroup(kind=kind, hits=tuple(fitting[:MAX_HITS]), num_hits=len(fitting))


def _models(known: Searchable) -> list[Hit]:
    ordered = sorted(known.cells, key=lambda cell: cell.run_started_at)
    newest = {cell.summary.case.model: cell for cell in ordered}
    return [
        Hit(
            text=model,
            href=model_url(model, machine=cell.machine, toolchain=cell.toolchain),
            note=cell.summary.case.family,
        )
        for model, cell in sorted(newest.items())
    ]


def _cases(known: Searchable) -> list[Hit]:
    return [
        Hit(
            text=cell.summary.case.key,
            href=series_url(cell.summary.case.key, machine=cell.machine, toolchain=cell.toolchain),
            note=f"{cell.machine}, toolchain {cell.toolchain}",
        )
        for cell in known.cells
    ]


def _alerts(known: Searchable) -> list[Hit]:
    return [
        Hit(
            text=alert_text(alert).title,
            href=decide_url(alert.id),
            note=f"{alert.state}, {alert.id[:8]}, {alert.machine}",
        )
        for alert in known.alerts
    ]


def _runs(known: Searchable) -> list[Hit]:
    return [
        Hit(
            text=summary.run.id,
            href=run_url(summary.run.id),
            note=f"{summary.run.suite}, {short_revision(summary.run.revision)},"
            f" {summary.run.machine}",
        )
        for summary in known.runs
    ]


def _settings(_known: Searchable) -> list[Hit]:
    settings = settings_from_json(os.environ.get(SETTINGS_VARIABLE, ""))
    return [
        Hit(text=f"[{item.section}] {item.key}", href="settings", note=item.description)
        for item in settings
    ]


_KINDS: dict[str, Callable[[Searchable], list[Hit]]] = {
    "Models": _models,
    "Alerts": _alerts,
    "Cases": _cases,
    "Runs": _runs,
    "Settings": _settings,
}
