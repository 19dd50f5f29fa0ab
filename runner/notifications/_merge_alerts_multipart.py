"""A message with files beside it, as `multipart/form-data` (RFC 7578). Pure but for chance."""

from __future__ import annotations

import secrets
from collections.abc import Mapping


def encoded(content: bytes, files: Mapping[str, bytes]) -> tuple[str, bytes]:
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
