"""`--json`: standard output of every command is one JSON document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import click
import pytest

from compile_hud.db.alerts.annotations import EVERYTHING, new_annotation
from compile_hud.db.shared.local_sign_in import write_link
from compile_hud.runner.cli.main import main
from compile_hud.runner.doctor.check import Check, CheckState
from tests.support.builders import (
    START,
    make_alert,
    make_document,
    make_kernel,
    make_result,
    make_run,
)
from tests.support.records.traces import on_gpu, write_trace
from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

# What `hud annotate add` makes of the words below.
ANNOTATION = new_annotation(
    "driver",
    at=datetime(2030, 1, 1, tzinfo=timezone.utc),
    pattern=EVERYTHING,
    by="ada",
    made_at=START,
)
# Each is typed after those before it; `latest` is the run of the fixture.
COMMANDS = (
    "list models",
    "list modes",
    "list shapes",
    "list suites",
    "list metrics",
    "list toolchains",
    "sign-in",
    "toolchain list",
    "study list",
    "runs",
    "show latest",
    "show latest eager",
    "modes",
    "trends",
    "compare out.json out.json",
    "kernels show kernels.json bert",
    "kernels diff rank0.json rank1.json",
    "kernels ranks rank0.json rank1.json",
    "kernels series run-1 bert",
    "kernels counters run-1 bert counters.csv",
    "compiles trace.log",
    "regressions",
    "alerts list --owner nobody",
    "alerts show aaa1",
    "alerts ack aaa1",
    "alerts comment aaa1 --why seen",
    "alerts expect */* --from none",
    "alerts noise aaa1",
    "alerts reopen aaa1",
    "alerts assign aaa1 ada",
    "alerts mute aaa1 --until 2030-01-01",
    "alerts floor */* none",
    "alerts series",
    "alerts outbox",
    "alerts send",
    "alerts resend",
    "alerts test",
    "alerts digest --dry-run",
    "alerts log",
    "alerts replay log.json",
    "annotate add 2030-01-01 driver --by ada",
    "annotate list",
    f"annotate remove {ANNOTATION.id}",
    "annotate replay said.json",
    "ingest out.json",
    "import records.json broken.json",
    "detect",
    "study run moe",
    "doctor",
    "db check",
)
# These need revisions, toolchains or a finding: their own tests read their JSON.
SHOWN_ELSEWHERE = {
    "alerts verify",
    "backfill",
    "bisect",
    "isolate",
    "kernels transplant",
    "release",
    "try",
}


def commands_with_json(group: click.Group, *names: str) -> Iterator[str]:
    """Yield the commands that take `--json` as a flag, as one types them."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_with_json(command, *names, name)
        elif any(option.name == "as_json" for option in command.params):
            yield " ".join((*names, name))


def test_every_command_that_takes_json_is_typed_here() -> None:
    missing = [
        command
        for command in commands_with_json(main)
        if not any(typed == command or typed.startswith(f"{command} ") for typed in COMMANDS)
    ]
    assert set(missing) == SHOWN_ELSEWHERE


def test_json_stands_alone_on_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = Check(name="torch", state=CheckState.FAIL, text="none", hint="install it")
    monkeypatch.setattr("compile_hud.runner.cli.doctor.run_checks", lambda **_: iter([failed]))
    terminal = Terminal(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "log.json").write_text("[]")
    (tmp_path / "said.json").write_text("[]")
    older = make_run(started_at=START - timedelta(days=1))
    with_kernels = make_document(older, results=[make_result(kernels=[make_kernel()])])
    (tmp_path / "kernels.json").write_text(json.dumps(with_kernels.to_json()))
    terminal.hud("ingest", "kernels.json")
    (tmp_path / "counters.csv").write_text(
        'ID,Kernel Name,dram__bytes.sum\n"","",byte\n0,cpp_fused_add_0,8\n'
    )
    start = {"dynamo_start": {"stack": []}, "frame_id": 0, "frame_compile_id": 0}
    (tmp_path / "trace.log").write_text(f"V0102 03:04:05.6 7 torch/x.py:8] {json.dumps(start)}\n")
    for rank in range(2):
        distributed = {"rank": rank, "world_size": 2}
        kernel = on_gpu("triton_poi_fused_add_0", 0, 10, correlation=1)
        write_trace(tmp_path / f"rank{rank}.json", [kernel], distributedInfo=distributed)
    write_lines(tmp_path / "records.json", [make_record("ttft_ms", 12.0)])
    result = terminal.hud("run", "--suite", "mine", "--json", "-")
    (tmp_path / "out.json").write_text(result.stdout)
    save_alerts(terminal.store(), [make_alert("aaa1")])
    write_link(tmp_path / ".hud", "http://127.0.0.1:8501/sign-in?token=x", port=8501)
    exit_codes = {}
    for command in COMMANDS:
        result = terminal.hud(*command.split(), "--json")
        assert isinstance(json.loads(result.stdout), list | dict), command
        exit_codes[command.split()[0]] = result.exit_code
    assert [name for name, code in exit_codes.items() if code] == ["import", "doctor"]
