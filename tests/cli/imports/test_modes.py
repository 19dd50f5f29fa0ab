"""`hud import`: the fields of a record that say whether torch.compile is in use."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.series import find_series
from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores.imports import import_records, only_result, runs
from tests.support.terminal import Terminal


def engine_record(
    value: float = 4.0,
    *,
    night: int = 0,
    backend: str = "",
    args: dict[str, Any] | None = None,
    **about: Any,
) -> dict[str, Any]:
    """Return a record of a benchmark of an engine, with these fields of its benchmark."""
    record = make_record("ttft_ms", value, model="org/moe-3b", night=night)
    record["benchmark"]["extra_info"] = {"args": args or {}, **about}
    record["model"]["backend"] = backend
    return record


@pytest.mark.parametrize(
    ("fields", "mode"),
    [
        ({"use_compile": True}, "default"),
        ({"use_compile": False}, "eager"),
        ({"use_compile": "False"}, "eager"),
        ({"use_compile": 1}, "default"),
        ({"args": {"torch_compile": False}}, "eager"),
        ({"args": {"enable_torch_compile": True}}, "default"),
        ({"args": {"enforce_eager": True}}, "eager"),
        ({"args": {"enforce_eager": False}}, "unknown"),
        ({"compilation_config.mode": "0"}, "eager"),
        ({"compilation_config.level": 3}, "default"),
        ({"compilation_config.level": "9" * 5000}, "default"),
        ({"use_compile": True, "compilation_config.mode": "0"}, "default"),
        ({"use_compile": "maybe"}, "unknown"),
        ({"use_compile": None}, "unknown"),
        ({"use_compile": False, "backend": "inductor"}, "eager"),
        ({"use_compile": True, "backend": "xla"}, "xla-default"),
        ({"use_compile": False, "backend": "xla"}, "xla-eager"),
        ({"use_compile": True, "compile_mode": "max_autotune"}, "max-autotune"),
        ({"use_compile": False, "compile_mode": "max_autotune"}, "eager"),
        ({"use_compile": False, "compiler": "tensorrt"}, "tensorrt"),
        ({"compile": "xla", "backend": "xla"}, "xla"),
    ],
)
def test_a_flag_for_the_compiler_is_the_mode(
    terminal: Terminal, fields: dict[str, Any], mode: str
) -> None:
    import_records(terminal, engine_record(**fields))
    case = only_result(terminal).case
    assert (case.mode, case.variant) == (mode, mode)


@pytest.mark.parametrize(
    ("compiled", "eager"),
    [
        ({"use_compile": True}, {"use_compile": False}),
        ({"args": {"compiled": "true"}}, {"args": {"compiled": "false"}}),
        ({"compilation_config.mode": 1}, {"compilation_config.mode": 0}),
    ],
)
def test_eager_and_compiled_are_two_series_and_the_slower_one_is_reported(
    terminal: Terminal, compiled: dict[str, Any], eager: dict[str, Any]
) -> None:
    records = []
    for night in range(20):
        noise = 1 + 0.005 * (night % 3)
        slower = 1.35 if night >= 11 else 1.0
        records.append(engine_record(8.0 * noise * slower, night=night, **compiled))
        records.append(engine_record(14.0 * noise, night=night, **eager))
    report = import_records(terminal, *records)
    assert report["mixed"] == {}
    headers = find_series(terminal.store(), metric="ttft_ms")
    levels = {item.case.mode: (item.num_points, round(item.last_value)) for item in headers}
    assert levels == {"default": (20, 11), "eager": (20, 14)}
    assert terminal.hud("detect").exit_code == 0
    (alert,) = terminal.json("regressions", "--state", "all", "--json")
    assert alert["mode"] == "default"
    assert alert["change_pct"] == pytest.approx(35, abs=2)


def test_backends_with_one_flag_stay_several_cases(terminal: Terminal) -> None:
    backends = ("inductor", "xla", "tensorrt")
    import_records(
        terminal,
        *(engine_record(use_compile=True, backend=backend) for backend in backends),
    )
    (document,) = runs(terminal)
    assert len(document.results) == 3


def test_a_flag_that_decides_no_mode_is_counted(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    records = [
        engine_record(float(number), variant="base", use_compile=bool(number % 2))
        for number in range(1, 4)
    ]
    write_lines(terminal.folder / "records.json", records)
    lines = terminal.hud("import", "records.json").stdout.splitlines()
    assert [line for line in lines if "use_compile" in line] == words
