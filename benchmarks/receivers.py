"""Test each kind of receiver over disrupted connections, with a sender that is killed.

Each kind has a fake service on this machine, behind a line that disrupts connections. It resets
them, falls silent, answers errors instead of the service, cuts answers after the service took the
message, and drips. One process sends to all services and is killed (SIGKILL) at random moments. In
the end nothing may be missing. Nothing about an alert may precede earlier news of it. A message may
be repeated only if the sender could not know that it had been taken.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from benchmarks.bad_lines import Disruption, Line, breaking
from benchmarks.notifications import (
    POLICY,
    SCHEMA_VERSION,
    STORES,
    empty_store,
    make_notifications,
    results_name,
    start_and_kill,
)
from benchmarks.notifications import Trial as Shape
from benchmarks.receiving import receiving
from benchmarks.startup import RESULTS, describe_machine
from compile_hud.db.alerts.outbox import count_outbox, load_outbox
from compile_hud.db.records.notifications import Notification, NotificationState
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store, utc_now
from compile_hud.runner.notifications.dispatcher import Dispatcher, Item, Receiver
from compile_hud.runner.notifications.http_client import HttpRules
from compile_hud.runner.notifications.http_response import Poster
from compile_hud.runner.notifications.receivers.apprise import Apprise
from compile_hud.runner.notifications.receivers.chat import Chat, slack, teams
from compile_hud.runner.notifications.receivers.discord import Discord
from compile_hud.runner.notifications.receivers.github import GitHub
from compile_hud.runner.notifications.receivers.github_api import GitHubApi
from compile_hud.runner.notifications.receivers.mail import Mail
from compile_hud.runner.notifications.receivers.settings import Publication
from compile_hud.runner.notifications.receivers.slack import SlackBot
from compile_hud.runner.notifications.receivers.smtp import MailServer
from compile_hud.runner.notifications.receivers.webhook import Webhook
from tests.support.servers.chat_servers import CHANNEL, TOKEN, chatting
from tests.support.servers.github_server import github_server
from tests.support.servers.mail_server import mail_server

# Messages for people show ten notifications of a digest and count the others.
MAX_TOGETHER = 10
RULES = HttpRules(allow_private=True, connect_s=2.0, total_s=2.0)
_ERRORS = tuple(
    f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode("ascii")
    for status in (
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable",
        "429 Too Many Requests\r\nRetry-After: 0",
        "302 Found\r\nLocation: http://127.0.0.1:1/",
    )
)
_HTTP = Disruption(share=0.35, errors=_ERRORS, cut_within=0)
# One delivery is dozens of requests, of which each may fail.
_GITHUB = replace(_HTTP, share=0.04)
# Up to the end of a connection, which confirms that the mail was taken.
_MAIL = Disruption(
    share=0.35, errors=(b"421 busy\r\n", b"554 not here\r\n"), cut_within=62, greets=True
)
# A process for each message, or several requests for each notification.
_SLOW = ("apprise", "github")
_NUMBER = re.compile(r"notification (\d+)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The difficulty of a trial: so many notifications for each kind, a tenth of them for slow
    ones.
    """

    num_each: int
    num_kills: int
    longest_life_s: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedItem:
    """A message that a service took: its idempotency key, "" without one, and its numbers."""

    key: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of one kind of receiver; the last five should be 0.

    After `num_uncertain` connections the sender could not know whether its message was taken.
    Repeats beyond are those without such a reason, more than a kill for each message explains.
    """

    num_notifications: int
    num_connections: int
    num_uncertain: int
    num_messages: int
    num_told_again: int
    answers: dict[str, int]
    num_lost: int
    num_not_sent: int
    num_out_of_order: int
    num_other_keys: int
    num_repeats_beyond: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Player:
    """A service on this machine: its port, and the messages that it took in order."""

    port: int
    received: Callable[[], list[ReceivedItem]]


def receiver(kind: str, port: int) -> Receiver:
    """Return a receiver of that kind whose service is at `port` of this machine."""
    url = f"http://127.0.0.1:{port}"
    poster = Poster(url=f"{url}/hook", rules=RULES)
    mail = MailServer(url=f"smtp+plain://127.0.0.1:{port}", rules=RULES)
    api = GitHubApi(url=f"{url}/api/v3", repository="me/models", token="token", rules=RULES)
    receivers: dict[str, Receiver] = {
        "webhook": Webhook(poster=poster),
        "slack": Chat(poster=poster, render=slack),
        "teams": Chat(poster=poster, render=teams),
        "slack-bot": SlackBot(url=f"{url}/api", channel=CHANNEL, token=TOKEN, rules=RULES),
        "discord": Discord(url=f"{url}/hook", rules=RULES),
        "email": Mail(server=mail, sender="hud@example.org", to=("team@example.org",)),
        "github": GitHub(api=api, published=(Publication.ISSUE,)),
        "apprise": Apprise(url=f"json://127.0.0.1:{port}/hook", timeout_s=5.0),
    }
    return receivers[kind]


@contextmanager
def _posted(key: str = "") -> Iterator[_Player]:
    with receiving() as inbox:
        yield _Player(
            port=_port(inbox.url),
            received=lambda: [
                ReceivedItem(
                    key=item.headers.get(key, ""), numbers=_numbers(item.body.decode("utf-8"))
                )
                for item in inbox.requests
            ],
        )


@contextmanager
def _chat(kind: str) -> Iterator[_Player]:
    with chatting(kind) as chat:
        yield _Player(
            port=_port(chat.url),
            received=lambda: [
                ReceivedItem(key="", numbers=_numbers(json.dumps(item.content())))
                for item in chat.requests
                if item.path.endswith(("chat.postMessage", "hook"))
            ],
        )


@contextmanager
def _mail(chance: random.Random) -> Iterator[_Player]:
    with mail_server(_Moods(chance)) as box:
        yield _Player(port=box.port, received=lambda: [_letter(item) for _, item in box.letters])


class _Moods(dict[str, str]):
    """Answers of a mail server that refuses one of twenty commands for now."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def get(self, verb: str, default: Any = None) -> Any:
        """Return the answer to `verb`, `default` without a fault."""
        refusals = {"MAIL": "451 later", "RCPT": "450 greylisted", "END": "452 full"}
        is_refused = verb in refusals and self._chance.random() < 0.05
        return refusals[verb] if is_refused else default


