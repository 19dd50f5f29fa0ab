"""Messages in the form of each receiver, in files that this module writes when it is run.

People review the files when words change. tests/services/notifications compares them with sent
messages, and validates Slack's against its limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.notifications import AlertChangeKind, Severity
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.message_text import render_message
from compile_hud.runner.notifications.receivers.apprise import neutralise, render_body
from compile_hud.runner.notifications.receivers.chat import discord, slack, teams
from compile_hud.runner.notifications.receivers.github import issue_body
from compile_hud.runner.notifications.receivers.mail import make_email
from compile_hud.runner.notifications.receivers.webhook import envelope
from compile_hud.runner.notifications.weekly_digest import make_weekly, weekly_notification
from tests.support.builders import START, make_alert, make_case, make_run_ref
from tests.unit.runner.notifications.receivers.test_chat import HOSTILE, full, message

FOLDER = Path(__file__).parents[2] / "fixtures" / "messages"


def messages() -> dict[str, Message]:
    """Return a message of each sort by its name."""
    return {
        "opened": message(full()),
        "fixed": message(_of(full(state=AlertState.FIXED), AlertChangeKind.FIXED)),
        "digest": message(
            _of(full("a"), AlertChangeKind.OPENED, severity=Severity.SEVERE),
            _of(full("b", case=make_case("gpt2")), AlertChangeKind.WORSENED),
            _of(full("c", state=AlertState.FIXED), AlertChangeKind.FIXED),
            full("d", alerts=9),
        ),
        "weekly": message(_weekly()),
        "hostile": message(
            full(title=HOSTILE, case=make_case(HOSTILE), state=AlertState.NOISE, note=HOSTILE)
        ),
    }


def _of(item: Item, kind: AlertChangeKind, *, severity: Severity = Severity.MAJOR) -> Item:
    return replace(item, notification=replace(item.notification, kind=kind, severity=severity))


def _weekly() -> Item:
    old = replace(make_run_ref(), at=START - timedelta(days=30))
    weekly = make_weekly(
        [
            make_alert("a", first_bad=old),
            make_alert("b", case=make_case("gpt2"), state=AlertState.FIXED),
            make_alert("c", case=make_case("vit"), state=AlertState.NOISE),
        ],
        fixed_ids={"b"},
        since=START - timedelta(days=7),
        until=START,
        url="https://hud/alerts",
    )
    notification = weekly_notification("ops", due=START, at=START)
    return Item(notification=notification, alerts=(), num_alerts=0, weekly=weekly)


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"


def _apprise(message: Message) -> str:
    words = render_message(message)
    return f"{neutralise(words.heading)}\n\n{neutralise(render_body(words))}\n"


def _mail(message: Message, kind: str) -> str:
    letter = make_email(message, sender="hud@example.org", to=("team@example.org",))
    part = letter.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def _github(message: Message) -> str:
    shown = zip(message.items, render_message(message).sections, strict=True)
    return "\n".join(
        f"{paragraph.title}\n\n{issue_body(item.notification, paragraph)}\n"
        for item, paragraph in shown
    )


# The text that a file has of each receiver's message, by the end of the file's name.
RENDERS: Mapping[str, Callable[[Message], str]] = {
    "webhook.json": lambda message: _json(envelope(message)),
    "slack.json": lambda message: _json(slack(render_message(message))),
    "discord.json": lambda message: _json(discord(render_message(message))),
    "teams.json": lambda message: _json(teams(render_message(message))),
    "email.txt": lambda message: _mail(message, "plain"),
    "email.html": lambda message: _mail(message, "html"),
    "github.md": _github,
    "apprise.txt": _apprise,
}


def rendered() -> dict[str, str]:
    """Return the content of each file, by its name; invisible characters are written out."""
    return {
        f"{name}.{end}": render(message).encode("ascii", "backslashreplace").decode("ascii")
        for name, message in messages().items()
        for end, render in RENDERS.items()
    }


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in rendered().items():
        (FOLDER / name).write_text(content, encoding="ascii", newline="\n")


if __name__ == "__main__":
    main()
