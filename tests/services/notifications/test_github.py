"""GitHub receives an event once, whatever answers are dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.notifications import AlertChangeKind
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.notifications.delivery_policy import Response
from compile_hud.runner.notifications.dispatcher import Item, Updatable
from compile_hud.runner.notifications.http_client import HttpRules
from compile_hud.runner.notifications.receivers import github_api
from compile_hud.runner.notifications.receivers.factory import UnreadyReceiver, make_receiver
from compile_hud.runner.notifications.receivers.github import LABEL, GitHub, changed_commit
from compile_hud.runner.notifications.receivers.github_api import GitHubApi
from compile_hud.runner.notifications.receivers.settings import Publication
from compile_hud.runner.notifications.weekly_digest import make_weekly, weekly_notification
from tests.support.builders import make_alert, make_case
from tests.support.servers.github_server import Repository, github_server
from tests.unit.runner.notifications.receivers.test_chat import (
    HOSTILE,
    document,
    item,
    message,
)

RULES = HttpRules(allow_private=True, connect_s=2.0, total_s=2.0)
SHA = "0123456789abcdef0123456789abcdef01234567"
NOW = datetime.now(timezone.utc)
EVERYTHING = tuple(Publication)


def hub(repository: Repository, *, published: Sequence[Publication] = ()) -> GitHub:
    api = GitHubApi(
        url=repository.url,
        repository="me/models",
        token="hunter2",
        now=lambda: NOW,
        rules=RULES,
    )
    return GitHub(api=api, published=published or [Publication.ISSUE])


def send(repository: Repository, *items: Item, published: Sequence[Publication] = ()) -> Response:
    return hub(repository, published=published).send(message(*items))


def update(repository: Repository, *items: Item) -> None:
    receiver = hub(repository, published=EVERYTHING)
    assert isinstance(receiver, Updatable)
    response = receiver.send(message())
    assert str(receiver.update(message(*items), reference=response.reference).kind) == "sent"


def change_item(name: str, kind: str = "opened", **fields: Any) -> Item:
    """Return news of that kind, all about one event."""
    change = item(name, **fields)
    about = replace(
        change.notification, subject="event-1", kind=AlertChangeKind(kind), created_at=NOW
    )
    return replace(change, notification=about)


def of_commit(change: Item, before: str | None, after: str) -> Item:
    alert = replace(make_alert(), environment_diff={"models.bert": [before, after]})
    return replace(change, alerts=(document(alert),))


def test_an_event_is_an_issue(words: SnapshotAssertion) -> None:
    with github_server() as repository:
        assert str(send(repository, change_item("a")).kind) == "sent"
    (issue,) = repository.issues
    assert issue["title"] == words
    assert [label["name"] for label in issue["labels"]] == [LABEL]
    shown = re.sub(r"<!--.*?-->\n", "", issue["body"])
    assert shown.endswith("\n```\n\n[Open](<http://hud/series?case=1>)")
    assert shown == words
    assert repository.headers[0]["authorization"] == "Bearer hunter2"
    assert repository.headers[0]["x-github-api-version"] == "2022-11-28"


def test_what_follows_changes_the_issue_and_opens_no_other(words: SnapshotAssertion) -> None:
    with github_server() as repository:
        for name, kind in (("a", "opened"), ("b", "worsened"), ("c", "fixed"), ("d", "reopened")):
            send(repository, change_item(name, kind))
            (issue,) = repository.issues
            assert issue["state"] == ("closed" if kind == "fixed" else "open")
    assert issue["title"] == words
    comments = repository.comments[1]
    assert [re.findall(r"text\n(.*)", comment["body"]) for comment in comments] == words


def test_a_message_that_is_repeated_adds_nothing() -> None:
    with github_server(SHA) as repository:
        items = [of_commit(change_item(name, kind), "aaaaaaaaaa", SHA[:10])
                for name, kind in (("a", "opened"), ("b", "worsened"))]  # fmt: skip
        for _ in range(3):
            assert str(send(repository, *items, published=EVERYTHING).kind) == "sent"
    assert len(repository.issues) == 1
    assert len(repository.comments[1]) == 1
    assert len(repository.checks) == 1
    assert len({(status["sha"], status["context"]) for status in repository.statuses}) == 1


@pytest.mark.parametrize(
    "failing_request", ["POST issues", "POST issues/1/comments", "POST check-runs"]
)
def test_a_delivery_without_an_answer_is_found_again(failing_request: str) -> None:
    with github_server(SHA) as repository:
        items = [of_commit(change_item("a"), None, SHA[:10]), change_item("b", "worsened")]
        repository.loses = lambda method, path: f"{method} {path}" == failing_request
        answer = send(repository, *items, published=EVERYTHING)
        assert (str(answer.kind), answer.is_certain) == ("failed", False)
        repository.loses = lambda _method, _path: False
        assert str(send(repository, *items, published=EVERYTHING).kind) == "sent"
    assert (len(repository.issues), len(repository.comments[1])) == (1, 1)
    assert len(repository.checks) == 1


def decided(change: Item, state: str) -> Item:
    alerts = tuple({**alert, "state": state} for alert in change.alerts)
    return replace(change, alerts=alerts)


def test_a_decision_updates_the_issue_of_its_alert(words: SnapshotAssertion) -> None:
    first = of_commit(change_item("a"), None, SHA[:10])
    second = of_commit(change_item("b", "worsened"), None, SHA[:10])
    with github_server(SHA) as repository:
        send(repository, first, second, published=EVERYTHING)
        for state in ("acknowledged", "noise"):
            for change in (first, second):
                update(repository, decided(change, state))
            (issue,), (comment,) = repository.issues, repository.comments[1]
            assert f"; now {state}" in issue["body"]
            assert f"; now {state}" in comment["body"]
            assert issue["state"] == ("open" if state == "acknowledged" else "closed")
            assert issue["title"] == words
            over = "failure" if state == "acknowledged" else "success"
            assert repository.statuses[-1]["state"] == repository.checks[0]["conclusion"] == over
        repository.requests.clear()
        update(repository, decided(first, "noise"))
    assert not any(method == "PATCH" and "issues" in path for method, path in repository.requests)


def test_an_issue_that_is_gone_is_not_opened_again_by_an_update() -> None:
    with github_server() as repository:
        update(repository, decided(change_item("a"), "noise"))
    assert repository.issues == []


def test_a_label_that_github_dropped_is_reported(words: SnapshotAssertion) -> None:
    with github_server() as repository:
        repository.may_push = False
        answer = send(repository, change_item("a"))
    assert str(answer.kind) == "sent"
    assert answer.text == words


def test_digests_of_weeks_are_comments_on_one_issue() -> None:
    with github_server() as repository:
        for week in range(3):
            due = NOW - timedelta(days=7 * (2 - week))
            digest = make_weekly([], fixed_ids=(), since=due, until=due, url="http://hud/alerts")
            about = weekly_notification("hub", due=due, at=due)
            digest_change = Item(notification=about, alerts=(), num_alerts=0, weekly=digest)
            assert str(send(repository, digest_change, published=EVERYTHING).kind) == "sent"
    (issue,) = repository.issues
    assert issue["state"] == "open"
    assert len(repository.comments[1]) == 2
    assert "open: nothing" in issue["body"]


def test_events_have_issues_of_their_own() -> None:
    with github_server() as repository:
        send(repository, item("a"), item("b"))
        assert len(repository.issues) == 2


def test_an_issue_is_found_on_a_later_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github_api, "PAGE", 2)
    with github_server() as repository:
        send(repository, change_item("a"), *(item(str(number)) for number in range(4)))
        send(repository, change_item("b", "fixed"))
    assert [issue["state"] for issue in repository.issues] == ["closed"] + ["open"] * 4


def test_the_end_of_an_unnotified_alert_opens_nothing() -> None:
    with github_server() as repository:
        assert str(send(repository, change_item("a", "fixed")).kind) == "sent"
    assert repository.issues == []


def test_a_test_leaves_one_closed_issue() -> None:
    with github_server() as repository:
        for name in ("a", "b"):
            test = change_item(name, "test")
            send(repository, replace(test, alerts=(), num_alerts=0))
    assert [issue["state"] for issue in repository.issues] == ["closed"]


def test_the_commit_that_a_change_began_with_shows_it_until_it_is_over(
    words: SnapshotAssertion,
) -> None:
    with github_server(SHA) as repository:
        for name, kind in (("a", "opened"), ("b", "fixed")):
            change = of_commit(change_item(name, kind), "aaaaaaaaaa", SHA[:10])
            send(repository, change, published=[Publication.STATUS, Publication.CHECK])
    assert [(status["sha"], status["state"]) for status in repository.statuses] == [
        (SHA, "failure"),
        (SHA, "success"),
    ]
    status = repository.statuses[0]
    assert re.fullmatch(r"compile-hud/[0-9a-f]{8}/bert", status["context"])
    assert status["description"] == words
    assert status["target_url"] == "http://hud/series?case=1"
    (check,) = repository.checks
    assert (check["conclusion"], check["status"]) == ("success", "completed")
    assert check["external_id"] == "event-1"
    assert repository.issues == []


def test_only_a_commit_of_this_repository_shows_anything() -> None:
    with github_server(SHA) as repository:
        change = of_commit(change_item("a"), "aaaaaaaaaa", "ffffffffff")
        assert str(send(repository, change, published=EVERYTHING).kind) == "sent"
    assert (repository.statuses, repository.checks, len(repository.issues)) == ([], [], 1)


@pytest.mark.parametrize(
    ("diff", "commit"),
    [
        ({"models.bert": ["aaaaaaaaaa", "bbbbbbbbbb"]}, "bbbbbbbbbb"),
        ({"models.bert": [None, "bbbbbbbbbb"]}, "bbbbbbbbbb"),
        ({"models.bert": ["aaaaaaaaaa", "bbbbbbbbbb+changes"]}, ""),
        ({"models.bert": ["aaaaaaaaaa", None]}, ""),
        ({"models.other": ["aaaaaaaaaa", "bbbbbbbbbb"]}, ""),
        ({"torch": ["2.13.0", "2.14.0"]}, ""),
        (None, ""),
    ],
)
def test_a_commit_is_shown_only_where_the_model_changed(
    diff: dict[str, list[Any]] | None, commit: str
) -> None:
    assert changed_commit(replace(make_alert(), environment_diff=diff).to_json()) == commit


def test_no_commit_is_shown_for_a_drift() -> None:
    diff = {"models.bert": ["aaaaaaaaaa", "bbbbbbbbbb"]}
    drift = replace(make_alert(kind="drift"), environment_diff=diff)
    assert changed_commit(drift.to_json()) == ""


@pytest.mark.parametrize("name", [HOSTILE, "```\n@everyone", "`" * 400, "-->", "x" * 10_000])
def test_names_are_neither_markup_nor_mentions(name: str) -> None:
    with github_server() as repository:
        change = replace(item(title=name, case=make_case(name)), actions={"noise": "http://hud/n"})
        assert str(send(repository, change).kind) == "sent"
    (issue,) = repository.issues
    fence = re.search(r"^(`{3,})text$", issue["body"], re.MULTILINE)
    assert fence is not None
    before, inside, after = re.split(rf"^{fence[1]}(?:text)?$", issue["body"], flags=re.MULTILINE)
    assert fence[1] not in inside
    assert set(before.split("\n")) == {*re.findall(r"<!-- [\w= %-]+ -->", before), ""}
    assert after == "\n\n[Open](<http://hud/series?case=1>)"


@pytest.mark.parametrize(
    ("status", "headers", "body", "retry_after_s"),
    [
        (403, {"Retry-After": "30"}, "", 30.0),
        (429, {}, "", 60.0),
        (403, {}, "You have exceeded a secondary rate limit", 60.0),
        (
            403,
            {
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": str(int(NOW.timestamp()) + 1800),
            },
            "",
            1800.0,
        ),
    ],
)
def test_a_limit_is_waited_for_as_long_as_it_reports(
    status: int, headers: dict[str, str], body: str, retry_after_s: float
) -> None:
    with github_server() as repository:
        repository.refuses = lambda _method, _path: (status, headers, {"message": body})
        answer = send(repository, change_item("a"))
    assert (str(answer.kind), answer.is_down) == ("failed", True)
    assert answer.retry_after_s == pytest.approx(retry_after_s, abs=1.0)


@pytest.mark.parametrize(
    ("status", "kind", "is_down"),
    [(401, "failed", True), (403, "failed", True), (404, "failed", True), (410, "refused", False),
     (422, "refused", False), (500, "failed", False), (503, "failed", True)],
)  # fmt: skip
def test_mendable_failures_wait_and_others_are_given_up(
    status: int, kind: str, is_down: bool
) -> None:
    with github_server() as repository:
        repository.refuses = lambda _method, _path: (status, {}, {"message": "no"})
        answer = send(repository, change_item("a"))
    assert (str(answer.kind), answer.is_down) == (kind, is_down)
    assert answer.text.startswith(str(status))


def test_an_address_that_is_no_api_is_reported(words: SnapshotAssertion) -> None:
    with github_server() as repository:
        repository.refuses = lambda _method, _path: (200, {}, None)
        repository.url = repository.url.replace("/api/v3", "")
        assert send(repository, change_item("a")).text == words


def test_hud_toml_makes_one_and_its_token_is_never_shown(words: SnapshotAssertion) -> None:
    section = """
        [receivers.hub]
        kind = "github"
        repository = "me/models"
        token = "env:TOKEN"
        publish = ["issue", "check"]
    """
    settings = parse_config(section, path=Path("/p/hud.toml"), env={}).receivers["hub"]
    receiver = make_receiver(settings, env={"TOKEN": "hunter2"})
    assert isinstance(receiver, GitHub)
    assert receiver.api.url == "https://api.github.com"
    assert (receiver.api.token, receiver.published) == (
        "hunter2",
        (Publication.ISSUE, Publication.CHECK),
    )
    assert "hunter2" not in repr(receiver)
    missing = make_receiver(settings, env={})
    assert isinstance(missing, UnreadyReceiver)
    assert missing.reason == words


def test_a_look_back_ends_somewhere() -> None:
    with github_server() as repository:
        send(repository, change_item("a"))
        repository.issues[0]["updated_at"] = (NOW - timedelta(days=91)).isoformat()
        send(repository, change_item("b", "worsened"))
    assert len(repository.issues) == 2
