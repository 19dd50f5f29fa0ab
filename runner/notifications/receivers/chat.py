"""Receivers of team chats: Slack, Discord, Microsoft Teams.

No part of a message is markup: names come from user models and must neither mention people nor
create links. Slack and Teams have plain text elements. For Discord every sign is escaped, and
mentions are disabled.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.shared.text import shortened
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import Message
from compile_hud.runner.notifications.http_response import Poster
from compile_hud.runner.notifications.message_text import (
    RenderedMessage,
    Section,
    render_message,
    without_pictures,
)

Render = Callable[[RenderedMessage], dict[str, Any]]

# https://docs.slack.dev/reference/block-kit/blocks: header, section, blocks a message, and
# https://docs.slack.dev/reference/block-kit/block-elements/button-element: text of a button, URL.
SLACK_HEADER, SLACK_SECTION, SLACK_BLOCKS, SLACK_BUTTON, SLACK_URL = 150, 3000, 50, 75, 3000
# https://discord.com/developers/docs/resources/message#embed-object-embed-limits
DISCORD_TITLE, DISCORD_DESCRIPTION, DISCORD_TOTAL, DISCORD_EMBEDS = 256, 4096, 6000, 10
# https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
TEAMS_BYTES = 28 * 1024
# These properties start a new section of a card.
_TEAMS_APART: Mapping[str, Any] = {"separator": True, "spacing": "Medium"}
_DISCORD_SIGNS = re.compile(r"([\\*_~`|>\[\]()#@<:\-+.!])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Posts messages as `render` formats them; pictures are addresses in them."""

    poster: Poster
    render: Render

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response."""
        return with_or_without_pictures(
            render_message(message), functools.partial(self._post, now=message.at)
        )

    def _post(self, words: RenderedMessage, *, now: datetime) -> Response:
        body = json.dumps(self.render(words), allow_nan=False).encode("ascii")
        return self.poster.send(body, headers={"Content-Type": "application/json"}, now=now)


def with_or_without_pictures(
    words: RenderedMessage, send: Callable[[RenderedMessage], Response]
) -> Response:
    """Send `words`; if they are refused with pictures, send them without."""
    answer = send(words)
    has_pictures = any(item.picture_url for item in words.sections)
    if answer.kind is ResponseKind.REFUSED and has_pictures:
        return send(without_pictures(words))
    return answer


def slack(words: RenderedMessage) -> dict[str, Any]:
    """Return `words` as blocks of Slack."""
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _slack_text(words.heading, limit=SLACK_HEADER)}
    ]
    for paragraph in words.sections:
        if not _lines(paragraph, words):
            continue
        section: dict[str, Any] = {
            "type": "section",
            "text": _slack_text("\n".join(_lines(paragraph, words)), limit=SLACK_SECTION),
        }
        if _is_short_url(paragraph.url, limit=SLACK_URL):
            section["accessory"] = {
                "type": "button",
                "text": _slack_text("Open", limit=SLACK_BUTTON),
                "url": paragraph.url,
            }
        apart = [{"type": "divider"}] if words.num_notifications > 1 else []
        blocks += [*apart, section, *_slack_picture(paragraph), *_slack_actions(paragraph)]
    if rest := words.overflow_line(len(words.sections)):
        blocks.append({"type": "section", "text": _slack_text(rest, limit=SLACK_SECTION)})
    # Phones show this text. Only these three signs create mentions and links in it.
    plain = words.heading.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": plain, "mrkdwn": False, "blocks": blocks[:SLACK_BLOCKS]}


def _slack_picture(paragraph: Section) -> list[dict[str, Any]]:
    if not _is_short_url(paragraph.picture_url, limit=SLACK_URL):
        return []
    alt_text = f"Trend: {paragraph.title}"
    return [{"type": "image", "image_url": paragraph.picture_url, "alt_text": alt_text}]


def _slack_actions(paragraph: Section) -> list[dict[str, Any]]:
    buttons = [
        {
            "type": "button",
            "action_id": name,
            "text": _slack_text(name, limit=SLACK_BUTTON),
            "url": url,
        }
        for name, url in paragraph.actions.items()
        if _is_short_url(url, limit=SLACK_URL)
    ]
    return [{"type": "actions", "elements": buttons}] if buttons else []


def _slack_text(text: str, *, limit: int) -> dict[str, Any]:
    return {"type": "plain_text", "text": shortened(text, limit=limit), "emoji": False}


def discord(words: RenderedMessage) -> dict[str, Any]:
    """Return `words` as embeds of Discord."""
    left = DISCORD_TOTAL
    embeds = []
    for paragraph in words.sections[:DISCORD_EMBEDS]:
        title = _escaped(paragraph.title, limit=min(DISCORD_TITLE, left))
        left -= len(title)
        links = _discord_links(paragraph)
        links = links if len(links) < left else ""
        limit = min(DISCORD_DESCRIPTION, left) - len(links)
        description = _escaped("\n".join(paragraph.lines), limit=limit) + links
        left -= len(description)
        if not title:
            break
        embed: dict[str, Any] = {"title": title, "description": description}
        if paragraph.url:
            embed["url"] = paragraph.url
        if paragraph.picture_url:
            embed["image"] = {"url": paragraph.picture_url}
        embeds.append(embed)
    has_many = words.num_notifications > 1
    content = f"{words.heading} {words.overflow_line(len(embeds))}".strip() if has_many else ""
    return {
        "content": _escaped(content, limit=DISCORD_TITLE),
        "embeds": embeds,
        "allowed_mentions": {"parse": []},
    }


def _discord_links(paragraph: Section) -> str:
    """Return links that are ours, so that nothing in them needs to be escaped."""
    links = [f"[{name}]({url})" for name, url in paragraph.actions.items()]
    return "\n" + " | ".join(links) if links else ""


def _escaped(text: str, *, limit: int) -> str:
    """Return `text` with every sign of Discord's markup escaped, cut to `limit` characters."""
    text_escaped = ""
    for sign in text:
        escaped = _DISCORD_SIGNS.sub(r"\\\1", sign)
        if len(text_escaped) + len(escaped) > limit:
            break
        text_escaped += escaped
    return text_escaped


