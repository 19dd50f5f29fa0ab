"""The torch versions of a bisection, and a toolchain for each required one."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compile_hud.runner.errors import BisectError, ToolchainError
from compile_hud.runner.toolchains.installer import (
    InstallDependencies,
    ToolchainRequest,
    build_toolchain,
    explain_failure,
    own_environment,
)
from compile_hud.runner.toolchains.registry import built_toolchains, changing, discard
from compile_hud.runner.toolchains.requirements import TORCH

RANGE = ".."
# An index that does not answer keeps pip trying for minutes.
INDEX_TIMEOUT_S = 180.0
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?((a|b|rc)\d+)?(\.dev\d+)?(\+[\w.]+)?")
_AVAILABLE = re.compile(r"^Available versions: (.+)$", re.M)
_NUM_SHOWN = 8
_DIGEST_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchSource:
    """A package index for torch, and the Python for its toolchains.

    An empty `index_url` means pip's default.
    """

    python: Path
    index_url: str = ""
    is_nightly: bool = False

    def to_json(self) -> dict[str, str]:
        """Return the source by texts."""
        nightly = "yes" if self.is_nightly else ""
        return {"python": str(self.python), "index_url": self.index_url, "nightly": nightly}

    @classmethod
    def from_json(cls, document: Mapping[str, str]) -> TorchSource:
        """Return the source that `to_json` made `document` of."""
        return cls(
            python=Path(document["python"]),
            index_url=document["index_url"],
            is_nightly=bool(document["nightly"]),
        )


def is_version(name: str) -> bool:
    """Return whether `name` looks like a version of torch, such as 2.12 or 2.13.0.dev20260101."""
    return _VERSION.fullmatch(name) is not None


def list_versions(source: TorchSource) -> tuple[str, ...]:
    """Return the torch versions that the index has for this Python, oldest first.

    The local part after a plus is removed, since it only names the build. Raises BisectError.
    """
    index = ("--index-url", source.index_url) if source.index_url else ()
    pre = ("--pre",) if source.is_nightly else ()
    command = [str(source.python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    try:
        answer = subprocess.run(
            [*command, "index", "versions", TORCH, *pre, *index],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=own_environment(),
            timeout=INDEX_TIMEOUT_S,
        )
    except OSError as error:
        raise BisectError(
            f"cannot start {source.python}: {error.strerror}",
            python=source.python,
            reason=error.strerror,
        ) from error
    except subprocess.TimeoutExpired as error:
        raise BisectError(_cannot_list(f"no answer after {INDEX_TIMEOUT_S:.0f} s")) from error
    match = _AVAILABLE.search(answer.stdout)
    if answer.returncode or match is None:
        reason = explain_failure(answer.stdout + answer.stderr, torch=None)
        raise BisectError(_cannot_list(reason))
    newest_first = [item.strip().partition("+")[0] for item in match[1].split(",")]
    return tuple(reversed(dict.fromkeys(newest_first)))


def _cannot_list(reason: str) -> str:
    return f"cannot list the versions of torch ({reason}); name each of them: --torch A B C"


def expand(texts: Sequence[str], *, available: Callable[[], Sequence[str]]) -> tuple[str, ...]:
    """Return the versions that `texts` name, in order; `A..B` is every version from A to B.

    `available` returns all versions, oldest first; only a range calls it. Raises BisectError for an
    end of a range that is not available.
    """
    versions: list[str] = []
    for text in texts:
        first, separator, last = text.partition(RANGE)
        versions.extend(_between(first, last, available()) if separator else [text])
    return tuple(versions)


def _between(first: str, last: str, available: Sequence[str]) -> Sequence[str]:
    for version in (first, last):
        if version not in available:
            shown = ", ".join(available[-_NUM_SHOWN:])
            raise BisectError(
                f"the index has no torch {version!r}; the newest are {shown}", version=version
            )
    start, end = available.index(first), available.index(last)
    if start > end:
        raise BisectError(
            f"torch {first} comes after {last}; write the older one first", first=first, last=last
        )
    return available[start : end + 1]


class TorchToolchains:
    """A toolchain for each version, built on first use."""

    def __init__(
        self, source: TorchSource, *, state_dir: Path, dependencies: InstallDependencies
    ) -> None:
        self._source = source
        self._state_dir = state_dir
        self._dependencies = dependencies

    def find_python(self, version: str) -> Path:
        """Return the interpreter with the torch `version`, built now unless it exists.

        Raises ToolchainError, and RunInterrupted after a stop.
        """
        name = self.name(version)
        built = built_toolchains(self._state_dir).get(name)
        if built is not None:
            return built
        request = ToolchainRequest(
            name=name,
            torch=version,
            python=self._source.python,
            index_url=self._source.index_url or None,
            is_nightly=self._source.is_nightly,
        )
        return build_toolchain(request, state_dir=self._state_dir, dependencies=self._dependencies)

    def drop(self, version: str) -> None:
        """Remove the toolchain of `version` if there is one."""
        name = self.name(version)
        if name not in built_toolchains(self._state_dir):
            return
        try:
            with changing(name, state_dir=self._state_dir) as folder:
                discard(folder, state_dir=self._state_dir)
        except ToolchainError:
            # Another process is building it and now owns it.
            return

    def name(self, version: str) -> str:
        """Return the name of the toolchain of `version`, different for each source."""
        about = f"{self._source.python} {self._source.index_url}"
        digest = hashlib.sha256(about.encode()).hexdigest()[:_DIGEST_DIGITS]
        return f"bisect-{version}-{digest}"
