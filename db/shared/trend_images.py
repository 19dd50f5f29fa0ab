"""PNGs of trends from a renderer process; the caller gives its command.

The renderer reads a JSON list of alert ids and writes a line of JSON for each picture. Any failure
of it (a signal, an endless loop, no renderer at all) costs the picture and nothing else. Needs the
standard library.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import subprocess
from collections.abc import Sequence
from typing import Final

logger = logging.getLogger(__name__)

# A picture takes 1 to 3 s, most of it for imports; a machine may be busy.
TIMEOUT_S: Final = 60.0
# Further pictures need no imports.
MORE_S: Final = 30.0
# Mail clients and chats show images of this size without asking.
MAX_PICTURE_BYTES: Final = 100_000
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def draw_trends(
    alert_ids: Sequence[str],
    *,
    store_url: str,
    command: Sequence[str],
    timeout_s: float = TIMEOUT_S,
) -> dict[str, bytes]:
    """Return the trend of each alert as a PNG, by its id, without those that cannot be drawn.

    The renderer `command` has `timeout_s` for the first picture and MORE_S for each further one;
    pictures that were drawn before the timeout are returned.
    """
    if not alert_ids:
        return {}
    try:
        output = subprocess.run(
            command,
            input=json.dumps(list(alert_ids)).encode("ascii"),
            capture_output=True,
            timeout=timeout_s + MORE_S * (len(alert_ids) - 1),
            check=True,
            # The environment, since everybody can read the arguments of a process.
            env={**os.environ, "HUD_DATABASE_URL": store_url},
        ).stdout
    except subprocess.CalledProcessError as error:
        logger.info("no picture: %s", error.stderr.decode("utf-8", "replace")[-500:])
        output = error.stdout
    except subprocess.TimeoutExpired as error:
        logger.info("no picture: %s", error)
        output = error.stdout or b""
    except OSError as error:
        logger.info("no picture: %s", error)
        return {}
    drawn: dict[str, bytes] = {}
    for line in output.splitlines():
        drawn |= _drawn(line)
    return {id: drawn[id] for id in alert_ids if id in drawn and _is_picture(drawn[id])}


def _drawn(line: bytes) -> dict[str, bytes]:
    """Return the pictures of one line by the ids of alerts, none of an incomplete line."""
    try:
        return {id: base64.b64decode(data) for id, data in json.loads(line).items()}
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        logger.info("no picture: %s", error)
        return {}


def _is_picture(data: bytes) -> bool:
    return data.startswith(_PNG) and len(data) <= MAX_PICTURE_BYTES