def teams(words: RenderedMessage) -> dict[str, Any]:
    """Return `words` as an adaptive card of Microsoft Teams, within its size limit."""
    shown = len(words.sections)
    while True:
        card = _card(words, shown=shown)
        if shown <= 1 or len(json.dumps(card)) <= TEAMS_BYTES:
            return card
        shown -= 1


def _card(words: RenderedMessage, *, shown: int) -> dict[str, Any]:
    body = [_teams_text(words.heading, weight="Bolder", size="Medium")]
    for paragraph in words.sections[:shown]:
        body += _teams_section(paragraph, words)
    rest = words.overflow_line(shown)
    body += [{**_teams_text(rest), **_TEAMS_APART}] if rest else []
    content = {
        "type": "AdaptiveCard",
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": content}
    return {"type": "message", "attachments": [attachment]}


def _teams_section(paragraph: Section, words: RenderedMessage) -> list[dict[str, Any]]:
    body = [_teams_text(line) for line in _lines(paragraph, words)]
    if words.num_notifications > 1:
        body[0] = {**_teams_text(paragraph.title, weight="Bolder"), **_TEAMS_APART}
    if paragraph.picture_url:
        picture = {"url": paragraph.picture_url, "altText": f"Trend: {paragraph.title}"}
        body.append({"type": "Image", **picture})
    actions = {"Open": paragraph.url, **paragraph.actions} if paragraph.url else {}
    if actions:
        body.append({"type": "ActionSet", "actions": [_open(*item) for item in actions.items()]})
    return body


def _open(title: str, url: str) -> dict[str, Any]:
    return {"type": "Action.OpenUrl", "title": title, "url": url}


def _teams_text(text: str, **look: str) -> dict[str, Any]:
    # A run of a RichTextBlock is no Markdown, which the text of a TextBlock is.
    run = {"type": "TextRun", "text": text, **look}
    return {"type": "RichTextBlock", "spacing": "Small", "inlines": [run]}


def _lines(paragraph: Section, words: RenderedMessage) -> tuple[str, ...]:
    """Return the lines of a section; the title is left out if it equals the heading.

    A test message has none: its heading is complete.
    """
    if paragraph.title == words.heading and (paragraph.lines or not paragraph.url):
        return paragraph.lines
    return (paragraph.title, *paragraph.lines)


def _is_short_url(url: str, *, limit: int) -> bool:
    return bool(url) and len(url) <= limit
