"""Test the delivery of notifications: bad servers, and a sender that is killed again and again.

A store is filled with notifications, several about each alert. A process sends them to a real HTTP
server with random faults: 500, 503, 429, redirects, no answer, one byte at a time, a cut
connection, before and after it took the message. A second receiver has no TLS although it should.
The sender is killed (SIGKILL) at random moments. In the end nothing may be missing. Nothing may be
there twice, except under its own key. Nothing about an alert may precede earlier news of it.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from benchmarks.receiving import Handler, Inbox, receiving
from benchmarks.startup import RESULTS, describe_machine
from compile_hud.db.alerts.outbox import count_outbox, load_outbox
from compile_hud.db.records.notifications import (
    AlertChangeKind,
    Notification,
    NotificationState,
    Severity,
    stable_id,
)
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store, utc_now
from compile_hud.runner.notifications.delivery_policy import Policy
from compile_hud.runner.notifications.dispatcher import Dispatcher, Item
from compile_hud.runner.notifications.http_client import HttpRules
from compile_hud.runner.notifications.http_response import Poster
from compile_hud.runner.notifications.receivers.webhook import Webhook
from tests.support.servers.postgres import find_binaries, running_server

# 2: has the kind of the store. 1: first version.
SCHEMA_VERSION = 2
STORES = ("duckdb", "postgres")
NUM_BEHIND_TLS = 20
# Pauses of seconds would measure only the pauses.
POLICY = Policy(base_s=0.01, cap_s=0.05, max_attempts=10**6)
RULES = HttpRules(allow_private=True, connect_s=2.0, total_s=0.3)
_CONTEXT = multiprocessing.get_context("forkserver")
_KINDS = (
    AlertChangeKind.OPENED,
    AlertChangeKind.WORSENED,
    AlertChangeKind.FIXED,
    AlertChangeKind.REOPENED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The difficulty of a trial; a sender lives for at most `longest_life_s` until the last one."""

    num_notifications: int
    num_alerts: int
    num_kills: int
    seed: int
    longest_life_s: float
    max_together: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a trial; the last four should be 0.

    Of the requests the server took some, and some notifications came again.
    """

    wall_s: float
    num_requests: int
    num_taken: int
    num_killed: int
    num_repeated: int
    num_repeated_after_success: int
    answers: dict[str, int]
    num_lost: int
    num_not_sent: int
    num_out_of_order: int
    num_repeats_beyond_kills: int


class Server:
    """Misbehaves at random, from a seed, and records the messages that it took."""

    def __init__(self, seed: int) -> None:
        self.taken: list[tuple[str, list[str], bool]] = []
        self.answers: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def behave(self, handler: Handler, number: int) -> None:
        """Answer one request."""
        request = handler.inbox.requests[number]
        ids = [item["id"] for item in json.loads(request.body)["data"]["notifications"]]
        with self._lock:
            (name,) = self._random.choices(list(_BEHAVIOURS), weights=_WEIGHTS)
            self.answers[name] += 1
            if name.startswith("taken"):
                self.taken.append((request.headers["webhook-id"], ids, name == "taken"))
        _BEHAVIOURS[name](handler)


_BEHAVIOURS: dict[str, Callable[[Handler], None]] = {
    "taken": lambda handler: handler.answer(204),
    "taken, then reset": lambda handler: handler.reset(),
    "taken, then silent": lambda handler: handler.hang(s=1.0),
    "500": lambda handler: handler.answer(500),
    "503": lambda handler: handler.answer(503),
    "429": lambda handler: handler.answer(429, Retry_After="0"),
    "redirect": lambda handler: handler.answer(302, Location="http://127.0.0.1:1/"),
    "reset": lambda handler: handler.reset(),
    "silent": lambda handler: handler.hang(s=1.0),
    "slow loris": lambda handler: handler.drip(every_s=0.02, num=50),
}
_WEIGHTS = (60, 5, 3, 8, 5, 5, 4, 5, 2, 3)


def make_notifications(trial: Trial) -> list[Notification]:
    """Return the notifications of `trial`, those about an alert in the order of their numbers."""
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return [
        Notification(
            id=stable_id(str(trial.seed), str(number)),
            receiver="tls" if number < NUM_BEHIND_TLS else "ops",
            subject=f"event {number}",
            kind=_KINDS[number // trial.num_alerts % len(_KINDS)],
            severity=Severity.MAJOR,
            title=f"notification {number}",
            alert_ids=(f"alert {number % trial.num_alerts}",),
            created_at=at,
            due_at=at,
        )
        for number in range(trial.num_notifications)
    ]


def send_all(store_url: str, urls: dict[str, str], max_together: int) -> None:
    """Send until nothing waits; this runs in a process that is killed."""
    dispatcher = Dispatcher(
        store=Store(store_url),
        receivers={
            name: Webhook(poster=Poster(url=url, rules=RULES)) for name, url in urls.items()
        },
        build_messages=_plain,
        now=utc_now,
        jitter=lambda limit_s: random.uniform(0.0, limit_s),
        policy=replace(POLICY, max_together=max_together),
    )
    while _num_waiting(dispatcher.store, "ops"):
        dispatcher.dispatch()
        time.sleep(POLICY.base_s)
    # At least one attempt at an unreachable receiver.
    dispatcher.dispatch()


def _plain(notifications: Sequence[Notification]) -> list[Item]:
    return [Item(notification=item, alerts=(), num_alerts=1) for item in notifications]


def _num_waiting(store: Store, receiver: str) -> int:
    over = (NotificationState.SENT, NotificationState.DEAD, NotificationState.DROPPED)
    counts = count_outbox(store).items()
    return sum(num for (name, state), num in counts if name == receiver and state not in over)


def torture(trial: Trial, *, url: str) -> Outcome:
    """Carry out `trial` with the empty store at `url` and return the outcome."""
    _CONTEXT.set_forkserver_preload([__name__])
    notifications = make_notifications(trial)
    with Store(url).write() as connection:
        put_notifications(connection, notifications)
    server = Server(trial.seed)
    started = time.monotonic()
    with receiving(server.behave) as inbox:
        broken = inbox.url.replace("http:", "https:")
        num_killed = _send_and_kill(url, {"ops": inbox.url, "tls": broken}, trial=trial)
        num_early = sum(_behind_tls(ids, notifications) for _, ids, _ in server.taken)
        assert num_early == 0, "something went to a server that speaks no TLS"
        # The address is corrected here.
        process = _CONTEXT.Process(target=_mended, args=(url, inbox.url, trial.max_together))
        process.start()
        process.join()
    return _outcome(
        server,
        inbox=inbox,
        store=Store(url),
        notifications=notifications,
        times=(time.monotonic() - started, num_killed),
    )


def _mended(store_url: str, address: str, max_together: int) -> None:
    store = Store(store_url)
    while _num_waiting(store, "tls"):
        send_all(store_url, {"tls": address, "ops": address}, max_together)
        time.sleep(POLICY.base_s)


def _behind_tls(ids: Sequence[str], notifications: Sequence[Notification]) -> int:
    return len({item.id for item in notifications[:NUM_BEHIND_TLS]} & set(ids))


def _send_and_kill(store_url: str, urls: dict[str, str], *, trial: Trial) -> int:
    """Send everything with so many kills; return the number of kills during work."""
    chance = random.Random(trial.seed)
    lives = [chance.uniform(0.05, trial.longest_life_s) for _ in range(trial.num_kills)]
    return start_and_kill(send_all, store_url, urls, trial.max_together, lives_s=lives)


def start_and_kill(send: Callable[..., None], *args: Any, lives_s: Sequence[float]) -> int:
    """Start `send` in processes that live for `lives_s`, the last one until it ends by itself.

    Returns the number of processes that were killed during work.
    """
    num_killed = 0
    while True:
        process = _CONTEXT.Process(target=send, args=args)
        process.start()
        is_last = num_killed >= len(lives_s)
        process.join(None if is_last else lives_s[num_killed])
        if process.exitcode is not None:
            assert process.exitcode == 0, "the sender failed"
            return num_killed
        process.kill()
        process.join()
        num_killed += 1


def _outcome(
    server: Server,
    *,
    inbox: Inbox,
    store: Store,
    notifications: Sequence[Notification],
    times: tuple[float, int],
) -> Outcome:
    wall_s, num_killed = times
    first: dict[str, int] = {}
    order = [id for _, ids, _ in server.taken for id in ids]
    for position, id in enumerate(order):
        first.setdefault(id, position)
    last: dict[str, int] = {}
    num_out_of_order = 0
    for item in notifications:
        (alert_id,) = item.alert_ids
        # A receiver of its own has an order of its own.
        key = f"{item.receiver} {alert_id}"
        position = first.get(item.id, -1)
        num_out_of_order += position < last.get(key, -1)
        last[key] = position
    num_after_success = _num_repeated_after_success(server.taken)
    stored = load_outbox(store)
    return Outcome(
        wall_s=wall_s,
        num_requests=len(inbox.requests),
        num_taken=len(server.taken),
        num_killed=num_killed,
        num_repeated=len(order) - len(first),
        num_repeated_after_success=num_after_success,
        answers=dict(sorted(server.answers.items())),
        num_lost=len({item.id for item in notifications} - first.keys()),
        num_not_sent=sum(item.state is not NotificationState.SENT for item in stored),
        num_out_of_order=num_out_of_order,
        # The sender may die between the answer and the record of it: one repeated delivery a kill
        # and receiver.
        num_repeats_beyond_kills=max(0, num_after_success - 2 * num_killed),
    )


def _num_repeated_after_success(taken: Sequence[tuple[str, list[str], bool]]) -> int:
    """Return the number of deliveries that came again, in part or whole, after a 204."""
    answered: set[str] = set()
    num_repeated = 0
    for _, ids, was_answered in taken:
        num_repeated += not answered.isdisjoint(ids)
        answered.update(ids if was_answered else ())
    return num_repeated


@contextmanager
def empty_store(kind: str) -> Iterator[str]:
    """Yield the URL of an empty store of a kind of STORES, which is removed afterwards."""
    if kind == "duckdb":
        with tempfile.TemporaryDirectory() as folder:
            yield f"duckdb:///{Path(folder) / 'store.duckdb'}"
        return
    binaries = find_binaries()
    if binaries is None:
        raise click.ClickException("no PostgreSQL server is installed; `apt install postgresql`")
    with running_server(binaries) as server:
        yield server.create_database("notifications")


def results_name(trial: str, store_kind: str) -> str:
    """Return the name of a results document; the plain name is for DuckDB, the usual store."""
    return f"{trial}.json" if store_kind == STORES[0] else f"{trial}-{store_kind}.json"


@click.command()
@click.option("--store", "store_kind", type=click.Choice(STORES), default="duckdb")
@click.option("--notifications", "num_notifications", default=20_000, show_default=True)
@click.option("--alerts", "num_alerts", default=10_000, show_default=True)
@click.option("--kills", "num_kills", default=50, show_default=True)
@click.option("--life", "longest_life_s", default=3.0, show_default=True, help="Seconds.")
@click.option("--together", "max_together", default=50, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Default: in benchmarks/results.")
def main(store_kind: str, output: Path | None, **options: Any) -> None:
    """Send notifications through every fault, and count the missing ones."""
    trial = Trial(**options)
    machine = describe_machine()
    with empty_store(store_kind) as url:
        outcome = torture(trial, url=url)
    document = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": utc_now().isoformat(),
        "machine": machine,
        "store": store_kind,
        "trial": asdict(trial),
        "outcome": asdict(outcome),
    }
    path = output or RESULTS / results_name("notifications", store_kind)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="ascii")
    print(json.dumps(document["outcome"]))


if __name__ == "__main__":
    main()
