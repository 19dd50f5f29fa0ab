"""The links of a summary of two commits."""

from __future__ import annotations

from compile_hud.runner.cli.compare.commit_markdown import job_link


def test_the_link_leads_to_the_job() -> None:
    github = {
        "GITHUB_SERVER_URL": "https://git.example.org",
        "GITHUB_REPOSITORY": "me/models",
        "GITHUB_RUN_ID": "17",
    }
    assert job_link(github) == "https://git.example.org/me/models/actions/runs/17"
    assert job_link({"CI_JOB_URL": "https://gitlab.example.org/1"}).endswith("/1")
    assert job_link({"GITHUB_REPOSITORY": "me/models"}) == ""
