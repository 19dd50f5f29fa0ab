"""Servers on this machine that implement the APIs of Slack and Discord by their references."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.slack_limits import problems

TOKEN = "xoxb-the-token"
CHANNEL = "C0123"


@dataclass(slots=True, kw_only=True)
class RecordedRequest:
    """A request as a server received it."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def content(self) -> dict[str, Any]:
        """Return its JSON; with files, that of its `payload_json`."""
        if not self.headers["content-type"].startswith("multipart/"):
            return dict(json.loads(self.body))
        part, *_ = self._parts()
        return dict(json.loads(part.get_payload(decode=True)))

    def files(self) -> dict[str, bytes]:
        """Return the attached files, by their names."""
        if not self.headers["content-type"].startswith("multipart/"):
            return {}
        return {part.get_filename(): part.get_payload(decode=True) for part in self._parts()[1:]}

    def _parts(self) -> list[Any]:
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        return list(BytesParser().parsebytes(head + self.body).get_payload())


@dataclass(slots=True, kw_only=True)
class Chat:
    """The state of a server: its messages by their names, the requests in order, and forced
    answers.

    `forced` are (status, content, headers) of the next answers.
    """

    url: str = ""
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[RecordedRequest] = field(default_factory=list)
    forced: list[tuple[int, Any, dict[str, str]]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Return method and last part of the path of each request."""
        return [f"{item.method} {item.path.rpartition('/')[2]}" for item in self.requests]

    def slack(self, request: RecordedRequest) -> tuple[int, Any]:
        """Return Slack's answer: https://docs.slack.dev/apis/web-api."""
        method = request.path.rpartition("/")[2]
        if method == "upload":
            self.files[request.query["id"][0]] = request.body
            return 200, "OK"
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return 200, {"ok": False, "error": "invalid_auth"}
        if method == "files.getUploadURLExternal":
            form = parse_qs(request.body.decode())
            id = f"F{len(self.files) + 1}"
            assert int(form["length"][0]) > 0
            base = self.url.removesuffix("/api")
            return 200, {"ok": True, "upload_url": f"{base}/upload?id={id}", "file_id": id}
        content = request.content()
        if method == "files.completeUploadExternal":
            has_all = all(item["id"] in self.files for item in content["files"])
            return 200, {"ok": has_all and content["thread_ts"] in self.messages}
        if content["channel"] not in (CHANNEL, "#perf"):
            return 200, {"ok": False, "error": "channel_not_found"}
        return 200, self._say(method, content)

    def _say(self, method: str, content: dict[str, Any]) -> dict[str, Any]:
        if problems(content):
            return {"ok": False, "error": "invalid_blocks"}
        ts = content.get("ts", f"1700000000.{len(self.messages):06}")
        if method == "chat.update" and ts not in self.messages:
            return {"ok": False, "error": "message_not_found"}
        # Updates take the id of a channel and no name.
        if method == "chat.update" and content["channel"] != CHANNEL:
            return {"ok": False, "error": "channel_not_found"}
        self.messages[ts] = content
        return {"ok": True, "channel": CHANNEL, "ts": ts}

    def discord(self, request: RecordedRequest) -> tuple[int, Any]:
        """Return Discord's answer: https://discord.com/developers/docs/resources/webhook."""
        match = re.fullmatch(r"/hook(?:/messages/(\d+))?", request.path)
        assert match is not None
        if request.method == "PATCH" and match[1] not in self.messages:
            return 404, {"code": 10008, "message": "Unknown Message"}
        id = match[1] or f"11{len(self.messages)}"
        content = request.content()
        names = {item["filename"] for item in content["attachments"]}
        assert names == set(request.files())
        self.messages[id] = content
        return (200, {"id": id}) if request.query.get("wait") or match[1] else (204, None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat: Chat
    kind: str
    lock: threading.Lock

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        request = RecordedRequest(
            method=self.command,
            path=parts.path,
            query=parse_qs(parts.query),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(self.headers["Content-Length"])),
        )
        with self.lock:
            self.chat.requests.append(request)
            headers: dict[str, str] = {}
            if self.chat.forced:
                status, content, headers = self.chat.forced.pop(0)
            else:
                status, content = getattr(self.chat, self.kind)(request)
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if status != 204 else 0))
        self.send_header("Connection", "close")
        self.end_headers()
        if status != 204:
            self.wfile.write(data)

    do_PATCH = do_POST

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def chatting(kind: str) -> Iterator[Chat]:
    """Yield a server that plays `slack` or `discord`."""
    chat = Chat()
    handler = type("Own", (_Handler,), {"chat": chat, "kind": kind, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    path = {"slack": "/api", "discord": "/hook"}[kind]
    chat.url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
