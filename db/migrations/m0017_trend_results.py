"""Create the summary that the trends of the modes read, and fill it from the stored results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0017"
down_revision: str | None = "m0016"
branch_labels = None
depends_on = None

_METRICS = ("speedup", "compile_cold_s", "compile_warm_s", "peak_bytes", "energy_j")
_PARTS = {"": "median", "_low": "low", "_high": "high"}
_COLUMNS = [f"{metric}{suffix}" for metric in _METRICS for suffix in _PARTS]
_FILL = """
INSERT INTO trend_results (
    run_id, case_key, run_started_at, outcome, effective_mode, same_code_as, {columns}
)
SELECT results.run_id, results.case_key, runs.started_at, results.outcome, results.effective_mode,
       CASE WHEN results.outcome <> 'same_code' THEN ''
            WHEN results.reason LIKE 'same code as %' THEN substr(results.reason, 14)
            ELSE results.reason END,
       {columns}
FROM case_results AS results
JOIN runs ON runs.id = results.run_id
JOIN cases ON cases.key = results.case_key
LEFT JOIN (
    SELECT run_id AS measured_run, case_key AS measured_case, {values}
    FROM measurements
    WHERE metric IN ({metrics})
    AND case_key IN (SELECT key FROM cases WHERE variant IN ({modes}))
    AND result_id NOT IN (SELECT result_id FROM superseded)
    GROUP BY run_id, case_key
) AS measured
    ON measured_run = results.run_id AND measured_case = results.case_key
WHERE cases.variant IN ({modes})
AND results.id NOT IN (SELECT result_id FROM superseded)
AND NOT (results.outcome = 'skipped' AND results.reason LIKE 'time budget%')
ORDER BY runs.started_at, results.run_id, results.case_key
"""
_MODES = (
    *("eager", "default", "reduce-overhead", "max-autotune"),
    "max-autotune-no-cudagraphs",
)


def upgrade() -> None:
    """Create the table, and write the row of each result that counts."""
    op.create_table(
        "trend_results",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("case_key", sa.String(), nullable=False),
        sa.Column("run_started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("effective_mode", sa.String(), nullable=False),
        sa.Column("same_code_as", sa.String(), nullable=False),
        *(sa.Column(name, sa.Double()) for name in _COLUMNS),
    )
    statement = _FILL.format(
        columns=", ".join(_COLUMNS),
        metrics=_texts(_METRICS),
        modes=_texts(_MODES),
        values=", ".join(
            f"max(CASE WHEN metric = '{metric}' THEN {part} END) AS {metric}{suffix}"
            for metric in _METRICS
            for suffix, part in _PARTS.items()
        ),
    )
    op.get_bind().execute(sa.text(statement))
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("ix_trend_results_run", "trend_results", ["run_id"])


def downgrade() -> None:
    """Refuse: a downgrade would delete results."""
    raise NotImplementedError("copy a backup of the store back instead")


def _texts(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)
