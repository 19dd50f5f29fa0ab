"""A release has one version everywhere, notes for its readers, and a workflow that a tag starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support.sources import ROOT, module_of, text_of

NOTES = module_of(".ci/release_notes.py")
FILES = ("pyproject.toml", "docker-compose.yml", "CITATION.cff", "CHANGELOG.md")
WORKFLOW = yaml.safe_load(text_of(".github/workflows/release.yml"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the files of version 1.2.3."""
    texts = {
        "pyproject.toml": '[project]\nversion = "1.2.3"\n',
        "docker-compose.yml": "services:\n  a:\n    image: compile-hud-a:1.2.3\n",
        "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\n",
        "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n\n"
        "### Added\n\n- One.\n\n## [1.2.2] - 2026-01-01\n\n- Old.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_file_names_the_version_of_the_project() -> None:
    (version,) = set(NOTES.versions(ROOT).values())
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert NOTES.notes(ROOT, tag=f"v{version}")


def test_notes_are_the_section_of_the_tag(project: Path) -> None:
    assert NOTES.notes(project, tag="v1.2.3") == "### Added\n\n- One."


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_version_stops_the_release(project: Path, name: str) -> None:
    path = project / name
    path.write_text(path.read_text().replace("1.2.3", "1.2.4"), encoding="utf-8")
    with pytest.raises(ValueError, match=f"{name} has 1.2.4"):
        NOTES.notes(project, tag="v1.2.3")


def test_a_release_without_notes_is_refused(project: Path) -> None:
    path = project / "CHANGELOG.md"
    path.write_text("## [1.2.3]\n\n## [1.2.2]\n\n- Old.\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"nothing under version 1\.2\.3"):
        NOTES.notes(project, tag="v1.2.3")


def test_a_tag_starts_the_workflow_and_its_steps_are_there() -> None:
    # PyYAML reads the key `on` as true.
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}
    jobs = WORKFLOW["jobs"]
    assert jobs["publish"]["needs"] == ["build", "images"]
    images = jobs["images"]["strategy"]["matrix"]["name"]
    assert all((ROOT / "docker" / f"{name}.Dockerfile").is_file() for name in images)
    made = {path.name.removesuffix(".Dockerfile") for path in ROOT.glob("docker/*.Dockerfile")}
    assert made == set(images)
    scripts = " ".join(step.get("run", "") for step in jobs["build"]["steps"])
    assert "make dist" in scripts
    assert "release_notes.py" in scripts


def test_only_the_jobs_that_publish_may_write() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    writing = {
        name
        for name, job in WORKFLOW["jobs"].items()
        if "write" in job.get("permissions", {}).values()
    }
    assert writing == {"images", "publish"}
