"""Build a toolchain: a virtual environment with its own torch and the packages of the zoo."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from compile_hud.db.records.codec import JsonRecord
from compile_hud.db.shared.text import counted
from compile_hud.runner.errors import ExecutorError, RunInterrupted, ToolchainError
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.processes import die_with_parent
from compile_hud.runner.toolchains.registry import (
    changing,
    check_unused,
    put_back,
    python_of,
    recipe_of,
    register,
    set_aside,
    toolchain_folder,
)
from compile_hud.runner.toolchains.requirements import (
    TORCH,
    declared_requirements,
    installed_pins,
    package_name,
)

# The oldest Python on which the worker runs.
MIN_PYTHON = (3, 10)
_LOG_TAIL_LINES = 3
_NUM_VERSIONS_SHOWN = 8
# These variables would install elsewhere, or add packages that are not the toolchain's.
_FOREIGN_VARIABLES = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSAFEPATH",
    "VIRTUAL_ENV",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
)
_PROBE = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
_BIG_DOWNLOAD = re.compile(r"\s*Downloading (\S+) \((\d+(?:\.\d+)? [MG]B)\)")
_NO_ROOM = ("No space left on device", "Errno 28", "Disk quota exceeded")
_NO_NETWORK = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "Failed to establish a new connection",
    "Name or service not known",
    "Temporary failure in name resolution",
    "ProxyError",
)
_VERSIONS = re.compile(rf"requirement {TORCH}\S* \(from versions: ([^)]*)\)")
_CONFLICT = re.compile(r"^ERROR: (Cannot install .*|No matching distribution found for .*)$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolchainRequest(JsonRecord):
    """A toolchain to build.

    `torch` is a version, None for the newest one; with `is_nightly` pre-releases count. It replaces
    a toolchain of the same name. `index_url` is torch's package index, None for pip's default.
    `packages` are installed as well; `without_dependencies` alone, after everything else.
    """

    name: str
    torch: str | None
    python: Path
    index_url: str | None = None
    packages: tuple[str, ...] = ()
    is_nightly: bool = False
    without_dependencies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallDependencies:
    """The dependencies of an installation; tests replace them.

    `facts` starts the worker under an interpreter and returns its facts, or raises ExecutorError.
    """

    facts: Callable[[Path], Mapping[str, Any]]
    now: Callable[[], datetime]
    notify: Notify


def build_toolchain(
    request: ToolchainRequest, *, state_dir: Path, dependencies: InstallDependencies
) -> Path:
    """Build the toolchain, check that the worker runs under it, and return its interpreter.

    Raises ToolchainError, and RunInterrupted after a stop. Both remove the new toolchain, except
    the log of an error, and restore the toolchain that it would replace.
    """
    _check_version(request.torch)
    version = _python_version(request.python)
    with changing(request.name, state_dir=state_dir) as folder, Interrupts() as interrupts:
        # An interrupted installation may have left files.
        put_back(folder, state_dir=state_dir)
        check_unused(folder)
        try:
            set_aside(folder)
            installation = _Installation(folder, notify=dependencies.notify, interrupts=interrupts)
            _build(
                request, installation=installation, python_minor=version, dependencies=dependencies
            )
        except RunInterrupted as error:
            text = f"stopped; nothing of the new toolchain {request.name} is left"
            raise RunInterrupted(text) from error
        except OSError as error:
            raise ToolchainError(
                f"cannot build {folder}: {error.strerror or error}", folder=folder
            ) from error
        finally:
            put_back(folder, state_dir=state_dir)
    return python_of(folder)


def _build(
    request: ToolchainRequest,
    *,
    installation: _Installation,
    python_minor: tuple[int, int],
    dependencies: InstallDependencies,
) -> None:
    folder, log = installation.folder, installation.log
    log.unlink(missing_ok=True)
    what = f"torch {request.torch}" if request.torch else "the newest torch"
    say = dependencies.notify
    say(LogMessage(text=f"building toolchain {request.name}: {what} under {request.python}"))
    installation.create(request.python)
    installation.install(*torch_arguments(request), torch=request.torch)
    say(LogMessage(text="installing what the models need"))
    # Other Pythons have other newest packages; pip then chooses within the declared requirements.
    pins = installed_pins() if python_minor == sys.version_info[:2] else []
    own = {package_name(item) for item in request.packages}
    pins = [pin for pin in pins if package_name(pin) not in own]
    constraints = folder / "constraints.txt"
    torch_pin = f"{TORCH}=={installation.version_of(TORCH)}"
    constraints.write_text("\n".join([torch_pin, *pins]) + "\n", encoding="utf-8")
    installation.install(*zoo_arguments(request, constraints=constraints), torch=None)
    if request.without_dependencies and request.packages:
        installation.install("--no-deps", *request.packages, torch=None)
    say(LogMessage(text="starting the worker under it"))
    try:
        facts = dependencies.facts(python_of(folder))
    except ExecutorError as error:
        raise ToolchainError(
            f"the worker does not run under {request.name}: {error}",
            toolchain=request.name,
            reason=str(error),
        ) from error
    register(
        folder,
        torch_version=str(facts["torch_version"]),
        at=dependencies.now(),
        recipe=request.to_json(),
    )
    log.unlink(missing_ok=True)


def build_again(name: str, *, state_dir: Path, dependencies: InstallDependencies) -> Path:
    """Build the toolchain `name` again from its recipe, and return its interpreter.

    Raises ToolchainError and RunInterrupted, which leave the toolchain unchanged.
    """
    folder = toolchain_folder(name, state_dir=state_dir)
    request = ToolchainRequest.from_json(recipe_of(folder))
    return build_toolchain(request, state_dir=state_dir, dependencies=dependencies)


def torch_arguments(request: ToolchainRequest) -> list[str]:
    """Return pip's arguments to install the torch of `request`."""
    minimum = next(item for item in declared_requirements() if package_name(item) == TORCH)
    index = ["--index-url", request.index_url] if request.index_url else []
    pre = ["--pre"] if request.is_nightly else []
    return [*pre, *index, f"{TORCH}=={request.torch}" if request.torch else minimum]


