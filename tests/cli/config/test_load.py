from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.load import (
    Config,
    demo_store_url,
    find_line,
    load_config,
    parse_config,
)
from compile_hud.runner.config.schema import SETTINGS
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.persistence.trace_retention import TraceRules
from compile_hud.runner.planning.suites import BUILTIN_SUITES

PATH = Path("/project/hud.toml")


def parse(content: str, **env: str) -> Config:
    return parse_config(content, path=PATH, env=env)


def test_without_a_file_everything_has_a_default() -> None:
    config = parse_config("", path=None, env={})
    assert config.store_url == "duckdb:///.hud/store.duckdb"
    assert config.state_dir == Path(".hud")
    assert config.toolchains == {"current": Path(sys.executable)}
    assert config.suites == BUILTIN_SUITES
    assert config.schedules == {}
    assert (config.host, config.port) == ("127.0.0.1", 8501)
    assert config.machine


def test_every_section_is_read() -> None:
    config = parse("""
        [store]
        url = "postgresql+psycopg://hud@db/hud"
        [machine]
        name = "box-7"
        [run]
        launches = 5
        rounds = 7
        max_launches = 9
        target_interval = 0.05
        budget_s = 2
        threads = 4
        timeout_s = 60
        memory_limit = "8 GB"
        memory_snapshot = true
        [toolchains]
        nightly = "envs/nightly/bin/python"
        installed = "python3.13"
        [suites.mine]
        models = "bert"
        modes = ["eager", "default"]
        shape = ["tiny", "auto"]
        launches = 2
        max_launches = 3
        target_interval = 0
        time_budget = "1.5 h"
        [schedules.night]
        cron = "30 2 * * mon-fri"
        timezone = "Europe/Berlin"
        suite = "mine"
        toolchain = "nightly"
        [server]
        port = 0
    """)
    assert config.store_url == "postgresql+psycopg://hud@db/hud"
    assert config.machine == "box-7"
    assert config.measure.num_launches == 5
    assert config.measure.num_rounds == 7
    assert config.measure.max_launches == 9
    assert config.measure.target_interval == 0.05
    assert config.measure.budget_s == 2.0
    assert config.measure.num_threads == 4
    assert config.measure.timeout_s == 60.0
    assert config.measure.memory_limit_bytes == 8_000_000_000
    assert config.measure.memory_snapshot is True
    assert config.toolchains["nightly"] == Path("/project/envs/nightly/bin/python")
    assert config.toolchains["installed"] == Path("python3.13")
    assert config.suites["mine"].selection.models == ("bert",)
    assert config.suites["mine"].selection.shapes == ("tiny", "auto")
    assert config.suites["mine"].time_budget_s == 5400.0
    own = config.suites["mine"].settings(config.measure)
    assert (own.num_launches, own.max_launches, own.target_interval) == (2, 3, 0.0)
    assert (own.num_rounds, own.budget_s) == (7, 2.0)
    assert config.schedules["night"].timezone == "Europe/Berlin"
    assert config.schedules["night"].toolchain == "nightly"
    assert config.port == 0


def test_state_and_store_are_beside_the_file() -> None:
    config = parse('[paths]\nstate = "state"')
    assert config.state_dir == Path("/project/state")
    assert config.store_url == "duckdb:////project/state/store.duckdb"


def test_traces_are_beside_a_store_that_is_a_file() -> None:
    config = parse('[traces]\nnights = 3\nmax_size = "5 MB"')
    assert config.traces_dir == Path("/project/.hud/store.duckdb.traces")
    assert config.trace_rules == TraceRules(num_nights=3, max_bytes=5_000_000)
    other = replace(config, store_url="duckdb:///other.duckdb")
    assert other.traces_dir == Path("other.duckdb.traces")


@pytest.mark.parametrize("url", ["postgresql+psycopg://host/hud", "duckdb:///:memory:"])
def test_traces_beside_no_file_need_a_folder(url: str) -> None:
    assert parse(f'[store]\nurl = "{url}"').traces_dir is None
    named = parse(f'[store]\nurl = "{url}"\n[traces]\nfolder = "shared"')
    assert named.traces_dir == Path("/project/shared")


