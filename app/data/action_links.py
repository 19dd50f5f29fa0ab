"""Read and apply the requests of signed links in messages: a part of app/data/store.py, without its
cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.app.data.store import open_store, store_url
from compile_hud.db.alerts.action_links import ACTION_STATES, LINK_SECRET_VARIABLE, ActionLink
from compile_hud.db.alerts.outbox import load_notification
from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.alerts import load_alerts_with_ids, load_ids_changed_after
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import ONGOING
from compile_hud.runner.analysis.alerts.triage import TriageDecision, needs_reason, set_state
from compile_hud.runner.analysis.errors import AlertStateError, ReasonMissing


class MeanwhileChanged(Exception):
    """An alert changed after the page was read; the request was not applied."""


class ReasonNeeded(Exception):
    """The request is granted only with a reason; it was not applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRequest:
    """The request of a link: `alerts` would change, `settled` are in the requested state already.

    `changed` are alerts whose states changed after the message was sent.
    """

    title: str
    receiver: str
    state: AlertState
    alerts: tuple[Alert, ...]
    settled: tuple[Alert, ...]
    changed: tuple[Alert, ...]

    @property
    def needs_reason(self) -> bool:
        """Return whether the request is granted only with a reason."""
        return any(needs_reason(alert, self.state) for alert in self.alerts)


def link_key() -> bytes | None:
    """Return the key that signs links, None without one."""
    return os.environ.get(LINK_SECRET_VARIABLE, "").encode("utf-8", "surrogateescape") or None


def load_link_request(link: ActionLink) -> LinkRequest:
    """Return the request of `link` against the alerts as they are now.

    Raises NotFoundError when the store no longer has the alerts of the message, and the errors of
    the store.
    """
    store = open_store(store_url())
    notification = load_notification(store, link.notification_id)
    alerts = load_alerts_with_ids(store, notification.alert_ids)
    if not alerts:
        raise NotFoundError("the alerts of this message are no longer in the store")
    state = ACTION_STATES[link.action]
    others = [alert for alert in alerts if alert.state is not state]
    ids = [alert.id for alert in others]
    changed = load_ids_changed_after(store, link.number, alert_ids=ids)
    # The page of an event leaves settled alerts alone, and so does a link, even of one alert.
    pending = [item for item in others if item.id not in changed and item.state in ONGOING]
    return LinkRequest(
        title=notification.title,
        receiver=notification.receiver,
        state=state,
        alerts=tuple(pending),
        settled=tuple(alert for alert in alerts if alert.state is state),
        changed=tuple(alert for alert in others if alert not in pending),
    )


def act(request: LinkRequest, *, by: str, why: str) -> None:
    """Move the alerts of `request` to its state, on record as decided `by` this name.

    Raises MeanwhileChanged if an alert changed since `request` was read, ReasonNeeded, and the
    errors of the store.
    """
    states = {alert.id: alert.state for alert in request.alerts}
    decision = set_state(states, request.state, why=why)

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        now_there = {alert.id: alert.state for alert in stored if alert.id in states}
        if now_there != states:
            raise MeanwhileChanged
        return decision(stored)

    try:
        store = open_store(store_url())
        store.revise_alerts(decide, by=by)
    except ReasonMissing as error:
        raise ReasonNeeded from error
    except AlertStateError as error:
        raise MeanwhileChanged from error