@contextmanager
def _github() -> Iterator[_Player]:
    with github_server() as repository:
        yield _Player(
            port=_port(repository.url),
            received=lambda: [
                ReceivedItem(key="", numbers=_numbers(item["body"]))
                for issue in repository.issues
                for item in (issue, *repository.comments.get(issue["number"], ()))
            ],
        )


def _letter(content: bytes) -> ReceivedItem:
    email = message_from_bytes(content, policy=policy.default)
    plain = email.get_body(("plain",))
    assert plain is not None
    return ReceivedItem(key=str(email["Message-ID"]), numbers=_numbers(plain.get_content()))


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of the notifications in a message, each once, in order."""
    return tuple(dict.fromkeys(map(int, _NUMBER.findall(text))))


def _port(url: str) -> int:
    return urlsplit(url).port or 0


def torture(trial: Trial, *, url: str, kinds: Sequence[str] = ()) -> dict[str, Outcome]:
    """Carry out `trial` with the empty store at `url`; return the outcome of each kind."""
    chance = random.Random(trial.seed)
    players = {
        "webhook": _posted("webhook-id"),
        "slack": _posted(),
        "teams": _posted(),
        "slack-bot": _chat("slack"),
        "discord": _chat("discord"),
        "email": _mail(chance),
        "github": _github(),
        "apprise": _posted(),
    }
    troubles = {"email": _MAIL, "github": _GITHUB}
    selected = list(kinds or players)
    notifications = {kind: _notifications(kind, trial) for kind in selected}
    with Store(url).write() as connection:
        put_notifications(connection, [item for items in notifications.values() for item in items])
    lives = [chance.uniform(0.05, trial.longest_life_s) for _ in range(trial.num_kills)]
    with ExitStack() as stack:
        services = {kind: stack.enter_context(players[kind]) for kind in selected}
        lines: dict[str, Line] = {}
        ports: dict[str, int] = {}
        for kind, service in services.items():
            line_fault = troubles.get(kind, _HTTP)
            made = breaking(service.port, disruption=line_fault, seed=f"{trial.seed} {kind}")
            ports[kind], lines[kind] = stack.enter_context(made)
        num_killed = start_and_kill(send_all, url, ports, lives_s=lives)
        states = Counter(
            item.receiver
            for item in load_outbox(Store(url))
            if item.state is not NotificationState.SENT
        )
        return {
            kind: _outcome(
                services[kind].received(),
                line=lines[kind],
                notifications=notifications[kind],
                num_killed=num_killed,
                num_not_sent=states[kind],
            )
            for kind in selected
        }


def _notifications(kind: str, trial: Trial) -> list[Notification]:
    num = trial.num_each // 10 if kind in _SLOW else trial.num_each
    shape = Shape(
        num_notifications=num,
        num_alerts=max(1, num // 4),
        num_kills=0,
        seed=trial.seed,
        longest_life_s=0.0,
        max_together=MAX_TOGETHER,
    )
    return [
        # The notifications of one alert share an event, of which GitHub makes one issue.
        replace(item, id=f"{item.id}-{kind}", receiver=kind, subject=item.alert_ids[0])
        for item in make_notifications(shape)
    ]


def send_all(store_url: str, ports: dict[str, int]) -> None:
    """Send until nothing waits; this runs in a process that is killed."""
    dispatcher = Dispatcher(
        store=Store(store_url),
        receivers={kind: receiver(kind, port) for kind, port in ports.items()},
        build_messages=lambda notifications: [
            Item(notification=item, alerts=(), num_alerts=1) for item in notifications
        ],
        now=utc_now,
        jitter=lambda limit_s: random.uniform(0.0, limit_s),
        policy=replace(POLICY, max_together=MAX_TOGETHER),
    )
    over = (NotificationState.SENT, NotificationState.DEAD, NotificationState.DROPPED)
    while any(state not in over for _, state in count_outbox(dispatcher.store)):
        dispatcher.dispatch()
        time.sleep(POLICY.base_s)


def _outcome(
    received: Sequence[ReceivedItem],
    *,
    line: Line,
    notifications: Sequence[Notification],
    num_killed: int,
    num_not_sent: int,
) -> Outcome:
    places: dict[int, list[int]] = defaultdict(list)
    for position, number in enumerate(number for item in received for number in item.numbers):
        places[number].append(position)
    uncertain = Counter(
        number
        for request in line.uncertain
        for number in _numbers(request.decode("utf-8", "replace"))
    )
    num_unexplained = sum(
        max(0, len(positions) - 1 - uncertain[number]) for number, positions in places.items()
    )
    keys: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for item in received:
        keys[item.numbers].add(item.key)
    return Outcome(
        num_notifications=len(notifications),
        num_connections=line.answers.total(),
        num_uncertain=len(line.uncertain),
        num_messages=len(received),
        num_told_again=sum(len(positions) - 1 for positions in places.values()),
        answers=dict(sorted(line.answers.items())),
        num_lost=len(notifications) - len(places),
        num_not_sent=num_not_sent,
        num_out_of_order=_num_out_of_order(
            {number: positions[0] for number, positions in places.items()}, notifications
        ),
        num_other_keys=sum(len(positions) - 1 for positions in keys.values()),
        # The sender may die between the answer and the record of it.
        num_repeats_beyond=max(0, num_unexplained - MAX_TOGETHER * num_killed),
    )


def _num_out_of_order(first: dict[int, int], notifications: Sequence[Notification]) -> int:
    last: dict[str, int] = {}
    num_out_of_order = 0
    for number, item in enumerate(notifications):
        position = first.get(number, -1)
        num_out_of_order += position < last.get(item.subject, -1)
        last[item.subject] = position
    return num_out_of_order


@click.command()
@click.option("--store", "store_kind", type=click.Choice(STORES), default="duckdb")
@click.option("--each", "num_each", default=1000, show_default=True)
@click.option("--kills", "num_kills", default=50, show_default=True)
@click.option("--life", "longest_life_s", default=4.0, show_default=True, help="Seconds.")
@click.option("--seed", default=1, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Default: in benchmarks/results.")
def main(store_kind: str, output: Path | None, **options: Any) -> None:
    """Send to every kind of receiver over disrupted lines, and count the missing messages."""
    trial = Trial(**options)
    machine = describe_machine()
    started = time.monotonic()
    with empty_store(store_kind) as url:
        outcomes = torture(trial, url=url)
    document = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": utc_now().isoformat(),
        "machine": machine,
        "store": store_kind,
        "trial": asdict(trial),
        "wall_s": time.monotonic() - started,
        "outcomes": {kind: asdict(outcome) for kind, outcome in outcomes.items()},
    }
    path = output or RESULTS / results_name("receivers", store_kind)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="ascii")
    print(json.dumps(document["outcomes"]))


if __name__ == "__main__":
    main()
