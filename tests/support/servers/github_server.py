"""A real server on this machine that plays the part of GitHub's API that notifications use."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Reply = tuple[int, Any]
Headers = dict[str, str]


@dataclass(slots=True, kw_only=True)
class Repository:
    """The content of a repository, and every request; `refuses` answers one, or returns None.

    After a request that `loses` matches is done, its answer is dropped.
    """

    url: str = ""
    commits: dict[str, str] = field(default_factory=dict)
    issues: list[dict[str, Any]] = field(default_factory=list)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    statuses: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    may_push: bool = True
    refuses: Callable[[str, str], tuple[int, Headers, Any] | None] = lambda _method, _path: None
    loses: Callable[[str, str], bool] = lambda _method, _path: False

    def does(self, method: str, path: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        """Answer a request as https://docs.github.com/rest documents."""
        for pattern, handle in (
            (r"GET issues", self._list_issues),
            (r"POST issues", self._open_issue),
            (r"PATCH issues/(\d+)", self._change_issue),
            (r"GET issues/(\d+)/comments", self._list_comments),
            (r"POST issues/(\d+)/comments", self._comment),
            (r"PATCH issues/comments/(\d+)", self._change_comment),
            (r"GET commits/(\w+)", self._commit),
            (r"POST statuses/(\w+)", self._status),
            (r"GET commits/(\w+)/check-runs", self._list_checks),
            (r"POST check-runs", self._add_check),
            (r"PATCH check-runs/(\d+)", self._change_check),
        ):
            match = re.fullmatch(pattern, f"{method} {path}")
            if match is not None:
                return handle(*match.groups(), query=query, body=body)
        return 404, {"message": "Not Found"}

    def _list_issues(self, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del body
        states = ("open", "closed") if query["state"] == "all" else (query["state"],)
        issues = [
            issue
            for issue in reversed(self.issues)
            if issue["state"] in states
            and issue["updated_at"] >= query["since"]
            and query["labels"] in [label["name"] for label in issue["labels"]]
        ]
        return 200, _page(issues, query)

    def _open_issue(self, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        if len(body["title"]) > 256 or len(body["body"]) > 65536:
            return 422, {"message": "Validation Failed"}
        # GitHub silently drops the labels if the token may not push.
        labels = [{"name": name} for name in body["labels"] if self.may_push]
        number = len(self.issues) + 1
        own = {"number": number, "state": "open", "updated_at": _now(), "labels": labels}
        self.issues.append({**body, **own})
        return 201, self.issues[-1]

    def _change_issue(self, number: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        self.issues[int(number) - 1].update(body, updated_at=_now())
        return 200, self.issues[int(number) - 1]

    def _list_comments(self, number: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del body
        return 200, _page(self.comments.get(int(number), []), query)

    def _comment(self, number: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        id = 1 + sum(map(len, self.comments.values()))
        own = {"id": id, "user": {"login": "hud[bot]", "type": "Bot"}}
        self.comments.setdefault(int(number), []).append({**body, **own})
        return 201, body

    def _change_comment(self, id: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        every = [comment for comments in self.comments.values() for comment in comments]
        (comment,) = (item for item in every if item["id"] == int(id))
        comment.update(body)
        return 200, comment

    def _commit(self, ref: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query, body
        shas = [sha for sha in self.commits if sha.startswith(ref)]
        return (200, {"sha": shas[0]}) if shas else (422, {"message": f"No commit for {ref}"})

    def _status(self, sha: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        if len(body["description"]) > 140 or sha not in self.commits:
            return 422, {"message": "Validation Failed"}
        self.statuses.append({**body, "sha": sha})
        return 201, body

    def _list_checks(self, sha: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del body
        checks = [
            check
            for check in self.checks
            if check["head_sha"] == sha and check["name"] == query["check_name"]
        ]
        return 200, {"total_count": len(checks), "check_runs": checks}

    def _add_check(self, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        self.checks.append({**body, "id": len(self.checks) + 1})
        return 201, self.checks[-1]

    def _change_check(self, id: str, *, query: dict[str, str], body: dict[str, Any]) -> Reply:
        del query
        self.checks[int(id) - 1].update(body)
        return 200, self.checks[int(id) - 1]


def _page(items: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    size, number = int(query["per_page"]), int(query["page"])
    return items[size * (number - 1) : size * number]


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Handler(BaseHTTPRequestHandler):
    repository: Repository

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api/v3/repos/me/models/")
        repository, method = self.repository, self.command
        repository.requests.append((method, path))
        repository.headers.append({name.lower(): text for name, text in self.headers.items()})
        refused = repository.refuses(method, path)
        if refused is not None:
            self._send(*refused)
            return
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, content = repository.does(method, path, query=query, body=body)
        if not repository.loses(method, path):
            self._send(status, {}, content)

    def _send(self, status: int, headers: Headers, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(text)

    do_GET = do_POST = do_PATCH = _answer

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def github_server(*commits: str) -> Iterator[Repository]:
    """Yield the repository `me/models` of a server, which has these commits."""
    repository = Repository(commits=dict.fromkeys(commits, ""))
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Own", (_Handler,), {"repository": repository})
    )
    repository.url = f"http://127.0.0.1:{server.server_address[1]}/api/v3"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield repository
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
