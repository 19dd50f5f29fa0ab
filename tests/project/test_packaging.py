"""pyproject.toml, constraints.txt and the images agree, and the extras keep their promises."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.sources import module_of, text_of

PROJECT = tomllib.loads(text_of("pyproject.toml"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PINS = {
    canonicalize_name(name): version
    for name, version in (
        line.split("==")
        for line in text_of("constraints.txt").splitlines()
        if not line.startswith("#")
    )
}
# What a CUDA build of torch brings is pinned by torch itself.
PINNED_BY_TORCH = re.compile(r"nvidia-.*|cuda-.*|triton")


MAX_ENTRY_WORDS = 20


def requirements(extras: Iterable[str]) -> list[Requirement]:
    """Return what the project with `extras` asks for directly."""
    lines = [*PROJECT["dependencies"], *(line for name in extras for line in EXTRAS[name])]
    return [Requirement(line) for line in lines]


def closure(requirements: Iterable[Requirement]) -> set[str]:
    """Return the names of `wanted` and of all that they bring along, as installed here."""
    open_ends = list(requirements)
    seen: set[tuple[str, frozenset[str]]] = set()
    while open_ends:
        requirement = open_ends.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        for line in importlib.metadata.requires(name) or ():
            child = Requirement(line)
            marker = child.marker
            environments = [{"extra": extra} for extra in ("", *requirement.extras)]
            if marker is None or any(marker.evaluate(extra) for extra in environments):
                open_ends.append(child)
    return {name for name, _ in seen}


def extras_of_image(dockerfile: str) -> list[str]:
    """Return the extras that an image installs."""
    match = re.search(r'-e "\.\[([a-z,]+)\]"', text_of(dockerfile))
    assert match is not None
    return match[1].split(",")


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *sum(EXTRAS.values(), [])])
def test_every_dependency_is_pinned_within_its_range(line: str) -> None:
    requirement = Requirement(line)
    assert requirement.specifier.contains(PINS[canonicalize_name(requirement.name)])


def test_everything_that_comes_along_is_pinned() -> None:
    # What peers bring along is theirs, and `make install` leaves them out.
    names = closure(requirements([name for name in EXTRAS if name != "bench"]))
    assert len(names) > len(EXTRAS)
    # pip is what installs, and comes with the environment.
    left = names - set(PINS) - {"pip"}
    assert not {name for name in left if not PINNED_BY_TORCH.fullmatch(name)}


def test_pins_are_bare_versions() -> None:
    lines = [line for line in text_of("constraints.txt").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9a-z.]+", line)] == []
    assert lines == sorted(lines, key=str.lower)


def test_makefile_installs_the_pinned_torch() -> None:
    assert f"TORCH ?= torch=={PINS['torch']}\n" in text_of("Makefile")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_runner_image_installs_the_pinned_torch(kind: str) -> None:
    assert f"ARG TORCH=torch=={PINS['torch']}\n" in text_of(f"docker/runner-{kind}.Dockerfile")


def test_closure_follows_what_packages_bring_along() -> None:
    assert {"torch", "sympy", "mpmath"} <= closure(requirements(["zoo"]))


def test_dashboard_image_has_no_torch() -> None:
    extras = extras_of_image("docker/dashboard.Dockerfile")
    assert "app" in extras
    assert not closure(requirements(extras)) & {"torch", "transformers", "diffusers"}


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_runner_image_has_no_streamlit(kind: str) -> None:
    extras = extras_of_image(f"docker/runner-{kind}.Dockerfile")
    assert {"runner", "zoo"} <= set(extras)
    assert "streamlit" not in closure(requirements(extras))


def changelog() -> dict[str, str]:
    """Return the text of each version of the changelog, the newest first."""
    sections: dict[str, str] = module_of(".ci/release_notes.py").sections(text_of("CHANGELOG.md"))
    return sections


def test_changelog_begins_with_what_is_unreleased() -> None:
    assert [*changelog()][:2] == ["Unreleased", PROJECT["version"]]


@pytest.mark.parametrize("version", changelog())
def test_entries_of_the_changelog_have_a_kind_and_are_short(version: str) -> None:
    kind, num_words = "", []
    for line in changelog()[version].splitlines():
        if line.startswith("### "):
            kind = line.removeprefix("### ")
            assert kind in {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
        elif line.startswith("- "):
            assert kind, line
            num_words.append(len(line.split()) - 1)
    assert max(num_words, default=0) <= MAX_ENTRY_WORDS
    assert num_words or version == "Unreleased"


def test_licence_is_the_declared_one() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in text_of("LICENSE")
