"""Figures in the documents are those of the committed benchmark results."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean, mean, stdev
from typing import Any

from benchmarks.nights.simulation import FaultKind

ROOT = Path(__file__).parents[2]
MUST_BE_ZERO = ("num_lost", "num_not_sent", "num_out_of_order", "num_repeats_beyond_kills")


def words(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="ascii").split())


def result(name: str) -> Any:
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_figures_of_paired_comparisons_are_current() -> None:
    summary = result("precision_trials")["summary"]
    same, planted = summary["same_code"], summary["planted_5_percent"]
    text = words("docs/explanation/detection-measurements.md")
    seconds = [round(side["median_seconds"]) for side in (same, planted)]
    false = f"a verdict in {same['num_false_verdicts']} of {same['num_trials']}"
    assert f"| equal code | {false} | {seconds[0]} s |" in text
    found_text = f"found in {planted['num_found']} of {planted['num_trials']}, one inconclusive"
    assert f"| 5 % more work | {found_text} | {seconds[1]} s |" in text
    assert planted["undecided"] == 1


def test_figures_of_stored_runs_are_current() -> None:
    answers = result("answers_nights")["answers"]
    history, without = answers["history"], answers["no history"]
    text = words("docs/explanation/detection-measurements.md")

    def unchanged(name: str) -> str:
        return f"{100 * history[name]['unchanged_share']:.1f} %"

    assert f"latencies and speedups | {unchanged('latency and speedup')} unchanged" in text
    ordinary = unchanged("latency and speedup of ordinary series")
    assert f"without the noisy series | {ordinary} unchanged" in text
    compile_times = f"{unchanged('compile_cold_s')} and {unchanged('compile_warm_s')} unchanged"
    assert f"cold and warm compile times | {compile_times}" in text
    all_rows = history["all"]
    assert f"all {all_rows['num_comparisons']:,} comparisons with a history" in text
    coverage = f"{100 * all_rows['coverage']:.1f} % of intervals"
    assert f"| {all_rows['num_false']} false changes; {coverage}" in text
    assert f"without a history | {without['all']['num_false']} false changes" in text


def test_figures_of_imported_histories_are_current() -> None:
    cpu_s = {
        name: row["median_cpu_s"] for name, row in result("import_history")["histories"].items()
    }
    text = words("benchmarks/README.md")
    for name, word in (("records, 1 benchmark", "one"), ("records, 10 benchmarks", "ten")):
        after, before = cpu_s[name], cpu_s[f"{name}, before"]
        assert f"{after:.1f} with {word}" in text
        assert f"before {before:.1f})" in text
    assert f"{cpu_s['asv, 10 benchmarks']:.1f} for a" in text


def test_figures_of_the_repeatability_of_tools_are_current() -> None:
    summary = result("precision")["summary"]
    names = ("compile hud", "plain loop", "blocked_autorange", "pyperf", "interleaved loop")
    text = words("benchmarks/README.md")
    titles = {"eager_s": "eager latency", "compiled_s": "compiled latency", "speedup": "speedup"}
    for quantity, title in titles.items():
        over_models = summary[quantity]["over_models"]
        cells = " | ".join(f"{100 * over_models['cv'][name]:.1f} %" for name in names)
        assert f"| {title} | {cells} |" in text
        assert over_models["is_reached"]
    ratios = [summary[quantity]["over_models"]["ours_over_best"] for quantity in titles]
    assert "That is {:.2f}, {:.2f} and {:.2f} of the best tool".format(*ratios) in text
    cells = [row for over_models in summary.values() for row in over_models["models"].values()]
    num_missed = sum(not row["is_reached"] for row in cells)
    assert f"the goal is missed in {num_missed} of {len(cells)} comparisons" in text


def test_figures_of_latencies_without_machine_speed_are_current() -> None:
    estimates = [item for item in result("precision")["estimates"] if "shown" in item]
    shown = []
    for quantity in ("eager_s", "compiled_s"):
        by_model: dict[str, list[float]] = {}
        for item in estimates:
            by_model.setdefault(item["model"], []).append(item["shown"][quantity])
        shown.append(100 * geometric_mean(stdev(own) / mean(own) for own in by_model.values()))
    text = words("benchmarks/README.md")
    assert "our own latencies vary by {:.1f} and {:.1f} %".format(*shown) in text


def test_figures_of_the_cost_of_the_quick_suite_are_current() -> None:
    first, second = result("overhead")["starts"]
    text = words("benchmarks/README.md")
    assert (
        f"the second start of `quick` took {second['wall_s']:.0f} s, {second['ratio']:.2f} times"
        in text
    )
    assert second["ratio"] <= 1.15
    assert f"The first took {first['wall_s']:.0f} s, {first['ratio']:.2f} times it" in text
    assert f"{first['parts_s']['priming']:.1f} s of them for the precompiled header" in text
    assert f"counted as compiling it makes {first['ratio_with_header']:.2f}" in text


def test_figures_of_the_time_of_judging_are_current() -> None:
    figures = result("judge_speed")
    new, every = figures["one_new_night"], figures["all"]
    text = words("benchmarks/README.md")
    assert (
        f"{new['cpu_s']:.1f} s of CPU time for one new night, which took {new['wall_s']:.1f} s"
        f" there, and {every['cpu_s']:.1f} s for everything" in text
    )
    assert (figures["num_series"], figures["num_nights"]) == (10_000, 366)
    assert figures["are_identical"]
    assert new["wall_s"] < 10
    assert every["wall_s"] < 300
    look = figures["look"]
    assert (
        f"{look['followed_ms']:.2f} ms of CPU time in the mean of {look['num_looks']:,} looks at"
        f" {look['num_series']} histories" in text
    )
    assert f"A look afresh takes {look['afresh_ms']:.2f} ms" in text
    assert look["followed_ms"] < 0.5


def test_figures_of_reading_traces_are_current() -> None:
    figures = result("trace_reading")
    small, recorded, large = figures["traces"]
    alone = figures["python_alone"]["peak_bytes"]

    def above_mb(read: dict[str, Any]) -> str:
        return f"{(read['peak_bytes'] - alone) / 1e6:.0f} MB"

    text = words("benchmarks/README.md")
    ways = [f"{small[way]['cpu_s']:.1f} s" for way in ("events", "kernels", "json.load")]
    sentence = (
        "A trace of {:,} events takes {} event by event, {} into the table of kernels, and {} by"
    )
    assert sentence.format(small["num_events"], *ways) in text
    assert (
        f"{above_mb(small['kernels'])} above the {alone / 1e6:.0f} MB of the interpreter and numpy,"
        f" where `json.load` takes {above_mb(small['json.load'])}" in text
    )
    assert f"Holistic Trace Analysis) {recorded['kernels']['cpu_s']:.1f} s" in text
    assert (
        f"{large['num_events']:,} events, is read event by event in {above_mb(large['events'])}"
        f" above the interpreter and {large['events']['cpu_s']:.0f} s, and into the table in"
        f" {above_mb(large['kernels'])} and {large['kernels']['cpu_s']:.0f} s" in text
    )
    assert small["num_events"] == 110_000
    assert small["kernels"]["cpu_s"] < 2
    assert small["kernels"]["peak_bytes"] < 1e9
    assert large["num_bytes"] >= 500_000_000


def test_figures_of_traces_against_the_peer_are_current() -> None:
    first, second = result("trace_peer")["traces"]
    text = words("benchmarks/README.md")
    for figures in (first, second):
        assert figures["num_kernels"] == figures["num_peer_kernels"] == figures["num_common"]
        assert figures["largest_difference"] < 1e-9
        assert figures["exposed_communication_us"] == figures["peer_exposed_communication_us"]
    numbers = [figures["num_kernels"] for figures in (first, second)]
    exposed = [figures["exposed_communication_us"] for figures in (first, second)]
    assert "all {} and {} kernels are found".format(*numbers) in text
    assert "{:,.0f} and {:,.0f} microseconds of communication".format(*exposed) in text
    assert f"Holistic Trace Analysis {first['peer_version']} is tested with" in text


def test_figures_of_the_cost_of_recording_kernels_are_current() -> None:
    figures, text = result("kernel_cost"), words("benchmarks/README.md")
    ratios = figures["with_over_without"]

    def sentence(name: str) -> str:
        row = ratios[name]
        return f"{row['ratio']:.2f} (95 % interval {row['low']:.2f} to {row['high']:.2f})"

    assert f"CPU time of an iteration with over without {sentence('latency_cpu_s')}" in text
    for name, what in (
        ("speedup", "speedup"),
        ("compile_cold_cpu_s", "CPU time of a cold compile"),
        ("case_wall_s", "A case of one launch took"),
    ):
        row = ratios[name]
        assert f"{what} {row['ratio']:.2f}" in text
        assert f"({row['low']:.2f} to {row['high']:.2f}" in text
    # Nothing is shown of a cost: the intervals of what is judged hold 1.
    assert all(
        ratios[name]["low"] < 1 < ratios[name]["high"]
        for name in ("latency_s", "latency_cpu_s", "speedup", "compile_cold_cpu_s")
    )
    night = figures["night"]
    assert f"takes {night['bytes'] / 1e6:.1f} MB, {night['trace_bytes'] / 1e6:.1f} of them" in text
    assert night["bytes"] < 200e6


def test_figures_of_detection_trade_offs_are_current() -> None:
    document = result("limits")
    text = words("docs/explanation/detection-measurements.md")
    rows = {f"observer, {limit}": figures for limit, figures in document["observer"].items()}
    shown = [*(name for name in rows if f"| {name} |" in text), "detector"]
    rows["detector"] = document["judge"]
    assert len(shown) >= 6
    for name in shown:
        figures = rows[name]
        low, high = (100 * end for end in figures["new_modes_interval"])
        silent = f"{100 * figures['new_modes_silent']:.1f} % ({low:.1f} to {high:.1f})"
        delay = f"{figures['delay_median']}, {figures['delay_90']}"
        rates = f"{figures['f1']:.3f} | {figures['false_alarms_per_year']:.2f}"
        share = f"{100 * figures['told_within_2']:.0f} %"
        assert f"| {name} | {silent} | {delay} | {share} | {rates} |" in text
    assert f"{document['num_histories']} made-up histories of each" in text


def test_figures_of_notifications_are_current() -> None:
    trial, outcome = result("notifications")["trial"], result("notifications")["outcome"]
    text = words("benchmarks/README.md")
    assert [value for name, value in outcome.items() if name in MUST_BE_ZERO] == [0] * 4
    assert (
        f"Of {trial['num_notifications']:,} notifications about {trial['num_alerts']:,} alerts"
    ) in text
    assert f"{outcome['num_taken']:,} of {outcome['num_requests']:,} requests got through" in text
    assert f"killed {outcome['num_killed']} times" in text
    answers = outcome["answers"]
    unanswered = answers["taken, then reset"] + answers["taken, then silent"]
    assert f"{outcome['num_repeated']:,} came again" in text
    assert f"those of {unanswered} requests" in text
    assert f"and of {outcome['num_repeated_after_success']} whose sender died" in text


def test_figures_of_notifications_with_postgres_are_current() -> None:
    document = result("notifications-postgres")
    trial, outcome = document["trial"], document["outcome"]
    answers = outcome["answers"]
    unanswered = answers["taken, then reset"] + answers["taken, then silent"]
    assert [value for name, value in outcome.items() if name in MUST_BE_ZERO] == [0] * 4
    assert (
        f"of {trial['num_notifications']:,} notifications about {trial['num_alerts']:,} alerts"
        " (`results/notifications-postgres.json`)"
        f" it is {outcome['num_taken']:,} of {outcome['num_requests']:,},"
        f" {outcome['num_repeated']:,}, {unanswered} and {outcome['num_repeated_after_success']}."
        f" That took {outcome['wall_s']:,.0f} s"
    ) in words("benchmarks/README.md")


def test_figures_of_each_kind_of_receiver_are_current() -> None:
    figures, text = result("receivers"), words("benchmarks/README.md")
    for outcome in figures["outcomes"].values():
        zeros = (*MUST_BE_ZERO[:3], "num_other_keys", "num_repeats_beyond")
        assert [outcome[name] for name in zeros] == [0] * 5
    assert f"Of {figures['trial']['num_each']} notifications to each kind of receiver" in text
    assert f"killed {figures['trial']['num_kills']} times" in text


def test_figures_of_the_dashboard_are_current() -> None:
    figures, text = result("dashboard"), words("benchmarks/README.md")
    questions = figures["questions"]["questions"][:3]
    for row in questions:
        clock, cpu = "{p50_ms:.0f} and {p95_ms:.0f} ms", "{cpu_p50_ms:.0f} and {cpu_p95_ms:.0f} ms"
        assert f"{clock} ({cpu} of CPU time)".format(**row) in text
    assert all(row["p95_ms"] <= 60 for row in questions)
    assert figures["questions"]["num_rows"]["measurements"] > 21_000_000


def test_figures_of_other_databases_are_current() -> None:
    peers, text = result("dashboard")["peers"], words("benchmarks/README.md")
    assert f"{peers['num_rows']['measurements']:,} measurements" in text
    took = {name: [row["p50_ms"] for row in rows] for name, rows in peers["peers"].items()}
    for title, values in zip(("DuckDB", "PostgreSQL", "SQLite"), took.values(), strict=True):
        assert f"| {title} | {' | '.join(f'{value:.0f}' for value in values)} |" in text
    ours, *others = took.values()
    assert all(mine < min(theirs) for mine, *theirs in zip(ours, *others, strict=True))


def test_figures_of_open_pages_are_current() -> None:
    sessions, text = result("dashboard")["sessions"], words("benchmarks/README.md")
    assert (
        f"{sessions['reruns_per_s']:.0f} a second,"
        f" {sessions['cpu_ms_per_rerun']:.1f} ms of CPU time each,"
        f" {sessions['resident_bytes'] / 1e6:.0f} MB"
    ) in text
    assert sessions["num_sessions"] == 20
    assert sessions["reruns_per_s"] >= 50
    assert sessions["resident_bytes"] < 500e6


def test_figures_of_pages_in_a_browser_are_current() -> None:
    pages, text = result("dashboard")["pages"], words("benchmarks/README.md")
    took = pages["pages"]
    assert f"an empty page, which took {pages['empty_p50_ms']:.0f} ms" in text
    for name in ("over_empty", "over_bare"):
        assert ", ".join(f"{page} {own[name]:.2f}" for page, own in took.items()) in text
    is_met = pages["filter_p50_ms"] <= 300
    verdict = "met" if is_met else "**not met**"
    assert f"A filter within 300 ms: {verdict}, it took {pages['filter_p50_ms']:.0f} ms" in text
    num_met = sum(own["over_bare"] <= 1.3 for own in took.values())
    assert (num_met, len(took)) == (11, 13)
    assert "met by eleven of thirteen" in text
    overview, compare = took["overview"], took["compare"]
    points, rows = f"{overview['num_points']:,} points", f"{compare['num_rows']:,} comparisons"
    assert f"the overview has {points}, and Compare {rows}" in text


def test_figures_of_thirty_nights_are_current() -> None:
    figures = result("nights")
    fates = figures["fates"]
    thrown_in = {fault for fate in fates for fault in fate["thrown_in"].split(", ") if fault}
    without_run = [fate for fate in fates if fate["came"].startswith("no run")]
    assert figures["problems"] == []
    assert len({fate["night"] for fate in fates}) == figures["num_nights"] == 30
    assert thrown_in == set(FaultKind)
    assert ["GPU is lost" in fate["explained_by"] for fate in without_run] == [True]
    text = words("benchmarks/README.md")
    assert f"the machine switched off {figures['num_kills']} times, the {len(fates)} times" in text
    assert f"all {figures['num_notifications_taken']} notifications came, once each" in text


def test_figures_of_memory_growth_are_current() -> None:
    figures, text = result("soak"), words("benchmarks/README.md")
    assert figures["outcomes"] == {"ok": figures["num_cases"]}
    assert figures["num_cases"] - figures["num_warm_up"] >= 2000
    assert figures["leak_bytes"] == 0
    slopes = figures["slopes"]

    def sentence(name: str, *, unit: float, digits: int) -> str:
        values = [slopes[name][f"{key}_per_1000_cases"] / unit for key in ("slope", "low", "high")]
        assert values[1] <= 0 <= values[2]
        # No negative zero.
        return "{} ({} to {})".format(*(f"{value + 0.0:.{digits}f}" for value in values))

    for name in ("num_descriptors", "num_threads", "num_processes", "num_files"):
        assert sentence(name, unit=1, digits=0) == "0 (0 to 0)"
    assert f"resident memory {sentence('resident_bytes', unit=1e6, digits=2)} MB" in text
    assert f"of no file {sentence('anonymous_bytes', unit=1e6, digits=2)} MB" in text
    assert f"given out {sentence('heap_bytes', unit=1, digits=0)} bytes" in text
    assert f"Python's blocks {sentence('num_blocks', unit=1, digits=0)} of" in text


def test_cpu_seconds_of_the_command_line_are_reported_as_measured() -> None:
    commands = result("cli_start")["commands"]
    text = words("benchmarks/README.md")
    for name in ("hud --help", "hud --version", "hud runs"):
        before, after = (commands[key]["median_cpu_s"] for key in (f"{name}, before", name))
        assert f"| `{name}` | {before:.2f} | {after:.2f} |" in text


def test_figures_of_ordinary_nights_are_current() -> None:
    document = result("answers_nights")
    text = words("benchmarks/README.md")
    with_history, without = (document["answers"][name] for name in ("history", "no history"))
    for part in (
        with_history["latency and speedup"],
        with_history["latency and speedup of ordinary series"],
        with_history["compile_cold_s"],
        with_history["compile_warm_s"],
        without["latency and speedup"],
    ):
        shares = [f"{100 * part[name]:.1f} %" for name in ("unchanged_share", "coverage")]
        assert f"| {shares[0]} | {part['num_false']} | {shares[1]} |" in text
    assert with_history["all"]["num_comparisons"] >= 2000
    assert with_history["all"]["num_false"] == 0
    assert 0.93 < with_history["all"]["coverage"] < 0.97
    warm = document["ceilings"]["compile_warm_s"]
    assert f"{100 * warm:.1f} % (`ceilings`)" in text


def test_figures_of_masked_kernels_are_current() -> None:
    figures, text = result("kernel_series"), words("benchmarks/README.md")
    by_share = {row["share_of_latency"]: row for row in figures["planted"]}
    percent, twice, most = by_share[0.01], by_share[0.02], by_share[0.04]
    same = figures["same_code"]
    fragments = (
        f"{100 * percent['recall_within_3_nights']:.1f} % are reported",
        f"{100 * percent['recall_within_14_nights']:.1f} % within two weeks",
        f"{percent['num_planted']} planted steps",
        f"{figures['num_cases']} cases of an H100",
        f"{100 * twice['recall_within_3_nights']:.1f} % and of 4 %",
        f"4 % {100 * most['recall_within_3_nights']:.1f} %",
        f"{same['case_years']:.1f} case-years raised {same['num_alerts']} alert",
        f"{same['alerts_per_case_year']:.2f} a case-year",
        f"confidence below {same['upper_bound_per_case_year']:.2f}.",
        f"{100 * figures['cost']['share_of_night']:.2f} % of the time",
    )
    assert [fragment for fragment in fragments if fragment not in text] == []
    assert percent["recall_within_3_nights"] >= 0.9
    assert same["upper_bound_per_case_year"] <= 0.1


def test_answers_about_public_issues_are_current() -> None:
    document, text = result("findings_issues"), words("docs/reference/findings.md")
    for row in document["issues"]:
        named = row["is_named"] or "needs a GPU"
        speedup = f"{row['speedup'][0]:.2f}" if row.get("speedup") else "-"
        issue = f"[{row['name']}]({row['url']})"
        assert f"| {issue} | {row['symptom']} | `{row['code']}` | {named} | {speedup} |" in text
    summary = document["summary"]
    assert f"holds for {summary['num_yes']} of {summary['num_issues']}." in text
    assert summary["max_findings_s"] <= 0.5


def test_figures_of_planted_findings_are_current() -> None:
    document, text = result("findings_planted"), words("benchmarks/README.md")
    summary = document["summary"]
    fragments = [
        f"plants {len({row['code'] for row in document['plants']})} causes",
        f"{summary['num_costs_within_tolerance']} of {summary['num_costs']} are within",
        f"{summary['num_models']} tiny models in mode default",
    ]
    for row in document["plants"]:
        ratio = row["cost_over_saving"]
        cells = [f"{row[name]} of {row['num_repeats']}" for name in ("num_named", "num_located")]
        cost = "-" if ratio is None else f"{ratio:.2f}"
        size = row["size"] or "-"
        fragments.append(f"| `{row['code']}` | {size} | {cells[0]} | {cells[1]} | {cost} |")
        if row["one_time_over_saving"] is not None:
            fragments.append(f"{row['one_time_over_saving']:.2f} of the seconds")
    assert [fragment for fragment in fragments if fragment not in text] == []
    assert summary["named_share"] >= 0.95
    assert summary["num_in_twins"] == 0
    assert summary["max_findings_s"] <= 0.5


def test_figures_of_clusters_of_a_release_are_current() -> None:
    parts, text = result("release_clusters")["parts"], words("benchmarks/README.md")
    known, unknown, random = (parts[name] for name in ("known kinds", "unknown kinds", "random"))
    fragments = [
        f"{known['num_releases']} releases a row",
        f"random, {100 * random['share_of_releases_with_shared']:.1f} % of the releases",
    ]
    for title, figures in (("all cases", known), ("regressions alone", unknown)):
        shares = [f"{100 * figures[name]:.1f} %" for name in ("shared_purity", "completeness")]
        means = [f"{figures[name]:.1f}" for name in ("mean_num_clusters", "mean_num_planted")]
        fragments.append(f"| known of {title} | {' | '.join(shares + means)} |")
        assert figures["shared_purity"] >= 0.9
    for size, word in (("5", "five regressions are"), ("3", "three"), ("2", "two")):
        share = known["completeness_by_cause"][f"{size} regressions"]
        fragments.append(f"with {word} {100 * share:.1f} %")
    assert [fragment for fragment in fragments if fragment not in text] == []


def test_figures_of_planted_isolations_are_current() -> None:
    document, text = result("isolate_planted"), words("benchmarks/README.md")
    trials = document["trials"]
    num_right = sum(trial["is_right"] for trial in trials)
    by_kind = document["summary"]["right_by_kind"]
    single = [trial["shares"][0][0] for trial in trials if len(trial["causes"]) == 1]
    environments = [trial["num_toolchains"] for trial in trials]
    assert f"{len(trials)} trials on" in text
    assert f"{num_right} of {len(trials)} answers name" in text
    assert f"with {min(single):.0f} to {max(single):.0f} %" in text
    assert "{} of {} pairs that".format(*by_kind["together"]) in text
    assert "{} of {} times".format(*by_kind["two packages"]) in text
    assert f"{min(environments)} to {max(environments)} environments" in text


def test_figures_of_planted_transplants_are_current() -> None:
    document, text = result("transplant_planted"), words("benchmarks/README.md")
    summary, trials = document["summary"], document["trials"]
    counts = [summary[name] for name in ("num_trials", "right", "wrong", "undecided")]
    assert counts == [
        len(trials),
        *(
            sum(trial["judgement"] == name for trial in trials)
            for name in ("right", "wrong", "undecided")
        ),
    ]
    num_trials, right, wrong, undecided = counts
    loads = [round(trial["load"]) for trial in trials]
    assert f"{num_trials} of 30 trials" in text
    assert f"load {min(loads)} to {max(loads)}" in text
    assert f"{right} of {num_trials} answers are right, {wrong} wrong" in text
    assert f"{undecided} decide nothing" in text


def test_figures_of_planted_case_files_are_current() -> None:
    document, text = result("case_files_planted"), words("benchmarks/README.md")
    summary, incidents = document["summary"], document["incidents"]
    alerted = [item for item in incidents if item["alert"]]
    inside = [item for item in alerted if item["is_inside"]]
    loads = [round(item["load"]) for item in alerted]
    assert summary["num_inside"] == len(inside)
    assert f"{len(incidents)} of 20 incidents" in text
    assert f"load {min(loads)} to {max(loads)}" in text
    assert f"{len(alerted)} of {len(incidents)} incidents have" in text
    assert f"{summary['num_verified']} of {len(alerted)} case files" in text
    assert f"{len(inside)} of {len(alerted)} scripts" in text
    for item in alerted:
        figures = [f"{item[side][0]:.1f} %" for side in ("script", "alert")]
        assert item["is_inside"] or all(figure in text for figure in figures)
