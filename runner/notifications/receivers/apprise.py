"""The receiver of Apprise, which supports a hundred further services.

It runs in a separate process with a time limit: a plugin that hangs or exits costs one attempt.
Apprise has no idempotency key and reports only complete success, so a failed message is sent again
and may arrive twice. It opens its own connections, so the rule on private addresses does not apply.
A setting must confirm that.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from compile_hud.db.shared.text import first_line, one_line, shortened
from compile_hud.runner.notifications.delivery_policy import Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import Message
from compile_hud.runner.notifications.message_text import RenderedMessage, render_message

COMMAND: Final = (
    sys.executable,
    "-P",
    "-m",
    "compile_hud.runner.notifications.receivers.apprise_process",
)
PACKAGE: Final = "apprise"
_SHOWN_LENGTH = 200
# These signs mention people or start markup in some service; an invisible sign after them prevents
# it. Within a name `_` is no markup, and a copied command would contain the invisible sign.
_CALLS: Final = re.compile(r"[@<`*\[]|(?<!\w)_|_(?!\w)")
_UNSEEN: Final = "\N{ZERO WIDTH SPACE}"
# Shorter parts of an address are words such as `https`, and no secrets.
_SECRET: Final = re.compile(r"[^/:@?&=#]{5,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """Sends messages as text to the service at `url`, an address in Apprise's form; not shown."""

    url: str = field(repr=False)
    timeout_s: float
    command: Sequence[str] = COMMAND

    def send(self, message: Message) -> Response:
        """Send `message` once and return the response."""
        words = render_message(message)
        order = {
            "url": self.url,
            "title": neutralise(words.heading),
            "body": neutralise(render_body(words)),
        }
        try:
            done = subprocess.run(
                self.command,
                # Every user of this machine can read the arguments of a process.
                input=json.dumps(order).encode("ascii"),
                capture_output=True,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _failed(f"no answer within {self.timeout_s:g} s")
        except OSError as error:
            return Response(kind=ResponseKind.FAILED, text=str(error), is_down=True)
        if done.returncode == 0:
            return Response(kind=ResponseKind.SENT)
        return _failed(self._reason(done.stderr.decode("utf-8", "replace")))

    def _reason(self, output: str) -> str:
        text = one_line(first_line(output))
        for secret in _SECRET.findall(self.url):
            text = text.replace(secret, "***")
        return shortened(text, limit=_SHOWN_LENGTH)


def is_installed() -> bool:
    """Return whether Apprise can be imported here."""
    return importlib.util.find_spec(PACKAGE) is not None


def neutralise(text: str) -> str:
    """Return `text` without mentions and markup, for any service."""
    return _CALLS.sub(lambda match: match[0] + _UNSEEN, text)


def _failed(text: str) -> Response:
    # An address can stand for several services, and some may have accepted the message.
    return Response(kind=ResponseKind.FAILED, text=text, is_certain=False)


def render_body(words: RenderedMessage) -> str:
    """Return the text of `words` below their heading; no service takes an empty one."""
    parts = []
    for paragraph in words.sections:
        head = [] if paragraph.title == words.heading else [paragraph.title]
        links = {"Open": paragraph.url, **paragraph.actions}
        lines = [f"{name}: {url}" for name, url in links.items() if url]
        parts.append("\n".join((*head, *paragraph.lines, *lines)))
    rest = words.overflow_line(len(words.sections))
    return "\n\n".join((*parts, rest) if rest else parts) or words.heading
