"""Send one message with Apprise; standard input has the message as JSON.

The exit status is 0 after complete success; else the first line of stderr has the reason.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys

from compile_hud.runner.notifications.receivers.apprise import PACKAGE


def main() -> int:
    """Send the message of standard input; return the exit status."""
    order = json.load(sys.stdin)
    apprise = importlib.import_module(PACKAGE)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    service = apprise.Apprise()
    if not service.add(order["url"]):
        sys.stderr.write("Apprise does not understand this address\n")
        return 1
    is_sent = service.notify(
        body=order["body"], title=order["title"], body_format=apprise.NotifyFormat.TEXT
    )
    if not is_sent:
        sys.stderr.write("Apprise could not send it\n")
    return 0 if is_sent else 1


if __name__ == "__main__":
    sys.exit(main())
