"""Slack's limits of a message, see https://docs.slack.dev/reference/block-kit/blocks.

Written from its reference and not from our code: each function returns what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAX_BLOCKS = 50
# https://docs.slack.dev/changelog/2018-truncating-really-long-messages
MAX_TEXT = 40_000


def problems(message: dict[str, Any]) -> list[str]:
    """Return everything for which Slack would refuse `message`, or cut it."""
    return list(_message(message))


def _message(message: dict[str, Any]) -> Iterator[str]:
    yield from _keys(
        message, needed={"text", "blocks"}, allowed={"mrkdwn", "channel", "ts", "thread_ts"}
    )
    yield from _length("text", message["text"], most=MAX_TEXT)
    blocks = message["blocks"]
    if not 1 <= len(blocks) <= MAX_BLOCKS:
        yield f"{len(blocks)} blocks"
    for block in blocks:
        check = _BLOCKS.get(block["type"])
        yield from check(block) if check else (f"block of type {block['type']}",)


def _header(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, needed={"type", "text"})
    yield from _plain("header", block["text"], most=150)


def _section(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, needed={"type", "text"}, allowed={"accessory"})
    yield from _plain("section", block["text"], most=3000)
    if "accessory" in block:
        yield from _button(block["accessory"])


def _image(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, needed={"type", "image_url", "alt_text"})
    yield from _length("image_url", block["image_url"], most=3000)
    yield from _length("alt_text", block["alt_text"], most=2000)


def _actions(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, needed={"type", "elements"})
    elements = block["elements"]
    if not 1 <= len(elements) <= 25:
        yield f"{len(elements)} elements"
    names = [element.get("action_id") for element in elements]
    if len(set(names)) < len(names):
        yield f"the action_id of several elements is the same: {names}"
    for element in elements:
        yield from _button(element)


def _button(element: dict[str, Any]) -> Iterator[str]:
    yield from _keys(element, needed={"type", "text"}, allowed={"url", "action_id"})
    if element["type"] != "button":
        yield f"element of type {element['type']}"
    yield from _plain("button", element["text"], most=75)
    yield from _length("url", element.get("url", "-"), most=3000)
    yield from _length("action_id", element.get("action_id", "-"), most=255)


def _plain(what: str, text: dict[str, Any], *, most: int) -> Iterator[str]:
    yield from _keys(text, needed={"type", "text"}, allowed={"emoji"})
    if text["type"] != "plain_text":
        yield f"{what}: {text['type']}"
    yield from _length(what, text["text"], most=most)


def _length(what: str, text: str, *, most: int) -> Iterator[str]:
    if not 1 <= len(text) <= most:
        yield f"{what}: {len(text)} characters of 1 to {most}"


def _keys(
    content: dict[str, Any], *, needed: set[str], allowed: set[str] | None = None
) -> Iterator[str]:
    if missing := needed - content.keys():
        yield f"without {sorted(missing)}"
    if strange := content.keys() - needed - (allowed or set()):
        yield f"with {sorted(strange)}"


def _divider(block: dict[str, Any]) -> Iterator[str]:
    yield from _keys(block, needed={"type"})


_BLOCKS = {
    "header": _header,
    "section": _section,
    "image": _image,
    "actions": _actions,
    "divider": _divider,
}
