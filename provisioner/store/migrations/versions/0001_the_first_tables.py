"""The first tables"""

import sqlalchemy as sa
from alembic import op

from provisioner.store.columns import Exact, Instant

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "action",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject_id", sa.String(length=255), nullable=False),
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("not_before", Instant(), nullable=False),
        sa.Column("error_code", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("decision_id", sa.String(length=64), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_action")),
        comment="Intents: at most one open one for a subject (instance, volume, stray machine).",
    )
    with op.batch_alter_table("action", schema=None) as batch_op:
        batch_op.create_index("ix_action_state", ["state"], unique=False)
        batch_op.create_index(
            "uq_action_open",
            ["subject_id"],
            unique=True,
            sqlite_where=sa.text("state IN ('intended','submitted')"),
            postgresql_where=sa.text("state IN ('intended','submitted')"),
        )

    op.create_table(
        "cooldown",
        sa.Column("scope", sa.String(length=255), nullable=False),
        sa.Column("until", Instant(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("scope", name=op.f("pk_cooldown")),
    )
    op.create_table(
        "event",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("subject_id", sa.String(length=64), nullable=False),
        sa.Column("team_id", sa.String(length=64), nullable=True),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_event")),
        comment="The journal: append only.",
    )
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_event_subject_id"), ["subject_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_event_team_id"), ["team_id"], unique=False)

    op.create_table(
        "idempotency",
        sa.Column("person_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.JSON(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("person_id", "key", name=op.f("pk_idempotency")),
    )
    op.create_table(
        "installation",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
        comment="One row: who we are towards the providers.",
    )
    op.create_table(
        "lease",
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("holder", sa.String(length=128), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lease")),
        comment="Who reconciles; the epoch fences off all former holders.",
    )
    op.create_table(
        "policy",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("applied_by", sa.String(length=128), nullable=False),
        sa.Column("applied_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policy")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_policy_name_version")),
    )
    op.create_table(
        "price_point",
        sa.Column("series", sa.String(length=255), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("price", Exact(), nullable=False),
        sa.Column("currency", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("series", "at", name=op.f("pk_price_point")),
        comment="Prices in force: by offer id per hour, by provider/volume per GiB-month.",
    )
    op.create_table(
        "snapshot",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("policies", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshot")),
    )
    with op.batch_alter_table("snapshot", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_snapshot_at"), ["at"], unique=False)

    op.create_table(
        "stray",
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("machine_id", sa.String(length=255), nullable=False),
        sa.Column("launch_id", sa.String(length=64), nullable=False),
        sa.Column("first_seen_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "machine_id", name=op.f("pk_stray")),
        comment="Machines with our tag and no row; collected after a grace period.",
    )
    op.create_table(
        "team",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("timezone", sa.String(length=128), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_team")),
        sa.UniqueConstraint("name", name=op.f("uq_team_name")),
    )
    op.create_table(
        "usage_event",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("resource_id", sa.String(length=64), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("estimated", sa.Boolean(), nullable=False),
        sa.Column("recorded_at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_usage_event")),
        comment="Observed starts and ends, append only; a key is counted once.",
    )
    with op.batch_alter_table("usage_event", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_usage_event_resource_id"), ["resource_id"], unique=False
        )

    op.create_table(
        "budget",
        sa.Column("team_id", sa.String(length=64), nullable=False),
        sa.Column("amount", Exact(), nullable=False),
        sa.Column("currency", sa.String(length=32), nullable=False),
        sa.Column("period", sa.String(length=32), nullable=False),
        sa.Column("updated_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_budget_team_id_team")),
        sa.PrimaryKeyConstraint("team_id", name=op.f("pk_budget")),
    )
    op.create_table(
        "decision",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("snapshot_id", sa.String(length=64), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("target_kind", sa.String(length=32), nullable=False),
        sa.Column("target_id", sa.String(length=64), nullable=False),
        sa.Column("action", sa.String(length=32), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["snapshot_id"], ["snapshot.id"], name=op.f("fk_decision_snapshot_id_snapshot")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decision")),
        comment="Decisions that differ from the target's decision before.",
    )
    with op.batch_alter_table("decision", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_decision_snapshot_id"), ["snapshot_id"], unique=False)
        batch_op.create_index("ix_decision_target", ["target_id", "at"], unique=False)

    op.create_table(
        "person",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("team_id", sa.String(length=64), nullable=True),
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_person_team_id_team")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_person")),
        sa.UniqueConstraint("name", name=op.f("uq_person_name")),
    )
    with op.batch_alter_table("person", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_person_team_id"), ["team_id"], unique=False)

    op.create_table(
        "reservation",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("team_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("amount", Exact(), nullable=False),
        sa.Column("currency", sa.String(length=32), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("released_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_reservation_team_id_team")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservation")),
    )
    with op.batch_alter_table("reservation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_reservation_owner_id"), ["owner_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_reservation_team_id"), ["team_id"], unique=False)

    op.create_table(
        "volume",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("team_id", sa.String(length=64), nullable=False),
        sa.Column("gib", sa.Integer(), nullable=False),
        sa.Column("seen", sa.Boolean(), nullable=False),
        sa.Column("deleting", sa.Boolean(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("deleted_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_volume_team_id_team")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume")),
        comment="Home volumes; the id is also the provider's.",
    )
    with op.batch_alter_table("volume", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_volume_team_id"), ["team_id"], unique=False)

    op.create_table(
        "instance",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("owner_kind", sa.String(length=32), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=True),
        sa.Column("team_id", sa.String(length=64), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("launch_id", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=128), nullable=False),
        sa.Column("machine_id", sa.String(length=255), nullable=True),
        sa.Column("offer", sa.JSON(), nullable=False),
        sa.Column("on_demand_price", Exact(), nullable=True),
        sa.Column("volume_id", sa.String(length=64), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("state_since", Instant(), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("ready_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("missing_count", sa.Integer(), nullable=False),
        sa.Column("last_listed_at", Instant(), nullable=True),
        sa.Column("agent_seen_at", Instant(), nullable=True),
        sa.Column("agent_boot_id", sa.String(length=64), nullable=True),
        sa.Column("agent", sa.JSON(), nullable=True),
        sa.Column("notice_deadline", Instant(), nullable=True),
        sa.Column("bootstrap_sha256", sa.String(length=64), nullable=True),
        sa.Column("agent_sha256", sa.String(length=64), nullable=True),
        sa.Column("decision_id", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volume.id"], name=op.f("fk_instance_volume_id_volume")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance")),
        sa.UniqueConstraint("agent_sha256", name=op.f("uq_instance_agent_sha256")),
        sa.UniqueConstraint("bootstrap_sha256", name=op.f("uq_instance_bootstrap_sha256")),
        sa.UniqueConstraint("launch_id", name=op.f("uq_instance_launch_id")),
    )
    with op.batch_alter_table("instance", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_instance_machine_id"), ["machine_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_instance_owner_id"), ["owner_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_instance_provider"), ["provider"], unique=False)
        batch_op.create_index(batch_op.f("ix_instance_state"), ["state"], unique=False)
        batch_op.create_index(batch_op.f("ix_instance_team_id"), ["team_id"], unique=False)

    op.create_table(
        "job",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("team_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("needs", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("task", sa.JSON(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("checkpoint_uri", sa.Text(), nullable=False),
        sa.Column("deadline", Instant(), nullable=True),
        sa.Column("max_runtime_s", sa.Float(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("queued_at", Instant(), nullable=False),
        sa.Column("no_spot_since", Instant(), nullable=True),
        sa.Column("not_before", Instant(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("total_steps", sa.BigInteger(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("started_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(["owner_id"], ["person.id"], name=op.f("fk_job_owner_id_person")),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_job_team_id_team")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_job_owner_id"), ["owner_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_state"), ["state"], unique=False)
        batch_op.create_index(batch_op.f("ix_job_team_id"), ["team_id"], unique=False)

    op.create_table(
        "token",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("person_id", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=False),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("revoked_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_token_person_id_person")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("sha256", name=op.f("uq_token_sha256")),
    )
    with op.batch_alter_table("token", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_token_person_id"), ["person_id"], unique=False)

    op.create_table(
        "workstation",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("team_id", sa.String(length=64), nullable=False),
        sa.Column("owner_id", sa.String(length=64), nullable=False),
        sa.Column("needs", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("volume_id", sa.String(length=64), nullable=False),
        sa.Column("desire", sa.String(length=32), nullable=False),
        sa.Column("desire_reason", sa.String(length=32), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("hold_kind", sa.String(length=32), nullable=True),
        sa.Column("hold_until", Instant(), nullable=True),
        sa.Column("hold_by", sa.String(length=128), nullable=True),
        sa.Column("last_activity_at", Instant(), nullable=True),
        sa.Column("started_by_person_at", Instant(), nullable=True),
        sa.Column("warned_at", Instant(), nullable=True),
        sa.Column("waiting_since", Instant(), nullable=True),
        sa.Column("not_before", Instant(), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("deleted_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["person.id"], name=op.f("fk_workstation_owner_id_person")
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_workstation_team_id_team")),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volume.id"], name=op.f("fk_workstation_volume_id_volume")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workstation")),
        comment="What people want of their desks; the phase is derived from the instance.",
    )
    with op.batch_alter_table("workstation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_workstation_owner_id"), ["owner_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_workstation_team_id"), ["team_id"], unique=False)
        batch_op.create_index(
            "uq_workstation_name_alive",
            ["team_id", "name"],
            unique=True,
            sqlite_where=sa.text("deleted_at IS NULL"),
            postgresql_where=sa.text("deleted_at IS NULL"),
        )

    op.create_table(
        "attempt",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("running_at", Instant(), nullable=True),
        sa.Column("first_step_at", Instant(), nullable=True),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.Column("resumed_step", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=True),
        sa.Column("checkpoint_step", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_attempt_job_id_job")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("job_id", "number", name=op.f("uq_attempt_job_id_number")),
    )
    op.create_table(
        "command",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workstation_id", sa.String(length=64), nullable=False),
        sa.Column("instance_id", sa.String(length=64), nullable=False),
        sa.Column("asked_by", sa.String(length=64), nullable=False),
        sa.Column("argv", sa.JSON(), nullable=False),
        sa.Column("timeout_s", sa.Float(), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("created_at", Instant(), nullable=False),
        sa.Column("ended_at", Instant(), nullable=True),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instance.id"], name=op.f("fk_command_instance_id_instance")
        ),
        sa.ForeignKeyConstraint(
            ["workstation_id"],
            ["workstation.id"],
            name=op.f("fk_command_workstation_id_workstation"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_command")),
    )
    with op.batch_alter_table("command", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_command_instance_id"), ["instance_id"], unique=False)

    op.create_table(
        "log_chunk",
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempt.id"], name=op.f("fk_log_chunk_attempt_id_attempt")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "node", "start", name=op.f("pk_log_chunk")),
    )
    op.create_table(
        "progress",
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempt.id"], name=op.f("fk_progress_attempt_id_attempt")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "node", "start", name=op.f("pk_progress")),
    )
