"""A receiver of webhooks as a process: each message that it takes is a line of a file.

Its arguments are the folder of the simulation and a port, 0 for a free one. It prints its address,
and ends with its standard input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.receiving import Handler, receiving

RECEIVED = "received.jsonl"


def main(folder: Path, *, port: int) -> None:
    """Take messages until standard input ends."""

    def take(handler: Handler, number: int) -> None:
        # A message is JSON without line breaks; a single write does not mix with another thread's.
        with (folder / RECEIVED).open("ab", buffering=0) as stream:
            stream.write(handler.inbox.requests[number].body + b"\n")
        handler.answer(204)

    with receiving(take, port=port) as inbox:
        print(inbox.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), port=int(sys.argv[2]))
