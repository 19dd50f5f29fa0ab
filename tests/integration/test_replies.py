"""Replies to messages decide about alerts: in threads of Slack, below issues of GitHub."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from db.notification_rows import put_notifications
from db.queries import load_alerts, load_changes
from db.records import Alert
from db.store import Store
from db.triage import Revision
from runner.alerts import outlet
from runner.alerts.http import HttpRules
from runner.alerts.outlet import send_waiting
from runner.analysis.triage import Decision
from runner.config import Config, parse_config
from runner.events import Event, Said
from runner.wiring import Seams, Workplace
from tests.builders import make_alert, make_case, make_notification
from tests.chat_servers import TOKEN, Chat, chatting
from tests.github_server import Repository, github_server

# That of the first message of the server that plays Slack.
NOW = datetime.fromtimestamp(1_700_000_000, timezone.utc)
RULES = HttpRules(allow_private=True)
ALERT = make_alert("a")
OTHER = make_alert("b", case=make_case("b"))
MINUTE = timedelta(minutes=1)
ROOT = "1700000000.000000"


@dataclass
class Office:
    """A store with a receiver, and a clock."""

    workplace: Workplace
    at: datetime = NOW
    said: list[str] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.workplace.store()

    def tell(self, alert: Alert, *, id: str) -> None:
        """Tell of an alert."""
        self.queue(alert, id=id)
        self.send()

    def queue(self, alert: Alert, *, id: str) -> None:
        """Store an alert and what is to be told of it, as the judge does."""
        self.revise(alert, by="judge")
        told = make_notification(id, receiver="team", alert_ids=[alert.id], created_at=self.at)
        with self.store.write() as session:
            put_notifications(session, [told])

    def revise(self, alert: Alert, *, by: str = "somebody") -> None:
        decided = Decision(alerts=(alert,), revisions=(Revision(alert=alert),))
        self.store.revise_alerts(lambda _: decided, by=by)

    def send(self, *, after: timedelta = 2 * MINUTE) -> None:
        """Do what is to be done after a while."""
        self.at += after
        said: list[Event] = []
        send_waiting(self.workplace, notify=said.append)
        self.said = [event.text for event in said if isinstance(event, Said) and event.is_warning]

    def alert(self, id: str = "a") -> Alert:
        return next(alert for alert in load_alerts(self.store) if alert.id == id)

    def decided(self) -> list[tuple[str, str, str]]:
        """Return who set which state and why, but for the judge."""
        changes = load_changes(self.store)
        return [(item.by, item.new, item.why) for item in changes if item.by != "judge"]


def configured(folder: Path, settings: str) -> Config:
    return parse_config(
        f"[receivers.team]\nallow_private = true\n{settings}\n",
        path=folder / "hud.toml",
        env={"HUD_DATABASE_URL": f"duckdb:///{folder / 'store.duckdb'}"},
    )


@pytest.fixture
def make_office(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Office]:
    def make(settings: str) -> Office:
        shutil.copy(empty, tmp_path / "store.duckdb")
        config = configured(tmp_path, settings)
        found = Office(workplace=Workplace(config=config, seams=Seams()))
        seams = Seams(now=lambda: found.at, env={"TOKEN": TOKEN})
        found.workplace = Workplace(config=config, seams=seams)
        return found

    monkeypatch.setattr(outlet, "make_draw", lambda _: lambda _ids: {})
    return make


def slack_settings(chat: Chat, *, repliers: str = "true") -> str:
    return (
        f'kind = "slack"\nurl = "{chat.url}"\nchannel = "#perf"\ntoken = "env:TOKEN"\n'
        f"replies = {repliers}\n"
    )


def github_settings(repository: Repository, *, repliers: str = "true") -> str:
    return (
        f'kind = "github"\nurl = "{repository.url}"\nrepository = "me/models"\n'
        f'token = "env:TOKEN"\npublish = "issue"\nreplies = {repliers}\n'
    )


def ts(at: datetime) -> str:
    return f"{at.timestamp():.6f}"


def iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def asked(chat: Chat) -> list[str]:
    """Return what Slack was asked since the last time, without the writes of messages."""
    names = [name.removeprefix("POST ") for name in chat.names()]
    chat.requests.clear()
    return names


def test_a_thread_of_slack_decides(make_office: Callable[[str], Office]) -> None:
    with chatting("slack") as chat:
        chat.members["U1"] = "Ann\nLee"
        office = make_office(slack_settings(chat))
        office.tell(ALERT, id="msg_1")
        chat.reply(ROOT, "thanks, @here", ts=ts(office.at + MINUTE))
        chat.reply(ROOT, "ack looking &lt;!channel&gt;", ts=ts(office.at + MINUTE))
        chat.reply(ROOT, "owner ann", ts=ts(office.at + 1.5 * MINUTE))
        asked(chat)
        office.send()
        # What was decided is in the message, and what it does not show in the thread.
        assert asked(chat) == [
            "conversations.replies",
            "users.info",
            "users.info",
            "chat.postMessage",
            "chat.update",
        ]
        assert "now acknowledged by Ann Lee U1 (team reply): looking" in str(chat.messages[ROOT])
        assert chat.threads[ROOT][-1]["text"] == '"owner ann": 1 alert of ann now.'
        assert office.decided() == [
            ("Ann Lee U1 (team reply)", "acknowledged", "looking <!channel>"),
            ("Ann Lee U1 (team reply)", "ann", ""),
        ]
        # Its own answer is no command, and what counted does not count again.
        office.send(after=20 * MINUTE)
        assert asked(chat) == ["conversations.replies"]
        assert len(office.decided()) == 2
        assert office.said == []


def test_an_issue_of_github_decides(make_office: Callable[[str], Office]) -> None:
    with github_server() as repository:
        repository.permissions = {"ann": "write", "bob": "read"}
        office = make_office(github_settings(repository))
        office.tell(ALERT, id="msg_1")
        office.tell(OTHER, id="msg_2")
        at = iso(office.at + MINUTE)
        for login, association in (("bob", "MEMBER"), ("eve", "NONE"), ("ann", "MEMBER")):
            text = f"noise says {login}\n\nand more"
            repository.write(1, text, login=login, association_of=association, at=at)
        repository.write(2, "mute soon", login="ann", association_of="OWNER", at=at)
        repository.requests.clear()
        for _ in range(2):
            office.send()
        assert office.decided() == [("ann (team reply)", "noise", "says ann")]
        assert (office.alert("a").state, office.alert("b").state) == ("noise", "open")
        # The issue says so, though another one was opened after it.
        assert [issue["state"] for issue in repository.issues] == ["closed", "open"]
        assert "now noise by ann (team reply): says ann" in repository.issues[0]["body"]
        (_, answer) = repository.comments[2]
        assert answer["body"].startswith("<!-- compile-hud reply=4 -->\n```text\n")
        assert "takes: ack [REASON]" in answer["body"]
        assert [path for method, path in repository.requests if method == "POST"] == [
            "issues/2/comments"
        ]
        assert office.said == []
