"""The tables. What they mean is said here; who may change them, in the modules that do."""

from __future__ import annotations

import sqlalchemy as sa

from provisioner.store.columns import Exact, Instant

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

ID = sa.String(64)
NAME = sa.String(128)
WORD = sa.String(32)


def _id() -> sa.Column[str]:
    return sa.Column("id", ID, primary_key=True)


installation = sa.Table(
    "installation",
    metadata,
    _id(),
    sa.Column("created_at", Instant, nullable=False),
    comment="One row: who we are towards the providers.",
)

lease = sa.Table(
    "lease",
    metadata,
    sa.Column("name", NAME, primary_key=True),
    sa.Column("holder", NAME, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    comment="Who reconciles; the epoch fences off all former holders.",
)

team = sa.Table(
    "team",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("timezone", NAME, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
)

budget = sa.Table(
    "budget",
    metadata,
    sa.Column("team_id", ID, sa.ForeignKey("team.id"), primary_key=True),
    sa.Column("amount", Exact, nullable=False),
    sa.Column("currency", WORD, nullable=False),
    sa.Column("period", WORD, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
)

person = sa.Table(
    "person",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False, unique=True),
    sa.Column("team_id", ID, sa.ForeignKey("team.id"), nullable=True, index=True),
    sa.Column("role", WORD, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
)

token = sa.Table(
    "token",
    metadata,
    _id(),
    sa.Column("person_id", ID, sa.ForeignKey("person.id"), nullable=False, index=True),
    sa.Column("sha256", sa.String(64), nullable=False, unique=True),
    sa.Column("label", NAME, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("revoked_at", Instant),
)

policy = sa.Table(
    "policy",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("filename", sa.String(255), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("active", sa.Boolean, nullable=False),
    sa.Column("applied_by", NAME, nullable=False),
    sa.Column("applied_at", Instant, nullable=False),
    sa.UniqueConstraint("name", "version"),
)

volume = sa.Table(
    "volume",
    metadata,
    _id(),
    sa.Column("provider", NAME, nullable=False),
    sa.Column("team_id", ID, sa.ForeignKey("team.id"), nullable=False, index=True),
    sa.Column("gib", sa.Integer, nullable=False),
    sa.Column("seen", sa.Boolean, nullable=False),
    sa.Column("deleting", sa.Boolean, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant),
    sa.Column("zone", NAME),
    comment="Home volumes; the id is also the provider's.",
)

workstation = sa.Table(
    "workstation",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False),
    sa.Column("team_id", ID, sa.ForeignKey("team.id"), nullable=False, index=True),
    sa.Column("owner_id", ID, sa.ForeignKey("person.id"), nullable=False, index=True),
    sa.Column("needs", sa.JSON, nullable=False),
    sa.Column("labels", sa.JSON, nullable=False),
    sa.Column("volume_id", ID, sa.ForeignKey("volume.id"), nullable=False),
    sa.Column("desire", WORD, nullable=False),
    sa.Column("desire_reason", WORD, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("hold_kind", WORD),
    sa.Column("hold_until", Instant),
    sa.Column("hold_by", NAME),
    sa.Column("last_activity_at", Instant),
    sa.Column("started_by_person_at", Instant),
    sa.Column("warned_at", Instant),
    sa.Column("waiting_since", Instant),
    sa.Column("not_before", Instant),
    sa.Column("trouble", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant),
    sa.Index(
        "uq_workstation_name_alive",
        "team_id",
        "name",
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    ),
    comment="What people want of their desks; the phase is derived from the instance.",
)

job = sa.Table(
    "job",
    metadata,
    _id(),
    sa.Column("name", NAME, nullable=False),
    sa.Column("team_id", ID, sa.ForeignKey("team.id"), nullable=False, index=True),
    sa.Column("owner_id", ID, sa.ForeignKey("person.id"), nullable=False, index=True),
    sa.Column("needs", sa.JSON, nullable=False),
    sa.Column("labels", sa.JSON, nullable=False),
    sa.Column("task", sa.JSON, nullable=False),
    sa.Column("nodes", sa.Integer, nullable=False),
    sa.Column("checkpoint_uri", sa.Text, nullable=False),
    sa.Column("deadline", Instant),
    sa.Column("max_runtime_s", sa.Float, nullable=False),
    sa.Column("state", WORD, nullable=False, index=True),
    sa.Column("reason", WORD, nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("queued_at", Instant, nullable=False),
    sa.Column("no_spot_since", Instant),
    sa.Column("not_before", Instant),
    sa.Column("step", sa.BigInteger),
    sa.Column("total_steps", sa.BigInteger),
    sa.Column("result", sa.JSON),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("started_at", Instant),
    sa.Column("ended_at", Instant),
)

attempt = sa.Table(
    "attempt",
    metadata,
    _id(),
    sa.Column("job_id", ID, sa.ForeignKey("job.id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("state", WORD, nullable=False),
    sa.Column("reason", WORD),
    sa.Column("message", sa.Text),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("running_at", Instant),
    sa.Column("first_step_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Column("resumed_step", sa.BigInteger),
    sa.Column("step", sa.BigInteger),
    sa.Column("checkpoint_step", sa.BigInteger),
    sa.UniqueConstraint("job_id", "number"),
)

instance = sa.Table(
    "instance",
    metadata,
    _id(),
    sa.Column("owner_kind", WORD, nullable=False),
    sa.Column("owner_id", ID, index=True),
    sa.Column("team_id", ID, index=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("slot", sa.Integer, nullable=False),
    sa.Column("launch_id", ID, nullable=False, unique=True),
    sa.Column("provider", NAME, nullable=False, index=True),
    sa.Column("machine_id", sa.String(255), index=True),
    sa.Column("offer", sa.JSON, nullable=False),
    sa.Column("on_demand_price", Exact),
    sa.Column("volume_id", ID, sa.ForeignKey("volume.id")),
    sa.Column("state", WORD, nullable=False, index=True),
    sa.Column("reason", WORD, nullable=False),
    sa.Column("message", sa.Text),
    sa.Column("state_since", Instant, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("ready_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Column("missing_count", sa.Integer, nullable=False),
    sa.Column("last_listed_at", Instant),
    sa.Column("agent_seen_at", Instant),
    sa.Column("agent_boot_id", ID),
    sa.Column("agent", sa.JSON),
    sa.Column("notice_deadline", Instant),
    sa.Column("bootstrap_sha256", sa.String(64), unique=True),
    sa.Column("agent_sha256", sa.String(64), unique=True),
    sa.Column("decision_id", ID),
    sa.Column("alternatives", sa.JSON),
)

action = sa.Table(
    "action",
    metadata,
    _id(),
    sa.Column("kind", WORD, nullable=False),
    sa.Column("subject_id", sa.String(255), nullable=False),
    sa.Column("provider", NAME, nullable=False),
    sa.Column("state", WORD, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("not_before", Instant, nullable=False),
    sa.Column("error_code", WORD),
    sa.Column("error", sa.Text),
    sa.Column("decision_id", ID),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Index(
        "uq_action_open",
        "subject_id",
        unique=True,
        sqlite_where=sa.text("state IN ('intended','submitted')"),
        postgresql_where=sa.text("state IN ('intended','submitted')"),
    ),
    sa.Index("ix_action_state", "state"),
    comment="Intents: at most one open one for a subject (instance, volume, stray machine).",
)

cooldown = sa.Table(
    "cooldown",
    metadata,
    sa.Column("scope", sa.String(255), primary_key=True),
    sa.Column("until", Instant, nullable=False),
    sa.Column("failures", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
)

stray = sa.Table(
    "stray",
    metadata,
    sa.Column("provider", NAME, primary_key=True),
    sa.Column("machine_id", sa.String(255), primary_key=True),
    sa.Column("launch_id", ID, nullable=False),
    sa.Column("first_seen_at", Instant, nullable=False),
    comment="Machines with our tag and no row; collected after a grace period.",
)

snapshot = sa.Table(
    "snapshot",
    metadata,
    _id(),
    sa.Column("at", Instant, nullable=False, index=True),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Column("policies", sa.JSON, nullable=False),
)

decision = sa.Table(
    "decision",
    metadata,
    _id(),
    sa.Column("snapshot_id", ID, sa.ForeignKey("snapshot.id"), nullable=False, index=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("target_kind", WORD, nullable=False),
    sa.Column("target_id", ID, nullable=False),
    sa.Column("action", WORD, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Index("ix_decision_target", "target_id", "at"),
    comment="Decisions that differ from the target's decision before.",
)

event = sa.Table(
    "event",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("kind", WORD, nullable=False),
    sa.Column("subject_id", ID, nullable=False, index=True),
    sa.Column("team_id", ID, index=True),
    sa.Column("body", sa.JSON, nullable=False),
    comment="The journal: append only.",
)

usage_event = sa.Table(
    "usage_event",
    metadata,
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("resource_id", ID, nullable=False, index=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("kind", WORD, nullable=False),
    sa.Column("estimated", sa.Boolean, nullable=False),
    sa.Column("recorded_at", Instant, nullable=False),
    comment="Observed starts and ends, append only; a key is counted once.",
)

price_point = sa.Table(
    "price_point",
    metadata,
    sa.Column("series", sa.String(255), primary_key=True),
    sa.Column("at", Instant, primary_key=True),
    sa.Column("price", Exact, nullable=False),
    sa.Column("currency", WORD, nullable=False),
    comment="Prices in force: by offer id per hour, by provider/volume per GiB-month.",
)

reservation = sa.Table(
    "reservation",
    metadata,
    _id(),
    sa.Column("team_id", ID, sa.ForeignKey("team.id"), nullable=False, index=True),
    sa.Column("owner_id", ID, nullable=False, index=True),
    sa.Column("amount", Exact, nullable=False),
    sa.Column("currency", WORD, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("released_at", Instant),
)

command = sa.Table(
    "command",
    metadata,
    _id(),
    sa.Column("workstation_id", ID, sa.ForeignKey("workstation.id"), nullable=False),
    sa.Column("instance_id", ID, sa.ForeignKey("instance.id"), nullable=False, index=True),
    sa.Column("asked_by", ID, nullable=False),
    sa.Column("argv", sa.JSON, nullable=False),
    sa.Column("timeout_s", sa.Float, nullable=False),
    sa.Column("state", WORD, nullable=False),
    sa.Column("result", sa.JSON),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
)

log_chunk = sa.Table(
    "log_chunk",
    metadata,
    sa.Column("attempt_id", ID, sa.ForeignKey("attempt.id"), primary_key=True),
    sa.Column("node", sa.Integer, primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True),
    sa.Column("end", sa.BigInteger, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
)

progress = sa.Table(
    "progress",
    metadata,
    sa.Column("attempt_id", ID, sa.ForeignKey("attempt.id"), primary_key=True),
    sa.Column("node", sa.Integer, primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True),
    sa.Column("end", sa.BigInteger, nullable=False),
    sa.Column("records", sa.JSON, nullable=False),
)

idempotency = sa.Table(
    "idempotency",
    metadata,
    sa.Column("person_id", ID, primary_key=True),
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("body", sa.JSON),
    sa.Column("created_at", Instant, nullable=False),
)