def test_the_environment_wins() -> None:
    config = parse(
        '[store]\nurl = "duckdb:///a.duckdb"\n[paths]\nstate = "b"',
        HUD_DATABASE_URL="duckdb:///c.duckdb",
        HUD_STATE_DIR="/d",
    )
    assert config.store_url == "duckdb:///c.duckdb"
    assert config.state_dir == Path("/d")


def test_the_demo_store_is_another_one() -> None:
    config = parse("")
    assert demo_store_url(config.state_dir) != config.store_url


def test_an_own_model_is_in_the_catalog_beside_the_zoo() -> None:
    config = parse("""
        [models.ours]
        build = "nets/ours.py:make"
        num_samples = 8
        [models.packaged]
        build = "ours.nets:make"
        phases = "inference"
        tolerance = { bf16 = { min_cosine = 0.9, max_rmse_ratio = 5 } }
    """)
    ours, packaged = config.catalog["ours"], config.catalog["packaged"]
    assert ours.build == "/project/nets/ours.py:make"
    assert ours.sizes["default"].num_samples == 8
    assert packaged.build == "ours.nets:make"
    assert packaged.phases == ("inference",)
    assert ours.tolerance == {}
    assert packaged.tolerance["bf16"].set_fields == {"min_cosine": 0.9, "max_rmse_ratio": 5}
    assert "bert" in config.catalog


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[run]\nlanches = 3", "line 2: [run] lanches: unknown key; did you mean launches or "),
        ("[run]\nLAUNCHES = 3", "unknown key; did you mean launches or "),
        ("\n\n[rnu]\nx = 1", "line 3: [rnu]: unknown section; did you mean run"),
        (
            "zzz = 1",
            "[zzz]: unknown section; there is store, paths, traces, outbox, samples, machine",
        ),
        ("run = 1", "[run]: must be a section, write [run] on its own line"),
        ("[suites]\nmine = 1", "[suites.mine]: must be a section"),
        ("[run]\nlaunches = 0", "line 2: [run] launches: got 0, takes a whole number, 1 or more"),
        ("[run]\nlaunches = true", "got True, takes a whole number"),
        ("[run]\nbudget_s = -1.5", "got -1.5, takes a number of seconds above 0"),
        ("[run]\ntarget_interval = 1", "got 1, takes a share from 0 up to but not 1"),
        ("[run]\ntarget_interval = true", "got True, takes a share from 0"),
        ("[run]\nbudget_s = nan", "got nan, takes a number of seconds above 0"),
        ("[run]\ntimeout_s = inf", "got inf, takes a number of seconds above 0, at most 604800"),
        ("[suites.a]\nbudget_s = 604801", "got 604801, takes a number of seconds above 0, at"),
        ('[run]\nmemory_limit = "8 XB"', "got '8 XB', takes a number of bytes above 0 or a text"),
        ("[run]\nmemory_limit = 0", "got 0, takes a number of bytes"),
        ('[suites.x]\ntime_budget = "2 days"', "takes a number of seconds above 0, at most 604800"),
        ("[suites.x]\ntime_budget = 0", 'or a text such as "90 min" or "2 h"'),
        ('[suites.x]\ntime_budget = "999 h"', "got '999 h', takes a number of seconds above 0"),
        ("[server]\nport = 99999", "got 99999, takes a port, 0 to 65535"),
        ("[server]\nperfetto = 'javascript:x'", "got 'javascript:x', takes an address such as"),
        (
            '[server]\nurl = "https://me:password@hud.example"',
            'line 2: [server] url: takes an address such as "https://name.example.org", without',
        ),
        ('[store]\nurl = ""', "got '', takes a text that is not empty"),
        ("[toolchains]\nnight = 3", "line 2: [toolchains] night: takes the path of a Python"),
        ("[suites.a]\nmodels = []", "[suites.a] models: got [], takes a text or a list of texts"),
        ("[suites.a]\nmodels = [1]", "takes a text or a list of texts"),
        ('[suites.a]\nphases = "train"', "takes one or more of inference, training"),
        ('[suites.a]\ndtypes = "fp8"', "takes one or more of fp32, tf32, bf16, bf16-autocast,"),
        ('[schedules.n]\nsuite = "tiny"', "line 1: [schedules.n]: takes one of cron, at and watch"),
        ('[schedules.n]\ncron = "0 0 * *"', "takes five cron fields"),
        ('[schedules.n]\ncron = "0 0 * * 1"', "takes a cron text with weekdays as names"),
        ('[schedules.n]\ncron = "0 25 * * *"', "takes five cron fields"),
        (
            '[schedules.n]\ncron = "0 1 * * *"\ntimezone = "Berlin"',
            "line 3: [schedules.n] timezone: got 'Berlin', takes a time zone",
        ),
        (
            '[schedules.n]\ncron = "0 1 * * *"\nsuite = "nighly"',
            "line 3: [schedules.n] suite: no suite 'nighly'; did you mean nightly?",
        ),
        (
            '[schedules.n]\ncron = "0 1 * * *"\ntoolchain = "x"',
            "line 3: [schedules.n] toolchain: no toolchain 'x'; there is current",
        ),
        ('[models.bert]\nbuild = "x"', "line 1: [models.bert]: the zoo has a model of that name"),
        *(
            (f'[models.x]\nbuild = "x"\ntolerance = {value}', "takes a table of fp32, tf32, bf16")
            for value in (
                "0.9",
                "{ fp8 = {} }",
                "{ bf16 = 0.9 }",
                "{ bf16 = { cosine = 0.9 } }",
                "{ bf16 = { min_cosine = true } }",
                "{ bf16 = { min_cosine = -0.1 } }",
                "{ bf16 = { min_cosine = 1.1 } }",
                "{ bf16 = { max_rmse_ratio = inf } }",
            )
        ),
        ("[models.x]", "line 1: [models.x]: build is missing"),
    ],
)
def test_a_mistake_is_named_with_line_and_key(content: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content)
    assert str(caught.value).startswith("/project/hud.toml")
    assert message in str(caught.value)


