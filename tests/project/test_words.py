"""Words that the code once had for standard terms: no identifier brings one of them back."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.sources import FOLDERS, python_files, tree_of

# Old name -> the standard term. A participle, pronoun or preposition is no name for a thing. Two
# names stay, since they are stored or written by users: the column `doing`, the route key `news`.
REPLACED = {
    "found": "the noun: alerts, matches, rows",
    "told": "text, message, reported",
    "wanted": "requested, selection, options",
    "asked": "requested",
    "said": "reason, message",
    "kept": "stored, retained",
    "held": "locked, acquired",
    "lost": "missing, disconnected",
    "place": "index, scope, location, folder",
    "placed": "filtered",
    "around": "context",
    "beside": "collapsible, not_in",
    "abreast": "two_columns",
    "trouble": "error, error_text",
    "whose": "person_from_claims",
    "keep_said": "set_flash",
    "show_said": "show_flash",
    "told_page": "status_page",
    "ask_form": "run_request_form",
    "Wanted": "RunChoice, selection",
    "Said": "LogMessage, DecisionNote",
    "Workplace": "Workspace",
    "workplace": "workspace",
    "Surroundings": "RunContext",
    "Seams": "Dependencies",
    "seams": "dependencies",
    "RunOrder": "RunRequest",
    "order_of": "request_for_job",
    "Keeper": "ResultWriter",
    "keeper": "result_writer",
    "is_resting": "is_backing_off",
    "Pulse": "HealthReporter",
    "JobLoop": "JobWorker",
    "Unnoted": "PendingUpdate",
    "measure_undisturbed": "measure_with_retries",
    "was_disturbed": "is_infrastructure_failure",
    "FreshSessions": "ColdCacheSessions",
    "put_off": "defer",
    "is_put_off": "is_deferred",
    "PUT_OFF": "DEFERRED",
    "LOST": "NODE_LOST",
    "lost_metrics": "missing_metrics",
    "Telling": "NotificationPlanner",
    "telling": "planner",
    "make_telling": "make_planner",
    "tell_nobody": "no_notifications",
    "NOBODY": "NO_NOTIFICATIONS",
    "go_on": "no_op",
    "in_a_hurry": "with_short_timeout",
    "Patience": "LockTimeout",
    "Turnstile": "ReadersWriterLock",
    "KeptOpen": "ConnectionCache",
    "generation": "store_version",
    "Answers": "VersionedCache",
    "arrange_measurements": "compact_measurements",
    "interrupt_dead_runs": "mark_stale_runs_interrupted",
    "handed": "child_settings",
    "hand_over": "export_to_child",
    "Handed": "ChildSettings",
    "pace": "machine_speed",
    "paced": "normalised",
    "at_one_pace": "normalise_by_machine_speed",
    "pace_s": "speed_probe_s",
    "Claim": "AlertCandidate",
    "believed": "apply_false_discovery_rate",
    "Follower": "SequentialDetector",
    "Onset": "ChangePoint",
    "_Excursion": "CusumState",
    "Demand": "EvidenceThreshold",
    "Rivals": "AlternativeHypotheses",
    "Bell": "StudentDensity",
    "Chain": "TwoStateMarkov",
    "Past": "BaselineHistory",
    "Witnesses": "ControlMetrics",
    "blame": "attribute_cause",
    "Standing": "ProvisionalAlerts",
    "Sighting": "RunRef",
    "with_ends": "attach_bounds",
    "ends_of": "bounds_of",
    "Placed": "FilteredResults",
    "shown_place": "selected_scope",
    "Need": "ActionItem",
    "needs_of": "action_items",
    "NewsKind": "AlertChangeKind",
    "find_news": "diff_alerts",
    "is_still_news": "is_current",
    "Moment": "DeliveryContext",
    "Paragraph": "Section",
    "Letter": "Email",
    "states_told": "reported_states",
    "told_reason": "reported_reason",
    "Board": "CaseQueue",
    "Ticket": "Assignment",
    "MAX_GIVEN": "MAX_ASSIGNMENTS",
    "nobody_text": "no_nodes_message",
    "why_unsupported": "unsupported_reason",
    "why_not_quantized": "not_quantized_reason",
    "OwnError": "UserCodeError",
    "own_error": "user_code_error",
    "own_code": "user_traceback",
    "treat": "transform",
    "treatment": "ModelTransform",
    "CannotTreatError": "TransformError",
    "has_settled": "is_steady",
    "last_fall": "last_level_drop",
    "MAX_FALLS": "MAX_LEVEL_DROPS",
    "Course": "SamplingSummary",
    "steadiest_s": "least_noisy_s",
    "kernelparts": "time_breakdown",
    "Unsaid": "MissingValuePolicy",
    "foreign_metrics": "imported_metrics",
    "run_before": "previous_run",
    "Tried": "the noun that the record holds",
    "Asked": "the noun that the record holds",
    "Given": "the noun that the record holds",
    "Found": "the noun that the record holds",
    "Known": "the noun that the record holds",
    "is_doing": "current_job",
    "beat_s": "heartbeat_interval_s",
    "SILENT_AFTER_S": "HEARTBEAT_TIMEOUT_S",
}


def _identifiers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str(name)):
                yield node.value.lineno, name
            case ast.alias(name=name, asname=alias):
                yield node.lineno, alias or name.rpartition(".")[2]


def test_a_replaced_word_is_noticed() -> None:
    tree = ast.parse("def f(found, *, x=1):\n    return f(told=found.kept)\n")
    assert [name for _, name in _identifiers(tree) if name in REPLACED] != []


def test_no_identifier_is_a_replaced_word() -> None:
    old = [
        f"{file}:{line}: {name} (now {REPLACED[name]})"
        for file in python_files(*FOLDERS)
        for line, name in _identifiers(tree_of(file))
        if name in REPLACED
    ]
    assert not old
