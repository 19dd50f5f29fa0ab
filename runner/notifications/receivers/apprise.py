"""The receiver of Apprise, which speaks to a hundred services that are not built in.

It runs in a process of its own with a time limit: a plugin that hangs or ends its process costs one
attempt. Apprise takes no idempotency key and says only whether all went well, so what did not is
sent again and may come twice. It opens its connections itself: the rule of private addresses cannot
be kept, and settings must say that this is known.
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
# What calls people or begins markup in some service; a sign that nobody sees takes its meaning.
# Not within a name, where `_` is no markup and whoever copies a command would copy that sign.
_CALLS: Final = re.compile(r"[@<`*\[]|(?<!\w)_|_(?!\w)")
_UNSEEN: Final = "\N{ZERO WIDTH SPACE}"
# Shorter parts of an address are words such as `https`, and no secrets.
_SECRET: Final = re.compile(r"[^/:@?&=#]{5,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Apprise:
    """Sends messages in words to the service at `url`, an address in Apprise's form; not shown."""

    url: str = field(repr=False)
    timeout_s: float
    command: Sequence[str] = COMMAND

    def send(self, message: Message) -> Response:
        """Send `message` once and return what came of it."""
        words = render_message(message)
        order = {
            "url": self.url,
            "title": neutralise(words.heading),
            "body": neutralise(render_body(words)),
        }
        try:
            done = subprocess.run(
                self.command,
                # Not in the arguments, which everybody on this machine can read.
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
    """Return `text` in which nothing calls anybody or is markup, in whatever service."""
    return _CALLS.sub(lambda match: match[0] + _UNSEEN, text)


def _failed(text: str) -> Response:
    # Some of what one address stands for may have got it.
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