def test_a_syntax_error_is_named_with_its_line(words: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("[run]\nlaunches = = 3\n")
    assert str(caught.value) == (words)


def test_a_syntax_error_at_the_end_is_said() -> None:
    with pytest.raises(ConfigError, match="hud.toml: not valid TOML: .*end of document"):
        parse('[run]\nlaunches = "')


def test_a_key_is_found_in_its_own_section() -> None:
    content = '[a]\nkey = 1\n[ b . "c" ] # why\n"key" = 2\n'
    assert find_line(content, section="a", key="key") == 2
    assert find_line(content, section="b.c", key="key") == 4
    assert find_line(content, section="b.c") == 3
    assert find_line(content, section="d", key="key") is None


def test_sizes_have_units() -> None:
    for text, size in [("1024", 1024), ("2 kb", 2000), ("1.5G", 1_500_000_000)]:
        config = parse(f'[run]\nmemory_limit = "{text}"')
        assert config.measure.memory_limit_bytes == size


def test_every_setting_says_what_it_is() -> None:
    assert all(row.description.endswith(".") for row in SETTINGS)
    places = [(row.section, row.key) for row in SETTINGS]
    assert len(places) == len(set(places))


def test_reference_cases_are_measured_unless_said_otherwise() -> None:
    assert parse("").has_references
    assert not parse("[run]\nreference_cases = false").has_references
    with pytest.raises(ConfigError, match="takes true or false"):
        parse("[run]\nreference_cases = 1")


def test_a_model_can_neither_be_named_nor_filed_as_a_reference_case() -> None:
    with pytest.raises(ConfigError, match="the zoo has a model of that name"):
        parse('[models.ref_gemm]\nbuild = "own"')
    with pytest.raises(ConfigError, match="is that of the reference cases"):
        parse('[models.own]\nbuild = "own"\nfamily = "reference"')


@pytest.mark.parametrize("section", ["run", "suites.mine"])
def test_no_more_launches_are_asked_for_than_there_may_be(section: str) -> None:
    with pytest.raises(ConfigError, match=r"max_launches: got 2, fewer than launches = 4; takes 4"):
        parse(f"""
            [{section}]
            launches = 4
            max_launches = 2
        """)


def test_of_the_numbers_of_launches_a_default_gives_way() -> None:
    assert parse("[run]\nlaunches = 9").measure.num_launches == 9
    assert parse("[run]\nmax_launches = 2").measure.max_launches == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[machine]\nname = '\xff'", "byte 18 is no UTF-8. Save the file as UTF-8"),
        (None, "it is a folder. Name the file in it"),
    ],
)
def test_settings_that_cannot_be_read_say_why_and_what_to_do(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "hud.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(f"in {path}: {message}")):
        load_config(path, env={})