def zoo_arguments(request: ToolchainRequest, *, constraints: Path) -> list[str]:
    """Return pip's arguments to install everything except torch."""
    requirements = [item for item in declared_requirements() if package_name(item) != TORCH]
    # The index of torch also has its companion packages, such as torchvision.
    index = ["--extra-index-url", request.index_url] if request.index_url else []
    packages = () if request.without_dependencies else request.packages
    return ["-c", str(constraints), *index, *requirements, *packages]


def explain_failure(output: str, *, torch: str | None) -> str:
    """Return in one line why pip, which wrote `output`, did not install `torch`."""
    if any(text in output for text in _NO_ROOM):
        return "the disk is full; a CUDA build of torch takes about 5 GB"
    match = _VERSIONS.search(output)
    versions = [] if match is None else [item.strip() for item in match[1].split(",")]
    versions = [item for item in versions if item and item != "none"]
    if match is not None and versions:
        shown = ", ".join(versions[-_NUM_VERSIONS_SHOWN:])
        return f"no torch {torch or ''}".strip() + f" for this Python; the newest are {shown}"
    if any(text in output for text in _NO_NETWORK):
        return "the package index does not answer; check the network and pip's configuration"
    if match is not None:
        return "the package index has no torch for this Python; name another with --index-url"
    conflict = _CONFLICT.search(output)
    if conflict is not None:
        return conflict[1]
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return "; ".join(lines[-_LOG_TAIL_LINES:]) or "it said nothing"


