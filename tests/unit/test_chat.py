"""Messages that people read: golden ones, hostile ones, and the limits of each receiver."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from db.records import Alert
from runner.alerts.chat import (
    DISCORD_DESCRIPTION,
    DISCORD_TITLE,
    DISCORD_TOTAL,
    SLACK_BLOCKS,
    SLACK_HEADER,
    SLACK_SECTION,
    TEAMS_BYTES,
    Chat,
    discord,
    slack,
    teams,
)
from runner.alerts.deliveries import AnswerKind
from runner.alerts.dispatch import Item, Message
from runner.alerts.http import Reply
from runner.alerts.posting import Poster
from runner.alerts.words import MAX_ALERTS_SHOWN, MAX_ITEMS_SHOWN, in_words
from tests.builders import START, make_alert, make_case, make_notification, make_sighting

HOSTILE = (
    "<!channel> @everyone @here <@U1> [x](http://evil) **b** `c` </b><script>\n# h :tada: & \x1b[1m"
)


def document(alert: Alert) -> dict[str, Any]:
    return {**alert.to_json(), "repro": "hud run --model bert", "url": "http://hud/series?case=1"}


def item(name: str = "a", *, title: str = "bert is slower", alerts: int = 1, **given: Any) -> Item:
    alert = replace(
        make_alert(first_bad=make_sighting(), last_good=make_sighting(), **given),
        cause_text="compiler side",
    )
    told = tuple(document(alert) for _ in range(alerts))
    return Item(notification=make_notification(name, title=title), alerts=told, num_alerts=alerts)


def message(*items: Item) -> Message:
    return Message(id="msg_1", at=START, items=items)


LINES = (
    "bert inference fp32 default, latency_s; 10.0 ms -> 12.0 ms, +20.0 % [+18.0 %, +22.0 %];"
    f" since {make_sighting().revision} (last good {make_sighting().revision}); compiler side",
    "repro: hud run --model bert",
)


def test_words_say_who_how_much_since_when_and_why() -> None:
    (paragraph,) = in_words(message(item())).paragraphs
    assert paragraph.title == "New (major): bert is slower"
    assert paragraph.lines == LINES
    assert paragraph.url == "http://hud/series?case=1"


def test_an_alert_without_numbers_has_none() -> None:
    (paragraph,) = in_words(message(item(kind="vanished", change_pct=None))).paragraphs
    assert "->" not in paragraph.lines[0]


def test_what_is_left_out_is_counted() -> None:
    words = in_words(message(*(item(alerts=9) for _ in range(25))))
    assert words.heading == "Compile HUD: 25 notifications"
    assert len(words.paragraphs) == MAX_ITEMS_SHOWN
    assert words.rest(MAX_ITEMS_SHOWN).startswith("and 15 more")
    assert f"and {9 - MAX_ALERTS_SHOWN} more alerts" in words.paragraphs[0].lines


def told_of_the_rest(text: str) -> int:
    """Return how many notifications `text` says are left out."""
    (num_left,) = re.findall(r"and (\d+) more\b(?! alerts)", text.replace("\\", ""))
    return int(num_left)


def test_what_a_receiver_does_not_take_is_counted_with_the_rest() -> None:
    long = make_case("\N{SNOWMAN}" * 60)
    words = in_words(message(*(item(case=long, alerts=9) for _ in range(25))))
    in_discord = discord(words)
    assert len(in_discord["embeds"]) < MAX_ITEMS_SHOWN
    assert len(in_discord["embeds"]) + told_of_the_rest(in_discord["content"]) == 25
    card = teams(words)["attachments"][0]["content"]
    texts = [run["text"] for block in card["body"] for run in block["inlines"]]
    num_shown = sum(text.startswith("New (major)") for text in texts)
    assert num_shown < MAX_ITEMS_SHOWN
    assert num_shown + told_of_the_rest(texts[-1]) == 25


def test_golden_message_of_slack() -> None:
    assert slack(in_words(message(item()))) == {
        "text": "New (major): bert is slower",
        "mrkdwn": False,
        "blocks": [
            {
                "type": "header",
                "text": {
                    "type": "plain_text",
                    "text": "New (major): bert is slower",
                    "emoji": False,
                },
            },
            {
                "type": "section",
                "text": {
                    "type": "plain_text",
                    "text": "\n".join(LINES),
                    "emoji": False,
                },
                "accessory": {
                    "type": "button",
                    "text": {"type": "plain_text", "text": "Open", "emoji": False},
                    "url": "http://hud/series?case=1",
                },
            },
        ],
    }


def test_golden_message_of_discord() -> None:
    found = discord(in_words(message(item())))
    assert found["allowed_mentions"] == {"parse": []}
    assert found["content"] == ""
    (embed,) = found["embeds"]
    assert embed["title"] == r"New \(major\)\: bert is slower"
    assert embed["url"] == "http://hud/series?case=1"
    assert embed["description"].replace("\\", "") == "\n".join(LINES)


def test_golden_message_of_teams() -> None:
    found = teams(in_words(message(item())))
    (attachment,) = found["attachments"]
    card = attachment["content"]
    assert (found["type"], card["type"], card["version"]) == ("message", "AdaptiveCard", "1.4")
    assert [run["text"] for block in card["body"] for run in block["inlines"]] == [
        "New (major): bert is slower",
        *LINES,
    ]
    assert card["actions"] == [
        {
            "type": "Action.OpenUrl",
            "title": "New (major): bert is slower",
            "url": "http://hud/series?case=1",
        }
    ]


def hostile() -> Message:
    return message(item(title=HOSTILE, case=make_case(HOSTILE)))


def test_slack_is_given_nothing_that_calls_or_links() -> None:
    found = slack(in_words(hostile()))
    kinds = {
        part["type"]
        for block in found["blocks"]
        for part in block.values()
        if isinstance(part, dict)
    }
    assert kinds <= {"plain_text", "button"}
    assert "<" not in found["text"]
    assert "\x1b" not in json.dumps(found)


def test_discord_is_given_nothing_that_is_markup() -> None:
    found = discord(in_words(hostile()))
    for embed in found["embeds"]:
        for text in (embed["title"], embed["description"]):
            bare = re.sub(r"\\.", "", text)
            assert not set("*_~`|<>[]@#") & set(bare)


def test_teams_is_given_runs_and_no_markdown() -> None:
    card = teams(in_words(hostile()))["attachments"][0]["content"]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert all("\n" not in run["text"] for block in card["body"] for run in block["inlines"])


@pytest.mark.parametrize("num_items", [1, 3, 100])
@pytest.mark.parametrize("sign", ["x", "*", "<", "&", "\N{SNOWMAN}"])
def test_endless_names_stay_within_what_receivers_take(num_items: int, sign: str) -> None:
    endless = sign * 10_000
    words = in_words(
        message(*(item(title=endless, case=make_case(endless), alerts=9) for _ in range(num_items)))
    )
    blocks = slack(words)["blocks"]
    assert len(blocks) <= SLACK_BLOCKS
    assert len(blocks[0]["text"]["text"]) <= SLACK_HEADER
    assert all(len(block["text"]["text"]) <= SLACK_SECTION for block in blocks)
    embeds = discord(words)["embeds"]
    assert all(len(embed["title"]) <= DISCORD_TITLE for embed in embeds)
    assert all(len(embed["description"]) <= DISCORD_DESCRIPTION for embed in embeds)
    total = sum(len(embed["title"]) + len(embed["description"]) for embed in embeds)
    assert total <= DISCORD_TOTAL
    assert len(json.dumps(teams(words))) <= TEAMS_BYTES


def test_a_chat_posts_json_and_tells_what_came_of_it() -> None:
    seen: list[bytes] = []

    def post(_url: str, *, body: bytes, headers: dict[str, str], rules: Any) -> Reply:
        del headers, rules
        seen.append(body)
        return Reply(status=429, headers={"retry-after": "30"}, body="")

    chat = Chat(poster=Poster(url="https://example.com/", post=post), render=slack)
    answer = chat.send(message(item()))
    assert (answer.kind, answer.retry_after_s) == (AnswerKind.FAILED, 30.0)
    assert json.loads(seen[0]) == slack(in_words(message(item())))
