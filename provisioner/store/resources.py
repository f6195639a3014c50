"""What money is spent on: instances and volumes, with their owners and their price series."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from cost.ledger import Resource, ResourceKind
from provisioner.store.codec import offer_from_json
from provisioner.store.tables import instance, job, volume, workstation


def charged_resources(
    connection: Connection,
    start: datetime,
    end: datetime,
    *,
    team_id: str | None = None,
    owner_id: str | None = None,
) -> list[tuple[Resource, str]]:
    """Everything that existed in [start, end), each with the name of its price series."""
    mine = [] if team_id is None else [instance.c.team_id == team_id]
    homes = [] if team_id is None else [volume.c.team_id == team_id]
    if owner_id is not None:
        mine.append(instance.c.owner_id == owner_id)
        homes.append(workstation.c.id == owner_id)
    return [
        *_instances(connection, start, end, *mine),
        *_volumes(connection, start, end, *homes),
    ]


def volume_series(provider: str) -> str:
    """The price series of a provider's home volumes."""
    return f"{provider}/volume"


def _instances(
    connection: Connection, start: datetime, end: datetime, *where: sa.ColumnElement[bool]
) -> list[tuple[Resource, str]]:
    owner_name = sa.func.coalesce(workstation.c.name, job.c.name, "")
    user = sa.func.coalesce(workstation.c.owner_id, job.c.owner_id, "")
    query = (
        sa.select(instance, owner_name.label("owner_name"), user.label("user_id"))
        .outerjoin(workstation, workstation.c.id == instance.c.owner_id)
        .outerjoin(job, job.c.id == instance.c.owner_id)
        .where(
            instance.c.created_at < end,
            sa.or_(instance.c.ended_at.is_(None), instance.c.ended_at > start),
            *where,
        )
        .order_by(instance.c.created_at, instance.c.id)
    )
    found = []
    for row in connection.execute(query).mappings():
        offer = offer_from_json(row["offer"])
        resource = Resource(
            id=row["id"],
            kind=ResourceKind.INSTANCE,
            name=row["machine_id"] or row["id"],
            provider=offer.provider,
            region=offer.region,
            zone=offer.zone,
            instance_type=offer.instance_type,
            mode=offer.mode,
            owner_kind=row["owner_kind"],
            owner_id=row["owner_id"],
            owner_name=row["owner_name"],
            team=row["team_id"] or "",
            user=row["user_id"],
            on_demand_price_per_hour=row["on_demand_price"],
        )
        found.append((resource, offer.id))
    return found


def _volumes(
    connection: Connection, start: datetime, end: datetime, *where: sa.ColumnElement[bool]
) -> list[tuple[Resource, str]]:
    query = (
        sa.select(
            volume,
            workstation.c.id.label("workstation_id"),
            workstation.c.name.label("owner_name"),
            workstation.c.owner_id.label("user_id"),
        )
        .join(workstation, workstation.c.volume_id == volume.c.id)
        .where(
            volume.c.created_at < end,
            sa.or_(volume.c.deleted_at.is_(None), volume.c.deleted_at > start),
            *where,
        )
        .order_by(volume.c.created_at, volume.c.id)
    )
    return [
        (
            Resource(
                id=row["id"],
                kind=ResourceKind.VOLUME,
                name=f"home of {row['owner_name']}",
                provider=row["provider"],
                region="",
                zone="",
                instance_type="volume",
                mode="on-demand",
                owner_kind="workstation",
                owner_id=row["workstation_id"],
                owner_name=row["owner_name"],
                team=row["team_id"],
                user=row["user_id"],
                size_gib=Decimal(row["gib"]),
            ),
            volume_series(row["provider"]),
        )
        for row in connection.execute(query).mappings()
    ]
