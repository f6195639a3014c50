"""What agents ship of their tasks: logs and progress, by byte offset, each byte once."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from provisioner.store.tables import attempt, log_chunk, progress


def log_end(connection: Connection, attempt_id: str, node: int) -> int:
    """How many bytes of a task's log are known."""
    return _end(connection, log_chunk, attempt_id, node)


def progress_end(connection: Connection, attempt_id: str, node: int) -> int:
    """How many bytes of a task's progress file are known."""
    return _end(connection, progress, attempt_id, node)


def add_log(
    connection: Connection, attempt_id: str, node: int, start: int, end: int, text: str
) -> None:
    connection.execute(
        log_chunk.insert().values(attempt_id=attempt_id, node=node, start=start, end=end, text=text)
    )


def add_progress(
    connection: Connection,
    attempt_id: str,
    node: int,
    start: int,
    end: int,
    records: list[dict[str, Any]],
) -> None:
    connection.execute(
        progress.insert().values(
            attempt_id=attempt_id, node=node, start=start, end=end, records=records
        )
    )


def log_chunks(connection: Connection, job_id: str, start: int, limit: int) -> list[str]:
    """Pieces of the log of a job's attempts, in order, from the `start`-th on."""
    query = (
        sa.select(log_chunk.c.text)
        .join(attempt, attempt.c.id == log_chunk.c.attempt_id)
        .where(attempt.c.job_id == job_id)
        .order_by(attempt.c.number, log_chunk.c.node, log_chunk.c.start)
        .offset(start)
        .limit(limit)
    )
    return [row.text for row in connection.execute(query)]


def progress_records(connection: Connection, job_id: str) -> list[dict[str, Any]]:
    """All progress records of a job, in order, each with its attempt's number."""
    query = (
        sa.select(progress.c.records, attempt.c.number)
        .join(attempt, attempt.c.id == progress.c.attempt_id)
        .where(attempt.c.job_id == job_id)
        .order_by(attempt.c.number, progress.c.node, progress.c.start)
    )
    return [
        {**record, "attempt": row.number}
        for row in connection.execute(query)
        for record in row.records
    ]


def _end(connection: Connection, table: sa.Table, attempt_id: str, node: int) -> int:
    query = sa.select(sa.func.max(table.c.end)).where(
        table.c.attempt_id == attempt_id, table.c.node == node
    )
    return connection.execute(query).scalar() or 0
