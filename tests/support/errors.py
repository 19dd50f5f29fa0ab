"""The facts of an error, for snapshots of the words of a surface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compile_hud.db.errors import CodedError


def error_of(function: Callable[..., Any], *arguments: Any, **named: Any) -> CodedError:
    """Return the error of a call, which must raise one of ours."""
    with pytest.raises(CodedError) as caught:
        function(*arguments, **named)
    return caught.value


def message_of(error: BaseException, **hidden: object) -> str:
    """Return the message of `error` with what differs from run to run replaced by its name."""
    text = str(error)
    for name, value in hidden.items():
        text = text.replace(str(value), f"<{name}>")
    return text


def value_error_of(function: Callable[..., Any], *arguments: Any, **named: Any) -> ValueError:
    """Return the ValueError of a call, whose message the caller compares with its snapshot."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        function(*arguments, **named)
    return caught.value
