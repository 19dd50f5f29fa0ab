"""The title of an event on a page: subject and change; the rest of it are chips. Pure.

The stored title, which messages show, is complete: `vit/inference/full/bf16/default/cuda: slower by
8.2 to 8.6 % since REVISION (TOOLCHAIN on MACHINE)`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.app.ui.alert_text import alert_text, case_title, event_words
from compile_hud.db.records.alerts import DRIFT, Alert, Event, began, leading
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.triage import size_pct
from compile_hud.db.shared.text import counted, short_revision

_LATENCY = "latency_s"
_NOT_THE_REVISION = " (not by the revision)"
_AMOUNT = re.compile(r"(?P<word>.+) by (?P<amount>[\d.]+(?: to [\d.]+)? %)(?P<kind> \(.+\))?")
_LATENCY_WORDS = {Verdict.REGRESSION: "slower", Verdict.IMPROVEMENT: "faster"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTitle:
    """The subject and the change of an event, and the rest.

    `case` has phase, shape, dtype and device, nothing for several cases. `scope` is the rest:
    reference cases, revision, toolchain, machine.
    """

    subject: str
    change: str
    case: tuple[str, ...]
    scope: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the subject and the change."""
        return f"{self.subject}: {self.change}"

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the facts that may distinguish it from an event of an equal subject."""
        return (*self.case, *self.scope[-2:])


def distinct_titles(titles: Sequence[EventTitle]) -> list[str]:
    """Return the texts of `titles`; those of an equal subject name the facts that differ.

    Example: `vit / default (training): 7.0 % slower`.
    """
    alike: dict[str, list[EventTitle]] = defaultdict(list)
    for title in titles:
        alike[title.subject].append(title)
    return [_distinct(title, alike[title.subject]) for title in titles]


def _distinct(title: EventTitle, alike: Sequence[EventTitle]) -> str:
    # The numbers of facts differ where one event is of a case and the other of several.
    rivals = [other.facts for other in alike if len(other.facts) == len(title.facts)]
    own = [
        fact
        for fact, values in zip(title.facts, zip(*rivals, strict=True), strict=True)
        if len(set(values)) > 1
    ]
    return f"{title.subject} ({', '.join(own)}): {title.change}" if own else title.text


def event_title(event: Event | None, alerts: Sequence[Alert], *, onset: Alert) -> EventTitle:
    """Return the title of `alerts`, which are those of `event`; None for a single alert.

    `onset` is the alert whose first run is named.
    """
    first = alerts[0]
    is_one_case = len({alert.case.key for alert in alerts}) == 1
    words = f"{first.case.key}: {_change_of(first)}"
    if event is not None:
        words = event_words(event.title, onset)
    subject, _, change = words.rpartition(": ")
    is_by_revision = not change.endswith(_NOT_THE_REVISION)
    change = _amount_first(change.removesuffix(_NOT_THE_REVISION), alerts)
    if is_one_case:
        subject = case_title(first.case)
    references = {alert.case.key for alert in alerts if alert.case.is_reference}
    also = f"and {counted(len(references), 'reference case')}"
    notes = () if is_by_revision else (_NOT_THE_REVISION.strip(" ()"),)
    if references and subject.endswith(f" {also}"):
        subject = subject.removesuffix(f" {also}")
        notes = (*notes, also)
    revision = f"since {short_revision(began(onset).revision)}"
    return EventTitle(
        subject=subject,
        change=change,
        case=case_chips(first.case) if is_one_case else (),
        scope=(*notes, revision, first.toolchain, first.machine),
    )


def case_chips(case: Case) -> tuple[str, ...]:
    """Return the facts that distinguish a case from others of its model and variant."""
    return (str(case.phase), case.shape, str(case.dtype), case.device)


def _change_of(alert: Alert) -> str:
    """Return the change of a single alert: `20.0 % slower`, `speedup +13.9 %`, `fails`."""
    size, word = size_pct(alert), _LATENCY_WORDS.get(alert.verdict)
    if alert.metric == _LATENCY and alert.kind == "step" and size is not None and word:
        return f"{word} by {size:.1f} %"
    text = alert_text(alert)
    return text.named_change if alert.change_pct is None else text.mark


def _amount_first(change: str, alerts: Sequence[Alert]) -> str:
    """Return `slower by 8.2 to 8.6 %` as `8.2 to 8.6 % slower`.

    Of one case the latency counts, since its speedup says the same in other numbers.
    """
    match = _AMOUNT.fullmatch(change)
    if match is None:
        return change
    latency = latency_of(alerts)
    size = None if latency is None else size_pct(latency)
    amount = match["amount"] if size is None else f"{size:.1f} %"
    return f"{amount} {match['word']}{match['kind'] or ''}"


def latency_of(alerts: Sequence[Alert]) -> Alert | None:
    """Return the one alert about the latency that describes an event of one case, else None."""
    if len({alert.case.key for alert in alerts}) != 1:
        return None
    numbers = [item for item in leading(alerts) if item.kind in ("step", DRIFT)]
    latencies = [item for item in numbers if item.metric == _LATENCY]
    return latencies[0] if len(latencies) == 1 else None
