"""`enum.StrEnum`, also for the worker under Python 3.10."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        __str__ = str.__str__


__all__ = ["StrEnum"]
