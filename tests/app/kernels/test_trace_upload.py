"""A trace file that a person opens on the page of kernels: who may, and what it may be."""

from __future__ import annotations

import errno
import gzip
import json
import os
import resource
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.auth import access
from compile_hud.app.auth.middleware import _UPLOADS
from compile_hud.app.views.kernels import trace_files, trace_upload
from compile_hud.app.views.kernels.trace_files import MAX_UPLOAD_MB, TraceFileError, read_trace_file
from compile_hud.db.shared.access_rules import Person, Role
from tests.app.conftest import OpenPage, SignIn
from tests.support.builders import make_kernel
from tests.support.pages.page_elements import html_of, texts_of
from tests.support.records.traces import launch, on_gpu, operator

EVENTS = [
    operator("aten::mm", 0, 20, dims=[[8, 48], [48, 80]]),
    launch(1, 5),
    on_gpu("ampere_sgemm_64x32", 40, 70, correlation=1),
    on_gpu("elementwise_kernel", 80, 90, correlation=1),
]
TRACE = json.dumps({"traceEvents": EVENTS}).encode()


def test_the_kernels_of_a_trace_are_read_by_a_process_of_its_own() -> None:
    plain = read_trace_file("mine.json", TRACE)
    packed = read_trace_file("mine.json.gz", gzip.compress(TRACE))
    assert plain.kernels == packed.kernels
    assert [kernel.name for kernel in plain.kernels] == ["ampere_sgemm_64x32", "elementwise_kernel"]
    assert plain.profile.num_iterations == 1


def test_more_kernels_than_a_page_shows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MAX_KERNELS", 1)
    trace = read_trace_file("mine.json", TRACE)
    assert (len(trace.kernels), trace.num_kernels) == (1, 2)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.json", b""),
        ("text.json", b"no trace at all"),
        ("cut.json", TRACE[:-40]),
        ("cut.json.gz", gzip.compress(TRACE)[:-9]),
        ("other.json", b'{"schema_version": 1, "run": {}}'),
        ("nothing.json", b'{"traceEvents": []}'),
        ("../../etc/<b>\x1b[31m\n" + "x" * 300 + ".json", b"{}"),
    ],
)
def test_what_is_no_trace_is_one_error_with_its_own_name(
    name: str, content: bytes, words: SnapshotAssertion
) -> None:
    with pytest.raises(TraceFileError) as caught:
        read_trace_file(name, content)
    text = str(caught.value)
    assert "\n" not in text
    assert "\x1b" not in text
    assert "/tmp" not in text
    assert text == words


@pytest.mark.parametrize(
    ("code", "timeout_s"),
    [
        ("import time; time.sleep(60)", 0.5),
        ("x = bytearray(6 << 30)", 20.0),
        ("import sys; print('[]')", 20.0),
        ("import os; os.kill(os.getpid(), 9)", 20.0),
    ],
)
def test_a_reader_that_hangs_grows_or_dies_costs_one_answer(
    monkeypatch: pytest.MonkeyPatch, code: str, timeout_s: float, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(trace_files, "COMMAND", (sys.executable, "-c", code))
    with pytest.raises(TraceFileError) as caught:
        read_trace_file("mine.json", TRACE, timeout_s=timeout_s)
    assert str(caught.value) == words


def test_a_full_disk_is_one_error_and_frees_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_path: Path, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(TraceFileError, match=os.strerror(errno.ENOSPC)):
            read_trace_file("mine.json", TRACE)
    assert read_trace_file("mine.json", TRACE).num_kernels == 2


def test_a_reader_takes_no_more_than_the_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = trace_files.MAX_MEMORY_BYTES // 2
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (hard, hard))
    limits = []
    prlimit = resource.prlimit
    monkeypatch.setattr(
        resource,
        "prlimit",
        lambda pid, which, both: (limits.append(both), prlimit(pid, which, both)),
    )
    assert read_trace_file("mine.json", TRACE).num_kernels == 2
    assert limits == [(hard, hard)]


def test_one_trace_is_read_at_a_time() -> None:
    with trace_files._reading, pytest.raises(TraceFileError):
        read_trace_file("mine.json", TRACE, timeout_s=0.01)


def test_the_limit_of_a_file_is_that_of_the_server() -> None:
    settings = Path(trace_files.__file__).parents[2] / ".streamlit" / "config.toml"
    assert f"\nmaxUploadSize = {MAX_UPLOAD_MB}\n" in settings.read_text()


@pytest.mark.parametrize(
    ("person", "is_allowed"),
    [
        (Person(), False),
        (Person(role=Role.ADMIN), False),
        (Person(name="v", role=Role.VIEWER, session="s"), False),
        (Person(name="t", role=Role.TRIAGER, session="s"), True),
        (Person(name="a", role=Role.ADMIN, session="s"), True),
    ],
)
def test_a_file_takes_a_sign_in_and_a_role(person: Person, is_allowed: bool) -> None:
    assert access.may_upload(person) is is_allowed


@pytest.mark.parametrize(("name", "has_upload"), [("vera", False), ("tom", True)])
@pytest.mark.usefixtures("seeded")
def test_the_page_offers_the_upload_to_triagers(
    sign_in: SignIn, open_page: OpenPage, name: str, has_upload: bool
) -> None:
    sign_in(name)
    page = open_page("kernels")
    assert not page.exception
    assert bool(page.file_uploader) is has_upload


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are read, each by this process."""
    names: list[str] = []

    def read(name: str, content: bytes) -> trace_files.TraceFile:
        names.append(name)
        if content != TRACE:
            raise TraceFileError(f"{name} is no trace")
        return trace_files.TraceFile(
            name=name,
            device="NVIDIA H100",
            kernels=(make_kernel(), make_kernel("second")),
            num_kernels=5,
            profile=trace_files.Profile(
                num_iterations=3, iteration_s=0.02, latency_s=None, components={"gemm": 0.02}
            ),
        )

    monkeypatch.setattr(trace_upload, "read_trace_file", read)
    return names


@pytest.mark.usefixtures("seeded")
def test_the_kernels_of_the_file_are_shown_and_nothing_is_read_twice(
    sign_in: SignIn, open_page: OpenPage, reading: list[str], words: SnapshotAssertion
) -> None:
    sign_in("tom")
    page = open_page("kernels")
    page.file_uploader[0].set_value(("<b>.json", TRACE, "application/json"))
    page.run()
    page.run()
    assert not page.exception
    assert reading == ["<b>.json"]
    assert "<b>.json" not in html_of(page)
    assert "&lt;b&gt;.json" in html_of(page)
    assert texts_of(page, "caption") == words


@pytest.mark.usefixtures("seeded", "reading")
def test_a_broken_file_is_one_banner(sign_in: SignIn, open_page: OpenPage) -> None:
    sign_in("tom")
    page = open_page("kernels")
    page.file_uploader[0].set_value(("broken.json", b"{", "application/json"))
    page.run()
    assert not page.exception
    assert "broken.json is no trace." in texts_of(page, "notice")


def test_the_address_of_uploads_is_the_one_of_streamlit() -> None:
    from streamlit.web.server.starlette import starlette_routes

    source = Path(starlette_routes.__file__).read_text(encoding="utf-8")
    assert _UPLOADS.removeprefix("/") in source