class _Installation:
    """A virtual environment during its installation; messages go to a log as well."""

    def __init__(self, folder: Path, *, notify: Notify, interrupts: Interrupts) -> None:
        self.folder = folder
        # `with_suffix` would cut a version in the name.
        self.log = folder.with_name(f"{folder.name}.log")
        self._notify = notify
        self._interrupts = interrupts
        self._process: subprocess.Popen[str] | None = None

    def create(self, python: Path) -> None:
        """Create the environment; raise ToolchainError."""
        output = self._run([str(python), "-m", "venv", str(self.folder)])
        if output is not None:
            lines = output.strip().splitlines() or ["it said nothing"]
            raise self._error(f"{python} cannot create a virtual environment: {lines[-1]}")

    def install(self, *arguments: str, torch: str | None) -> None:
        """Install packages with pip; raise ToolchainError."""
        # Writing byte code for every module takes half of the time, and few are imported.
        pip = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-compile")
        python = str(python_of(self.folder))
        output = self._run([python, *pip, "--progress-bar", "off", *arguments])
        if output is not None:
            raise self._error(explain_failure(output, torch=torch))

    def version_of(self, package: str) -> str:
        """Return the version of a package that was installed; raise ToolchainError."""
        script = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
        answer = subprocess.run(
            [str(python_of(self.folder)), "-c", script],
            capture_output=True,
            text=True,
            env=own_environment(),
        )
        if answer.returncode:
            raise self._error(f"{package} was not installed")
        return answer.stdout.strip()

    def _error(self, reason: str) -> ToolchainError:
        return ToolchainError(f"{reason}. The whole log is in {self.log}")

    def _run(self, command: Sequence[str]) -> str | None:
        """Return None if `command` succeeds, else its output.

        Raises RunInterrupted after a signal.
        """
        lines: list[str] = []
        with (
            self._interrupts.deferred(self._kill),
            self.log.open("a", encoding="utf-8") as log,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=own_environment(),
                # Ctrl-C in the terminal is for this process, which ends pip properly.
                start_new_session=True,
                preexec_fn=die_with_parent,
            ) as process,
        ):
            self._process = process
            # The signal may have come while the process was being started.
            if self._interrupts.were_requested():
                self._kill()
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                lines.append(line)
                self._tell(line)
        self._process = None
        if self._interrupts.were_requested():
            raise RunInterrupted("stopped")
        return "".join(lines) if process.returncode else None

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _tell(self, line: str) -> None:
        if match := _BIG_DOWNLOAD.match(line):
            self._notify(LogMessage(text=f"downloading {match[1]} ({match[2]})"))
        elif line.startswith("Installing collected packages"):
            self._notify(LogMessage(text=f"unpacking {counted(line.count(',') + 1, 'package')}"))


def own_environment() -> dict[str, str]:
    """Return the variables of this process without those that make pip use other packages."""
    return {name: text for name, text in os.environ.items() if name not in _FOREIGN_VARIABLES}


def _check_version(torch: str | None) -> None:
    minimum = next(item for item in declared_requirements() if package_name(item) == TORCH)
    oldest = tuple(int(part) for part in re.findall(r"\d+", minimum)[:2])
    if torch is None:
        return
    match = re.match(r"(\d+)\.(\d+)", torch)
    if match is None:
        raise ToolchainError(f"{torch!r} is no version of torch; write it like 2.12.0", torch=torch)
    if (int(match[1]), int(match[2])) < oldest:
        text = ".".join(map(str, oldest))
        raise ToolchainError(
            f"torch {torch} is too old: torch {text} or newer can be measured", torch=torch
        )


def _python_version(python: Path) -> tuple[int, int]:
    """Return the version of `python`; raise ToolchainError unless a toolchain supports it."""
    try:
        answer = subprocess.run(
            [str(python), "-c", _PROBE], capture_output=True, text=True, env=own_environment()
        )
    except OSError as error:
        raise ToolchainError(
            f"cannot start {python}: {error.strerror}", python=python, reason=error.strerror
        ) from error
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or [f"it ended with code {answer.returncode}"]
        raise ToolchainError(
            f"{python} cannot create virtual environments ({lines[-1]}); on Debian:"
            " apt-get install python3-venv",
            python=python,
        )
    major, minor = (int(part) for part in answer.stdout.split())
    if (major, minor) < MIN_PYTHON:
        text = ".".join(map(str, MIN_PYTHON))
        raise ToolchainError(
            f"{python} is Python {major}.{minor}; a toolchain needs {text} or newer",
            python=python,
            major=major,
            minor=minor,
        )
    return major, minor
