"""Messages that people read: golden ones, hostile ones, and the limits of each receiver."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.notifications import AlertChangeKind
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.runner.analysis.judging.attribution_evidence import with_evidence
from compile_hud.runner.notifications.delivery_policy import ResponseKind
from compile_hud.runner.notifications.dispatcher import (
    MAX_ALERTS_SHOWN,
    MAX_ITEMS_SHOWN,
    Item,
    Message,
)
from compile_hud.runner.notifications.http_client import HttpReply
from compile_hud.runner.notifications.http_response import Poster
from compile_hud.runner.notifications.message_text import render_message
from compile_hud.runner.notifications.receivers.chat import (
    DISCORD_DESCRIPTION,
    DISCORD_TITLE,
    DISCORD_TOTAL,
    TEAMS_BYTES,
    Chat,
    Render,
    discord,
    slack,
    teams,
)
from tests.support.builders import START, make_alert, make_case, make_notification, make_run_ref
from tests.support.servers.slack_limits import problems

HOSTILE = (
    "<!channel> @everyone @here <@U1> [x](http://evil) **b** `c` </b><script>\n# h :tada: & \x1b[1m"
)


def document(alert: Alert) -> dict[str, Any]:
    return {**alert.to_json(), "repro": "hud run --model bert", "url": "http://hud/series?case=1"}


KERNELS = [
    {"label": "triton_gelu", "class": "other_code", "contribution_us": 1437.9, "text": "Other."},
    {"label": "gemm", "class": "same_code", "contribution_us": -3.0, "text": "Same."},
]
ACTIONS = {
    "acknowledge": "https://hud/act/1",
    "expected": "https://hud/act/2",
    "noise": "https://hud/act/3",
}
PICTURE = "https://hud/pictures/1.png"


def item(
    name: str = "a",
    *,
    title: str = "bert is slower",
    alerts: int = 1,
    note: str = "",
    **fields: Any,
) -> Item:
    alert = replace(
        make_alert(first_bad=make_run_ref(), last_good=make_run_ref(), **fields),
        cause_text="compiler side",
        note=note,
    )
    documents = tuple(document(alert) for _ in range(alerts))
    return Item(
        notification=make_notification(name, title=title), alerts=documents, num_alerts=alerts
    )


def full(name: str = "a", **fields: Any) -> Item:
    """Return an item with all that there can be: kernels, a picture and what can be done."""
    full_item = item(name, **fields)
    documents = tuple(
        {**alert, "cause": {**alert["cause"], "kernels": KERNELS}} for alert in full_item.alerts
    )
    return replace(full_item, alerts=documents, actions=ACTIONS, picture_url=PICTURE)


def message(*items: Item) -> Message:
    return Message(id="msg_1", at=START, items=items)


SINCE = f"{make_run_ref().revision} ({make_run_ref().at:%Y-%m-%d})"


def plain_lines() -> tuple[str, ...]:
    """Return the lines about one alert: its change, when it began, the cause, the command."""
    (section,) = render_message(message(item())).sections
    return tuple(section.lines)


def test_words_say_who_how_much_since_when_and_why(words: SnapshotAssertion) -> None:
    (paragraph,) = render_message(message(item())).sections
    assert paragraph.title == words
    assert paragraph.lines == words
    assert paragraph.lines[1] == f"since {SINCE}, last good {SINCE}"
    assert paragraph.url == "http://hud/series?case=1"


def test_words_say_when_a_drift_began_and_when_it_was_seen() -> None:
    drift_item = item(kind="drift")
    earlier = {"run_id": "r1", "revision": "2.12.0", "at": "2025-12-01T02:30:00Z"}
    text = "changed while it drifted: torch 2.12.0 -> 2.13.0, numpy 1 -> 2"
    alert = {**drift_item.alerts[0], "last_good": earlier, "cause": {"text": text, "kernels": []}}
    (paragraph,) = render_message(message(replace(drift_item, alerts=(alert,)))).sections
    assert paragraph.lines[1:3] == (f"since 2.12.0 (2025-12-01), first seen {SINCE}", text)


def test_words_name_the_kernels_and_what_was_decided(words: SnapshotAssertion) -> None:
    decided = full(state=AlertState.ACKNOWLEDGED, note="known since May")
    decided = replace(decided, deciders={"alert-1": "team link"})
    (paragraph,) = render_message(message(decided)).sections
    assert paragraph.title == words
    assert paragraph.lines[0] == words
    assert paragraph.lines[3] == words
    assert paragraph.actions == {name.capitalize(): url for name, url in ACTIONS.items()}
    assert (paragraph.picture_url, paragraph.alert_id) == (PICTURE, "alert-1")


def test_words_name_new_findings_with_their_costs() -> None:
    findings = [
        {"code": "attention-decomposed", "cost_s": 0.00616},
        {"code": "hidden-sync", "cost_s": None},
    ]
    (alert,) = item().alerts
    named = {**alert, "cause": {**alert["cause"], "findings": findings}}
    (paragraph,) = render_message(message(replace(item(), alerts=(named,)))).sections
    assert "new findings: attention-decomposed 6.16 ms, hidden-sync" in paragraph.lines
    assert not [line for line in plain_lines() if "findings" in line]


def test_a_fixed_alert_is_reported_once_without_an_author() -> None:
    fixed = replace(item(state=AlertState.FIXED), deciders={"alert-1": "judge"})
    (paragraph,) = render_message(message(fixed)).sections
    assert paragraph.title.startswith("Fixed (major)")
    assert paragraph.lines[0].endswith("; now fixed")
    change = replace(fixed, notification=replace(fixed.notification, kind=AlertChangeKind.FIXED))
    assert "now fixed" not in render_message(message(change)).sections[0].lines[0]


def test_a_worse_acknowledged_alert_is_notified() -> None:
    worsened = item(state=AlertState.ACKNOWLEDGED)
    worse = replace(
        worsened, notification=replace(worsened.notification, kind=AlertChangeKind.WORSENED)
    )
    assert render_message(message(worse)).heading.startswith("Worse (major)")
    noise = replace(worse, alerts=tuple({**alert, "state": "noise"} for alert in worse.alerts))
    assert render_message(message(noise)).heading.startswith("Noise (major)")
    both = replace(worse, alerts=(*worse.alerts, *noise.alerts))
    assert render_message(message(both)).heading.startswith("Worse (major)")


def with_cause(source: Item, *texts: str) -> Item:
    """Return `found` with an alert for each text of a cause."""
    (alert,) = source.alerts
    documents = tuple({**alert, "cause": {**alert["cause"], "text": text}} for text in texts)
    return replace(source, alerts=documents, num_alerts=len(documents))


def test_a_long_cause_cuts_nothing_else() -> None:
    (paragraph,) = render_message(message(with_cause(item(), "x" * 1000))).sections
    assert paragraph.lines[2].endswith("x...")
    lines = plain_lines()
    assert (*paragraph.lines[:2], paragraph.lines[3]) == (*lines[:2], lines[3])


def test_shared_facts_are_stated_once_and_others_for_each_alert() -> None:
    (paragraph,) = render_message(
        message(with_cause(item(), "compiler side", "machine side"))
    ).sections
    change, since, _cause, repro = plain_lines()
    assert paragraph.lines == (
        f"{change}; cause: compiler side",
        f"{change}; cause: machine side",
        since,
        repro,
    )


@pytest.mark.parametrize("what", ["torch", "revision"])
def test_other_changes_are_listed_unless_they_are_the_revision(
    what: str, words: SnapshotAssertion
) -> None:
    revision = make_run_ref().revision
    cause = f"compiler side; since the last good run: {what} {revision} -> {revision}"
    assert render_message(message(with_cause(item(), cause))).sections[0].lines == plain_lines()
    more = with_cause(item(), f"{cause}, driver 1 -> 2")
    assert render_message(message(more)).sections[0].lines == words


def test_other_code_of_the_model_is_the_first_cause_of_a_message() -> None:
    difference = {"models.bert": ["abc", "abc+dirty(5f3a)"], "driver": ["1", "2"]}
    alert = with_evidence(replace(make_alert(), environment_diff=difference))
    lines = render_message(message(with_cause(item(), alert.cause_text))).sections[0].lines
    (cause,) = (str(line) for line in lines if "cause: " in str(line))
    assert f"cause: {code_change_text('abc', 'abc+dirty(5f3a)')}" in cause


def test_the_search_for_the_revision_follows_the_first_bad_one() -> None:
    answer = {"text": "0123456789"}
    alert = replace(make_alert(), bisection=answer).to_json()
    bisected = replace(item(), alerts=({**item().alerts[0], "cause": alert["cause"]},))
    lines = [str(line) for line in render_message(message(bisected)).sections[0].lines]
    (line,) = (line for line in lines if "bisect" in line)
    assert line.endswith(answer["text"])
    assert lines.index(line) == 1 + next(
        number for number, text in enumerate(lines) if text.startswith("since ")
    )


EVERYTHING = {
    "model": "bert",
    "mode": "default",
    "metric": "default: latency +",
    "levels": "10.0 ms -> 12.0 ms",
    "change": "+20.0 %",
    "interval": "[+18.0 %, +22.0 %]",
    "first bad": f"since {make_run_ref().revision}",
    "last good": f"last good {make_run_ref().revision}",
    "cause": "compiler side",
    "kernels": "triton_gelu +1438 us",
    "repro": "hud run --model bert",
    "link": "http://hud/series?case=1",
    "acknowledge": "https://hud/act/1",
    "expected": "https://hud/act/2",
    "noise": "https://hud/act/3",
    "picture": PICTURE,
}


@pytest.mark.parametrize("what", EVERYTHING)
@pytest.mark.parametrize("render", [slack, discord, teams])
def test_every_receiver_is_notified_of_every_alert(render: Render, what: str) -> None:
    rendered_text = json.dumps(render(render_message(message(full())))).replace("\\", "")
    assert EVERYTHING[what] in rendered_text


def test_drift_and_noise_are_named() -> None:
    (drift,) = render_message(message(item(kind="drift"))).sections
    assert ": latency (drift) +20.0 %" in drift.lines[0]
    (noise,) = render_message(message(item(kind="variance"))).sections
    assert noise.lines[0].endswith(" (noise) +20.0 % [+18.0 %, +22.0 %]")


def test_an_alert_without_numbers_has_none() -> None:
    no_levels: dict[str, Any] = {"baseline": None, "candidate": None, "change_pct": None}
    (paragraph,) = render_message(message(item(kind="vanished", **no_levels))).sections
    assert "->" not in paragraph.lines[0]


def test_a_change_from_zero_has_its_levels_and_no_percentage() -> None:
    from_zero = {"metric": "errors", "unit": "1", "baseline": 0.0, "candidate": 3.0}
    levels = item(**from_zero, change_pct=None, interval_pct=None)
    (paragraph,) = render_message(message(levels)).sections
    assert paragraph.lines[0].endswith(": errors 0 -> 3")


def test_what_is_left_out_is_counted() -> None:
    words = render_message(message(*(item(alerts=9) for _ in range(25))))
    assert words.heading == "Compile HUD: 25 new"
    assert len(words.sections) == MAX_ITEMS_SHOWN
    assert words.overflow_line(MAX_ITEMS_SHOWN).startswith("and 15 more")
    assert f"and {9 - MAX_ALERTS_SHOWN} more alerts" in words.sections[0].lines


def texts_of(card: dict[str, Any]) -> list[str]:
    """Return the texts of a card, in order."""
    return [run["text"] for block in card["body"] for run in block.get("inlines", [])]


def num_left_out(text: str) -> int:
    """Return how many notifications `text` says are left out."""
    (num_left,) = re.findall(r"and (\d+) more\b(?! alerts)", text.replace("\\", ""))
    return int(num_left)


def test_what_a_receiver_does_not_take_is_counted_with_the_rest() -> None:
    long = make_case("\N{SNOWMAN}" * 60)
    words = render_message(message(*(item(case=long, alerts=9) for _ in range(25))))
    in_discord = discord(words)
    assert len(in_discord["embeds"]) < MAX_ITEMS_SHOWN
    assert len(in_discord["embeds"]) + num_left_out(in_discord["content"]) == 25
    card = teams(words)["attachments"][0]["content"]
    texts = texts_of(card)
    num_shown = sum(text.startswith("New (major)") for text in texts)
    assert num_shown < MAX_ITEMS_SHOWN
    assert num_shown + num_left_out(texts[-1]) == 25


def test_golden_message_of_slack(words: SnapshotAssertion) -> None:
    assert slack(render_message(message(item()))) == words


def test_golden_message_of_discord(words: SnapshotAssertion) -> None:
    rendered = discord(render_message(message(item())))
    assert rendered["allowed_mentions"] == {"parse": []}
    assert rendered["content"] == ""
    (embed,) = rendered["embeds"]
    assert embed["title"] == words
    assert embed["url"] == "http://hud/series?case=1"
    assert embed["description"].replace("\\", "") == "\n".join(plain_lines())


def test_golden_message_of_teams(words: SnapshotAssertion) -> None:
    rendered = teams(render_message(message(item())))
    (attachment,) = rendered["attachments"]
    card = attachment["content"]
    assert (rendered["type"], card["type"], card["version"]) == ("message", "AdaptiveCard", "1.4")
    assert texts_of(card) == words
    assert card["body"][-1] == {
        "type": "ActionSet",
        "actions": [{"type": "Action.OpenUrl", "title": "Open", "url": "http://hud/series?case=1"}],
    }


def test_each_notification_of_a_digest_begins_below_a_line() -> None:
    words = render_message(message(item("a", title="first"), item("b", title="second")))
    body = teams(words)["attachments"][0]["content"]["body"]
    titles = [block for block in body if block.get("separator")]
    assert [block["inlines"] for block in titles] == [
        [{"type": "TextRun", "text": f"New (major): {title}", "weight": "Bolder"}]
        for title in ("first", "second")
    ]
    kinds = [block["type"] for block in slack(words)["blocks"]]
    assert kinds == ["header", "divider", "section", "divider", "section"]


def bare() -> Message:
    """Return a message of which the heading says all, as one that is a test."""
    notification = make_notification(title="ops gets notifications", kind=AlertChangeKind.TEST)
    return message(Item(notification=notification, alerts=(), num_alerts=0))


def test_the_heading_is_not_repeated(words: SnapshotAssertion) -> None:
    rendered = render_message(bare())
    assert texts_of(teams(rendered)["attachments"][0]["content"]) == words
    assert [block["type"] for block in slack(rendered)["blocks"]] == ["header"]
    assert [embed["title"] for embed in discord(rendered)["embeds"]] == words


def test_golden_pictures_and_links() -> None:
    words = render_message(message(full()))
    picture, actions = slack(words)["blocks"][2:]
    alt_text = "Trend: New (major): bert is slower"
    assert picture == {"type": "image", "image_url": PICTURE, "alt_text": alt_text}
    assert actions["elements"][0] == {
        "type": "button",
        "action_id": "Acknowledge",
        "text": {"type": "plain_text", "text": "Acknowledge", "emoji": False},
        "url": "https://hud/act/1",
    }
    (embed,) = discord(words)["embeds"]
    assert embed["image"] == {"url": PICTURE}
    assert embed["description"].splitlines()[-1] == (
        "[Acknowledge](https://hud/act/1) | [Expected](https://hud/act/2)"
        " | [Noise](https://hud/act/3)"
    )
    picture, actions = teams(words)["attachments"][0]["content"]["body"][-2:]
    assert picture == {"type": "Image", "url": PICTURE, "altText": alt_text}
    assert [action["title"] for action in actions["actions"]] == [
        "Open",
        "Acknowledge",
        "Expected",
        "Noise",
    ]


def hostile() -> Message:
    case, state = make_case(HOSTILE), AlertState.NOISE
    return message(full(title=HOSTILE, case=case, state=state, note=HOSTILE))


def test_slack_is_given_nothing_that_calls_or_links() -> None:
    rendered = slack(render_message(hostile()))
    # Every text is plain, and there is no kind of block that has others.
    assert problems(rendered) == []
    assert "<" not in rendered["text"]
    assert "\x1b" not in json.dumps(rendered)


def test_discord_is_given_nothing_that_is_markup() -> None:
    rendered = discord(render_message(hostile()))
    for embed in rendered["embeds"]:
        for text in (embed["title"], embed["description"]):
            ours = re.sub(r"\[\w+\]\(https://hud/act/\d\)( \| )?", "", text)
            bare = re.sub(r"\\.", "", ours)
            assert not set("*_~`|<>[]@#") & set(bare)


def test_teams_is_given_runs_and_no_markdown() -> None:
    card = teams(render_message(hostile()))["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock", "ActionSet", "Image"}
    assert all("\n" not in text for text in texts_of(card))


@pytest.mark.parametrize("num_items", [1, 3, 100])
@pytest.mark.parametrize("sign", ["x", "*", "<", "&", "\N{SNOWMAN}"])
def test_endless_names_stay_within_what_receivers_take(num_items: int, sign: str) -> None:
    endless = sign * 10_000
    words = render_message(
        message(*(full(title=endless, case=make_case(endless), alerts=9) for _ in range(num_items)))
    )
    assert problems(slack(words)) == []
    embeds = discord(words)["embeds"]
    assert all(len(embed["title"]) <= DISCORD_TITLE for embed in embeds)
    assert all(len(embed["description"]) <= DISCORD_DESCRIPTION for embed in embeds)
    total = sum(len(embed["title"]) + len(embed["description"]) for embed in embeds)
    assert total <= DISCORD_TOTAL
    assert len(json.dumps(teams(words))) <= TEAMS_BYTES


def test_a_chat_posts_json_and_tells_what_came_of_it() -> None:
    seen: list[bytes] = []

    def post(_url: str, *, body: bytes, headers: dict[str, str], rules: Any) -> HttpReply:
        del headers, rules
        seen.append(body)
        return HttpReply(status=429, headers={"retry-after": "30"}, body="")

    chat = Chat(poster=Poster(url="https://example.com/", post=post), render=slack)
    answer = chat.send(message(item()))
    assert (answer.kind, answer.retry_after_s) == (ResponseKind.FAILED, 30.0)
    assert json.loads(seen[0]) == slack(render_message(message(item())))


class Server:
    """Answers each request with the next status, and keeps what came."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[bytes] = []
        self.kinds: list[str] = []

    def post(self, _url: str, *, body: bytes, headers: dict[str, str], rules: Any) -> HttpReply:
        del rules
        self.bodies.append(body)
        self.kinds.append(headers["Content-Type"])
        return HttpReply(status=self.statuses.pop(0), headers={}, body="")


def test_a_picture_that_is_refused_costs_the_picture_alone() -> None:
    server = Server(400, 200)
    chat = Chat(poster=Poster(url="https://example.com/", post=server.post), render=slack)
    assert chat.send(message(full())).kind is ResponseKind.SENT
    first, second = (json.loads(body) for body in server.bodies)
    assert [block["type"] for block in first["blocks"]] == [
        "header",
        "section",
        "image",
        "actions",
    ]
    assert [block["type"] for block in second["blocks"]] == ["header", "section", "actions"]


def test_what_is_refused_without_pictures_stays_refused() -> None:
    server = Server(400)
    chat = Chat(poster=Poster(url="https://example.com/", post=server.post), render=slack)
    assert chat.send(message(item())).kind is ResponseKind.REFUSED
    assert len(server.bodies) == 1
