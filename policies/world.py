"""The world as the policies see it: frozen values, nothing that acts.

Everything `decide` may look at is here, the time included (`Snapshot.now`). The values hold no
reference to a database, a cloud or a clock, so that a stored snapshot can be decided again and
gives the identical plan. Times are aware datetimes in UTC, money is Decimal with a currency.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from policies.globs import matches_glob


class PurchaseMode(StrEnum):
    """How an offer is bought."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    RESERVED = "reserved"


class InstanceState(StrEnum):
    """Life of an instance; the allowed moves are in `provisioner.states`."""

    PLANNED = "planned"
    LAUNCHING = "launching"
    BOOTING = "booting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    HIBERNATED = "hibernated"
    STARTING = "starting"
    DRAINING = "draining"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"
    LOST = "lost"

    @property
    def live(self) -> bool:
        """Whether the instance may still exist at the provider (and cost money)."""
        return self not in _ENDED


_ENDED = frozenset({InstanceState.TERMINATED, InstanceState.FAILED})


class JobState(StrEnum):
    """Life of a training job."""

    QUEUED = "queued"
    PLACING = "placing"
    RUNNING = "running"
    PAUSED = "paused"
    INTERRUPTED = "interrupted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


class Desire(StrEnum):
    """What a person wants of a workstation."""

    ON = "on"
    OFF = "off"
    GONE = "gone"


class Condition(StrEnum):
    """Facts beside an instance's state; several may hold at once."""

    INTERRUPTING = "interrupting"
    IDLE = "idle"
    DRIFTED = "drifted"
    UNREACHABLE = "unreachable"
    HELD = "held"


class QuotaUnit(StrEnum):
    """What a quota counts."""

    MACHINES = "machines"
    CPUS = "cpus"
    GPUS = "gpus"


class OwnerKind(StrEnum):
    """What an instance is for."""

    WORKSTATION = "workstation"
    JOB = "job"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Resources:
    """What a machine has, or what is asked of one."""

    cpus: float
    memory_gib: float
    gpus: int = 0
    gpu_model: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to buy one machine: type x region/zone x purchase mode x price."""

    id: str  # provider/region/zone/type/mode
    provider: str
    region: str
    zone: str
    instance_type: str
    mode: PurchaseMode
    resources: Resources
    price_per_hour: Decimal
    currency: str
    can_stop: bool
    """Whether a machine bought this way can be stopped and started again (else: terminate)."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a workstation or job asks of its machine."""

    resources: Resources
    mode: PurchaseMode | None = None
    """None leaves the choice to the policy."""
    provider: str | None = None
    region: str | None = None
    max_price_per_hour: Decimal | None = None
    zone: str | None = None
    """Where its home lies, for volumes that no other zone can attach."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that Roost holds or is about to hold, as last observed."""

    id: str
    owner_kind: OwnerKind
    owner_id: str | None
    attempt: int
    """The job's attempt, or the workstation's generation, that this machine was launched for."""
    state: InstanceState
    offer: Offer
    """The offer it was bought at."""
    created_at: datetime
    ready_at: datetime | None = None
    """Start of the current READY span; None before the agent's first call."""
    agent_seen_at: datetime | None = None
    cpu_percent: float | None = None
    gpu_percent: float | None = None
    notice_deadline: datetime | None = None
    """When the provider will take the machine away, once it has said so."""
    conditions: frozenset[Condition] = frozenset()


@dataclass(frozen=True, slots=True)
class Hold:
    """A person's word that outranks the policies until it ends."""

    kind: str  # keep-running | keep-stopped
    until: datetime | None
    by: str


@dataclass(frozen=True, slots=True)
class Workstation:
    """A person's durable desk: a home volume and at most one live instance."""

    id: str
    name: str
    team: str
    user: str
    needs: Needs
    desire: Desire
    generation: int
    instance_id: str | None = None
    last_activity_at: datetime | None = None
    """Last human input or command, from any source."""
    started_by_person_at: datetime | None = None
    """When a person last created or started it: kept until the next boundary of the hours."""
    labels: tuple[tuple[str, str], ...] = ()
    hold: Hold | None = None
    warned_at: datetime | None = None
    """When its owner was warned of the stop that is being considered; None when not warned."""
    waiting_since: datetime | None = None
    """Since when it is on without a machine."""
    taken_from: str | None = None
    """`provider/region/zone` whose market took its last machine; None when none did."""


@dataclass(frozen=True, slots=True)
class Job:
    """A training job and how far it is."""

    id: str
    name: str
    team: str
    user: str
    needs: Needs
    state: JobState
    attempt: int
    """Attempts begun so far; the next one is `attempt + 1`."""
    queued_at: datetime
    """When it last became QUEUED."""
    instance_ids: tuple[str, ...] = ()
    """Machines of the current attempt, by node slot."""
    nodes: int = 1
    deadline: datetime | None = None
    work_left_s: float | None = None
    """Estimated seconds of running still needed; None when nobody knows."""
    changeover_s: float = 60.0
    """Seconds without progress after a move to another machine."""
    labels: tuple[tuple[str, str], ...] = ()
    no_spot_since: datetime | None = None
    """Since when every spot offer that fits is unavailable; None while one can be had."""
    taken_from: str | None = None
    """`provider/region/zone` whose market took its last machine; None when none did."""


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A team's money in the current period, all in one currency."""

    team: str
    amount: Decimal
    currency: str
    spent: Decimal
    committed: Decimal
    """Reserved for what runs or is about to, beyond what is spent already."""
    forecast: Decimal | None
    """Median of the period's total; None with too little history."""
    forecast_low: Decimal | None
    forecast_high: Decimal | None
    period_start: datetime
    period_end: datetime


@dataclass(frozen=True, slots=True)
class Cooldown:
    """An offer, or all offers under a scope, not to be tried for a while."""

    scope: str
    """`provider`, `provider/region`, ... up to a whole offer id, or that with `*` for its zone."""
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Closure:
    """An offer, or all under a prefix of its id, that cannot be bought until somebody mends it."""

    scope: str
    """`provider`, `provider/region`, ... up to a whole offer id."""
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Quota:
    """A limit of a cloud account on what may run at once, and how much of it is used."""

    name: str
    """The cloud's own name for it, for people."""
    provider: str
    region: str
    types: tuple[str, ...]
    """Patterns of the instance types that count, such as `p4d.*`."""
    unit: QuotaUnit
    limit: float
    used: float
    mode: PurchaseMode | None = None
    """None counts all modes."""

    def needed(self, offer: Offer) -> float:
        """How much of it one machine of this offer takes; 0 when it does not count."""
        if (offer.provider, offer.region) != (self.provider, self.region):
            return 0.0
        if self.mode not in (None, offer.mode):
            return 0.0
        if not any(matches_glob(pattern, offer.instance_type) for pattern in self.types):
            return 0.0
        has = offer.resources
        return {"machines": 1.0, "cpus": has.cpus, "gpus": float(has.gpus)}[self.unit]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision is made from."""

    id: str
    now: datetime
    offers: tuple[Offer, ...] = ()
    instances: tuple[Instance, ...] = ()
    workstations: tuple[Workstation, ...] = ()
    jobs: tuple[Job, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    cooldowns: tuple[Cooldown, ...] = ()
    closures: tuple[Closure, ...] = ()
    quotas: tuple[Quota, ...] = ()
    offers_total: int | None = None
    """How many offers are known; None when `offers` holds them all, else it holds the cheapest
    that fit and are allowed, for each request that waits."""
    team_timezones: tuple[tuple[str, str], ...] = field(default=())
    """IANA zone of each team, for rules that do not name one."""
