"""`python -m compile_hud.app`: the dashboard as a server of its own."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

import uvicorn

from compile_hud.app.auth import access
from compile_hud.app.data.store import DEFAULT_URL, URL_VARIABLE
from compile_hud.app.server.connection_limit import MAX_MESSAGE_BYTES, LimitedConfig
from compile_hud.db.shared.access_rules import refusal
from compile_hud.db.shared.logging import FORMAT_VARIABLE, set_up_logging

DEFAULT_PORT = 8501
_STARTUP_FAILED = 3


class Server(uvicorn.Server):
    """A server that prints a line once it listens: loading the dashboard takes seconds."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and report it on stdout."""
        await super().startup(sockets)
        if self.started:
            sys.stdout.write("dashboard ready\n")
            if owner := access.owner_sign_in():
                # A log is read by others; the command asks for the private file instead.
                way = owner.link() if access.child_settings().shows_link else "run `hud sign-in`"
                sys.stdout.write(f"sign in: {way}\n")
            sys.stdout.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and take back the link of the owner."""
        await super().shutdown(sockets)
        access.withdraw_link()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the dashboard until a signal stops it; exit with 3 when it cannot listen."""
    parser = argparse.ArgumentParser(
        prog="python -m compile_hud.app", description="Serve the dashboard."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port (%(default)s)")
    parser.add_argument(
        "--store", metavar="URL", help=f"store to show (${URL_VARIABLE}, else {DEFAULT_URL})"
    )
    parser.add_argument(
        "--without-sign-in",
        action="store_true",
        help="listen on any address; everyone who reaches it can read everything",
    )
    options = parser.parse_args(arguments)
    is_open = options.without_sign_in
    if problem := refusal(options.host, rules=access.rules(), is_open=is_open):
        parser.error(problem)
    os.environ[access.LISTEN_VARIABLE] = options.host
    set_up_logging(os.environ.get(FORMAT_VARIABLE, ""), stream=sys.stderr)
    if options.store:
        os.environ[URL_VARIABLE] = options.store
    config = LimitedConfig(
        "compile_hud.app.asgi:app",
        host=options.host,
        port=options.port,
        # uvicorn's own configuration writes text; our handler writes JSON where that is set.
        log_config=None,
        log_level="warning",
        # Streamlit's own server turns compression off too: it costs more time than loopback and LAN
        # gain.
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        # A page sends no more than the state of its widgets, and a session stays in memory.
        ws_max_size=MAX_MESSAGE_BYTES,
        # Open pages keep their connections, and the server would wait for them.
        timeout_graceful_shutdown=2,
    )
    # The link is made before any request can ask for it.
    access.owner_sign_in()
    server = Server(config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(_STARTUP_FAILED)


if __name__ == "__main__":
    main()
