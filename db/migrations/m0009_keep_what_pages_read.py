"""Keep each plan once, the newest result of every case, and which results no longer count.

Case results and the marks of what was ingested lose their keys: at three million rows the index of
a key takes more than the memory that DuckDB is given, and nothing can be written any more.
"""

from __future__ import annotations

import json
from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "m0009"
down_revision: str | None = "m0008"
branch_labels = None
depends_on = None

_RUNS = sa.table("runs", *(sa.column(name) for name in ("id", "plan", "plan_hash")))
_PLANS = sa.table("plans", sa.column("hash"), sa.column("cases", sa.JSON))

# As they were ordered when they were read: the result of a case and run that finished last counts.
_SUPERSEDED = """
INSERT INTO superseded (result_id)
SELECT id FROM (
    SELECT id, row_number() OVER (
        PARTITION BY run_id, case_key ORDER BY finished_at DESC, id DESC
    ) AS place
    FROM case_results
) AS ranked WHERE place > 1
"""
_LATEST_RESULTS = """
INSERT INTO latest_results
SELECT machine, toolchain, case_key, id, run_id, run_started_at, revision, fingerprint, outcome,
       reason, effective_mode, started_at, finished_at, warnings
FROM (
    SELECT runs.machine, runs.toolchain, results.case_key, results.id, results.run_id,
           runs.started_at AS run_started_at, runs.revision, runs.fingerprint, results.outcome,
           results.reason, results.effective_mode, results.started_at, results.finished_at,
           results.warnings,
           row_number() OVER (
               PARTITION BY runs.machine, runs.toolchain, results.case_key
               ORDER BY runs.started_at DESC, results.finished_at DESC, results.id DESC
           ) AS place
    FROM case_results AS results JOIN runs ON runs.id = results.run_id
    WHERE NOT (results.outcome = 'skipped' AND results.reason LIKE 'time budget%')
) AS ranked WHERE place = 1
"""
_LATEST_MEASUREMENTS = """
INSERT INTO latest_measurements
SELECT latest.machine, latest.toolchain, latest.case_key, measured.metric, measured.unit,
       measured.num_samples, measured.median, measured.low, measured.high, measured.method
FROM latest_results AS latest JOIN measurements AS measured
    ON measured.result_id = latest.result_id
"""
# What is kept from now on, made of the rows that are there.
STATEMENTS = (_SUPERSEDED, _LATEST_RESULTS, _LATEST_MEASUREMENTS)


def upgrade() -> None:
    """Create the tables, fill them from what is there, and let runs name their plan."""
    _create_tables()
    _move_plans()
    _drop_keys()
    for statement in STATEMENTS:
        op.execute(sa.text(statement))


def _create_tables() -> None:
    op.create_table(
        "plans",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("cases", sa.JSON, nullable=False),
    )
    op.create_table("superseded", sa.Column("result_id", sa.String, primary_key=True))
    op.create_table(
        "latest_results",
        *_place(),
        sa.Column("result_id", sa.String, nullable=False),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("run_started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revision", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("effective_mode", sa.String, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("warnings", sa.JSON, nullable=False),
    )
    op.create_table(
        "latest_measurements",
        *_place(),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("num_samples", sa.Integer, nullable=False),
        sa.Column("median", sa.Double, nullable=False),
        sa.Column("low", sa.Double, nullable=False),
        sa.Column("high", sa.Double, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        for table in ("latest_results", "latest_measurements"):
            op.create_index(f"ix_{table}_case", table, ["case_key"])


def _place() -> list[sa.Column[str]]:
    names = ("machine", "toolchain", "case_key")
    return [sa.Column(name, sa.String, nullable=False) for name in names]


def _move_plans() -> None:
    connection = op.get_bind()
    op.add_column("runs", sa.Column("plan_hash", sa.String, nullable=True))
    text = sa.cast(_RUNS.c.plan, sa.Text)
    runs = connection.execute(sa.select(_RUNS.c.id, sa.func.md5(text).label("digest"))).all()
    # A nightly suite plans the same thousand cases every night: each plan is read once.
    first_runs = {row.digest: row.id for row in reversed(runs)}
    hashes = {}
    for digest, run_id in first_runs.items():
        plan = connection.execute(sa.select(text).where(_RUNS.c.id == run_id)).scalar()
        cases = json.loads(str(plan))
        hashes[digest] = sha256(json.dumps(cases, sort_keys=True).encode()).hexdigest()
        known = sa.select(_PLANS.c.hash).where(_PLANS.c.hash == hashes[digest])
        if connection.execute(known).first() is None:
            connection.execute(sa.insert(_PLANS).values(hash=hashes[digest], cases=cases))
    for row in runs:
        connection.execute(
            sa.update(_RUNS).where(_RUNS.c.id == row.id).values(plan_hash=hashes[row.digest])
        )
    with op.batch_alter_table("runs", recreate="always") as batch:
        batch.alter_column("plan_hash", existing_type=sa.String, nullable=False)
        batch.drop_column("plan")


def _drop_keys() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for table, column in (("case_results", "id"), ("ingested", "spool_id")):
            op.drop_constraint(f"{table}_pkey", table, type_="primary")
            op.create_index(f"ix_{table}_{column}", table, [column])
        return
    # DuckDB cannot drop a key.
    for table in ("case_results", "ingested"):
        op.execute(f"CREATE TABLE {table}_keyless AS SELECT * FROM {table}")
        columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)]
        op.execute(f"DROP TABLE {table}")
        op.execute(f"ALTER TABLE {table}_keyless RENAME TO {table}")
        for column in columns:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL")


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
