"""Send a request to a configured address without trusting the network or the response.

The client resolves the host once, checks the addresses, and connects to a checked one. A second
answer of the name server therefore has no effect. The client follows no redirect and uses no proxy.
One deadline covers everything from the look-up to the last byte.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

# Limits of connecting, and of the whole request: a slower receiver counts as down.
CONNECT_S = 10.0
TOTAL_S = 30.0
# A response is read only for its error message.
MAX_ANSWER_BYTES = 64 * 1024
HTTP = ("http", "https")
MAIL = ("smtp", "smtps", "smtp+plain")
# https://www.rfc-editor.org/rfc/rfc6409 and rfc8314: mail is submitted on these ports.
_PORTS = {"http": 80, "https": 443, "smtp": 587, "smtps": 465, "smtp+plain": 25}
_SECURE = ("https", "smtps")
# https://www.rfc-editor.org/rfc/rfc6052: IPv4 addresses as networks with IPv6 alone see them.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class RequestFailed(Exception):
    """No response came; `may_have_arrived` is true if the server may have received the request."""

    def __init__(self, text: str, *, may_have_arrived: bool = False) -> None:
        super().__init__(text)
        self.may_have_arrived = may_have_arrived


class TargetRefused(Exception):
    """The address is not allowed; the message names the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to `url`. The URL and the headers may contain a secret, so no repr shows them."""

    url: str = field(repr=False)
    method: str = "POST"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_answer_bytes: int = MAX_ANSWER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """The status of an answer, its headers by their names in small letters, and how it begins."""

    status: int
    headers: Mapping[str, str]
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRules:
    """The limits of a request, and the dependencies that tests replace."""

    allow_private: bool = False
    connect_s: float = CONNECT_S
    total_s: float = TOTAL_S
    monotonic: Callable[[], float] = time.monotonic
    context: Callable[[], ssl.SSLContext] = field(default=ssl.create_default_context)
    lookup: Callable[[str, int], list[str]] = field(default=lambda host, port: _lookup(host, port))


def check_url(url: str, *, schemes: Sequence[str] = HTTP) -> SplitResult:
    """Return the parts of `url`; raise TargetRefused unless it is an address of a host.

    The message contains nothing of `url`, which may contain a secret anywhere.
    """
    takes = f"takes {' or '.join(f'{scheme}://host' for scheme in schemes)}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # The cause is hidden: its text may quote a secret instead of the port.
        raise TargetRefused(f"its host or port is none; {takes}") from None
    has_odd_signs = any(sign <= " " or sign == "\x7f" or not sign.isascii() for sign in url)
    if parts.scheme not in schemes or not parts.hostname or port == 0 or has_odd_signs:
        raise TargetRefused(takes)
    if parts.username is not None or parts.password is not None:
        raise TargetRefused("takes an address without a user or password in it")
    return parts


def post(url: str, *, body: bytes, headers: Mapping[str, str], rules: HttpRules) -> HttpReply:
    """Post `body` to `url` and return the answer; raise TargetRefused and RequestFailed."""
    return request(Request(url=url, body=body, headers=headers), rules=rules)


def request(message: Request, *, rules: HttpRules) -> HttpReply:
    """Send `message` and return the reply; raise TargetRefused and RequestFailed."""
    parts = check_url(message.url)
    deadline = rules.monotonic() + rules.total_s
    try:
        connected = connect(parts, rules=rules, deadline=deadline)
    except (OSError, ValueError) as error:
        raise RequestFailed(_text(error)) from error
    try:
        return _exchange(connected, parts, message=message)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RequestFailed(_text(error), may_have_arrived=True) from error
    finally:
        connected.end()


def is_public(address: str) -> bool:
    """Return whether `address` is public, also if it is embedded in another address."""
    return all(ip.is_global and not ip.is_multicast for ip in _unwrapped(address))


def _unwrapped(address: str) -> list[IpAddress]:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    inner: list[IpAddress] = [
        candidate for candidate in (ip.ipv4_mapped, ip.sixtofour) if candidate
    ]
    if ip.teredo:
        inner += ip.teredo
    if ip in _NAT64:
        inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    # An address that embeds a public IPv4 address does not always count as public itself.
    return inner or [ip]


def _addresses(host: str, port: int, *, rules: HttpRules, limit_s: float) -> list[str]:
    """Return the addresses of `host`; raise TimeoutError.

    The system's look-up has no time limit of its own, so it runs in a thread that is abandoned
    after the limit.
    """
    lookup: Future[list[str]] = Future()

    def look() -> None:
        try:
            lookup.set_result(rules.lookup(host, port))
        except (OSError, ValueError) as error:
            lookup.set_exception(error)

    threading.Thread(target=look, name="lookup", daemon=True).start()
    try:
        return lookup.result(timeout=max(0.0, limit_s))
    except FutureTimeoutError:
        raise TimeoutError(f"no name server has said the address of {host} in time") from None


def _lookup(host: str, port: int) -> list[str]:
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in addresses))


class TimedSocket:
    """A connection that ends at `deadline`, even if the bytes arrive slowly."""

    def __init__(
        self, connection: socket.socket, *, deadline: float, monotonic: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._deadline = deadline
        self._monotonic = monotonic

    def arm(self) -> socket.socket:
        """Return the connection with a timeout of the remaining time; raise TimeoutError."""
        left_s = self._deadline - self._monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(left_s)
        return self._connection

    def sendall(self, data: Any) -> None:
        """Send all of `data`."""
        view = memoryview(data)
        while view:
            view = view[self.arm().send(view) :]

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """Return the received data as a file."""
        return io.BufferedReader(_TimedReader(self))

    def close(self) -> None:
        """Do nothing: the library closes the socket before it has read the response."""

    def end(self) -> None:
        """Close it."""
        self._connection.close()

    def secure(self, context: ssl.SSLContext, *, host: str) -> None:
        """Speak TLS from now on; the certificate must be that of `host`."""
        self._connection = context.wrap_socket(self.arm(), server_hostname=host)


class _TimedReader(io.RawIOBase):
    """The received data of a timed connection, as a file."""

    def __init__(self, connection: TimedSocket) -> None:
        super().__init__()
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.arm().recv_into(buffer)


def connect(parts: SplitResult, *, rules: HttpRules, deadline: float) -> TimedSocket:
    """Return a connection to the host of `parts` that ends at `deadline`.

    The address must satisfy `rules`; the scheme decides about TLS. Raises TargetRefused, OSError
    and ValueError.
    """
    host = parts.hostname or ""
    port = parts.port or _PORTS[parts.scheme]
    limit_s = min(rules.connect_s, deadline - rules.monotonic())
    addresses = _addresses(host, port, rules=rules, limit_s=limit_s)
    private = [address for address in addresses if not is_public(address)]
    if private and not rules.allow_private:
        is_named = f"{host} is {private[0]}, which" if host != private[0] else host
        raise TargetRefused(
            f"{is_named} is no public address; `allow_private = true` of the receiver allows it"
        )
    error_: OSError = OSError(f"{host} has no address")
    for address in addresses:
        left_s = min(rules.connect_s, deadline - rules.monotonic())
        if left_s <= 0:
            break
        try:
            connection = socket.create_connection((address, port), timeout=left_s)
        except OSError as error:
            error_ = error
            continue
        try:
            if parts.scheme in _SECURE:
                connection = rules.context().wrap_socket(connection, server_hostname=host)
        except (OSError, ValueError):
            connection.close()
            raise
        return TimedSocket(connection, deadline=deadline, monotonic=rules.monotonic)
    raise error_


def _exchange(connected: TimedSocket, parts: SplitResult, *, message: Request) -> HttpReply:
    port = parts.port or _PORTS[parts.scheme]
    connection = http.client.HTTPConnection(parts.hostname or "", port)
    # The library gets our socket, which has the deadline and connects to the checked address.
    connection.sock = connected
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    connection.request(
        message.method,
        path,
        body=message.body,
        headers={"Host": parts.netloc, "User-Agent": "compile-hud", **message.headers},
    )
    reply = connection.getresponse()
    try:
        content = reply.read(message.max_answer_bytes)
    except (OSError, http.client.HTTPException):
        # The status has already shown the result.
        content = b""
    return HttpReply(
        status=reply.status,
        headers={name.lower(): value for name, value in reply.getheaders()},
        body=content.decode("utf-8", "replace"),
    )


def _text(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def encode_multipart(content: bytes, files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """Return the type and the body of JSON `content` with PNG `files`, by their names.

    The fields are as Discord names them: https://discord.com/developers/docs/reference#uploading-files
    """
    boundary = secrets.token_hex(16)
    parts = [_part('name="payload_json"', "application/json", content)]
    for number, (name, data) in enumerate(files.items()):
        parts.append(_part(f'name="files[{number}]"; filename="{name}"', "image/png", data))
    line = f"--{boundary}".encode("ascii")
    body = b"".join(line + b"\r\n" + part for part in parts) + line + b"--\r\n"
    return f"multipart/form-data; boundary={boundary}", body


def _part(disposition: str, kind: str, data: bytes) -> bytes:
    head = f"Content-Disposition: form-data; {disposition}\r\nContent-Type: {kind}\r\n\r\n"
    return head.encode("ascii") + data + b"\r\n"
