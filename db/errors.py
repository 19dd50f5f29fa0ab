"""The errors of the store.

StoreError
|-- StoreLocked        another process has the store and did not release it in time
|-- StoreTooNew        the store was written by a newer Compile HUD
|-- StoreUnavailable   the store cannot be opened or reached at all
|   `-- StoreTooOld    the store was written by an older Compile HUD, and is not upgraded yet
|-- StoreFull          the disk (or quota) under the store is full
|-- MixedStoreError    synthetic (`hud demo`) and real runs never share a store
|-- SetByPattern       the value comes from the settings of the series
|-- BackupError        a backup is damaged, or would replace runs
|-- RecordError        a document does not describe a valid record
`-- NotFoundError      the store has no such run, case result or alert
"""

from __future__ import annotations

import re
from typing import ClassVar


class CodedError(Exception):
    """An error with a code, its class in kebab case, and the parameters of its message."""

    code: ClassVar[str]

    def __init__(self, *message: object, **parameters: object) -> None:
        super().__init__(*message)
        self.parameters = parameters

    def __init_subclass__(cls) -> None:
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower().removesuffix("-error")


class StoreError(CodedError):
    """Base of every error that storing or reading results raises."""


class StoreLocked(StoreError):
    """Another process holds the store; the message names its PID where it is known."""


class StoreTooNew(StoreError):
    """The schema of the store is newer than this code."""


class StoreUnavailable(StoreError):
    """The store cannot be opened: bad URL, no server, no permission, damaged file."""


class StoreTooOld(StoreUnavailable):
    """The schema of the store is older than this code.

    The next write upgrades it, unless it is older than every schema that this code upgrades.
    """


class StoreFull(StoreError):
    """There is no room left to write."""


class SetByPattern(StoreError):
    """An owner or a mute cannot be removed from an alert that has it from its series."""


class BackupError(StoreError):
    """A file is no whole backup, or its target store is not empty."""


class RecordError(StoreError, ValueError):
    """A document has a missing, unknown or ill-typed field."""


class NotFoundError(StoreError, LookupError):
    """No such run, case result or alert."""


class MixedStoreError(StoreError):
    """A synthetic run was written to a store of real runs, or the other way round."""
