"""A small world: the real control plane on fake clouds, in virtual time, with agents that obey.

Nothing happens unless `tick` lets time pass. Agents come up with the machines and do what the
control plane answers them; a test makes them silent, deaf or clumsy, or has their tasks end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from policies.world import InstanceState, JobState, Offer, PurchaseMode, Resources
from provisioner.agent_wheel import AgentWheel
from provisioner.app import Roost
from provisioner.calls import Calls, InlineCalls
from provisioner.clock import ManualClock
from provisioner.errors import UnauthenticatedError
from provisioner.ids import digest
from provisioner.installation import load_installation
from provisioner.jobs.service import NewJob
from provisioner.people import Actor, Role
from provisioner.providers.contract import Capabilities, Machine, MachineState, Provider
from provisioner.settings import Settings
from provisioner.simulation.cloud import FakeCloud
from provisioner.statefolder import StateFolder
from provisioner.store import instances, jobs
from provisioner.store.engine import Store
from provisioner.store.instances import InstanceRow
from provisioner.store.jobs import JobRow
from provisioner.workstations.service import NewWorkstation

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ABLE = Capabilities(spot=True, stop=True, client_tokens=True, volumes=True)
SPOT, ON_DEMAND = PurchaseMode.SPOT, PurchaseMode.ON_DEMAND


def offer(
    zone: str = "a",
    mode: PurchaseMode = ON_DEMAND,
    price: str = "0.30",
    *,
    provider: str = "fake",
    kind: str = "small",
    cpus: float = 2,
    currency: str = "USD",
) -> Offer:
    return Offer(
        id=f"{provider}/r/{zone}/{kind}/{mode}",
        provider=provider,
        region="r",
        zone=zone,
        instance_type=kind,
        mode=mode,
        resources=Resources(cpus, 4),
        price_per_hour=Decimal(price),
        currency=currency,
        can_stop=mode is not SPOT,
    )


OFFERS = (
    offer("a", SPOT, "0.10"),
    offer("b", SPOT, "0.12"),
    offer("a", ON_DEMAND, "0.30"),
    offer("b", ON_DEMAND, "0.32"),
)


@dataclass
class Agent:
    """One machine's agent: what it would report, changed by tests at will."""

    instance_id: str
    bootstrap: str
    token: str
    boot: str = "boot-1"
    seq: int = 0
    silent: bool = False
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    input_age_s: float | None = None
    cpu_percent: float | None = 50.0
    notices: list[dict[str, Any]] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)
    """The control plane's last answer."""

    @property
    def task(self) -> dict[str, Any]:
        (only,) = self.tasks.values()
        return only

    def exits(self, code: int | None, **more: Any) -> None:
        self.task.update(state="exited", exit_code=code, **more)

    def report(self) -> dict[str, Any]:
        self.seq += 1
        return {
            "protocol": 1,
            "instance_id": self.instance_id,
            "boot_id": self.boot,
            "seq": self.seq,
            "uptime_s": float(self.seq),
            "telemetry": {"cpu_percent": self.cpu_percent, "memory_bytes": 1 << 30},
            "activity": {"last_input_age_s": self.input_age_s},
            "notices": list(self.notices),
            "tasks": [dict(task) for task in self.tasks.values()],
        }

    def obey(self, answer: dict[str, Any]) -> None:
        """Start what is listed, forget what is not, leave with 75 when told to drain."""
        self.answer = answer
        listed = {task["id"] for task in answer["tasks"]}
        self.tasks = {id: task for id, task in self.tasks.items() if id in listed}
        if answer["phase"] == "run":
            for id in listed - self.tasks.keys():
                self.tasks[id] = {"id": id, "state": "running", "exit_code": None, "drained": False}
        elif answer["phase"] == "drain":
            for task in self.tasks.values():
                if task["state"] != "exited":
                    task.update(state="exited", exit_code=75, drained=True)


class World:
    """A control plane with its people, clouds and agents."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        clouds: Mapping[str, Sequence[Offer]] | None = None,
        *,
        able: Capabilities = ABLE,
        calls: Calls | None = None,
        clock: ManualClock | None = None,
        wrap: Callable[[FakeCloud], Provider] = lambda cloud: cloud,
        **delays: float,
    ) -> None:
        self.store = store
        self.clock = clock or ManualClock(START)
        self.clouds = {
            name: FakeCloud(self.clock, able, offers, name=name, **delays)
            for name, offers in (clouds or {"fake": OFFERS}).items()
        }
        state = StateFolder(folder / "state")
        state.prepare()
        installation = load_installation(store, state.path, self.clock)
        self.roost = Roost(
            Settings(state=state.path),
            store,
            self.clock,
            calls or InlineCalls(),
            state,
            installation,
            {name: wrap(cloud) for name, cloud in self.clouds.items()},
        )
        wheel = AgentWheel(state.wheels / "agent.whl", "0" * 64, "agent.whl")
        self.roost.__dict__["agent_wheel"] = wheel  # in place of one built for each world
        self.roost.reconciler.refresh_offers()
        self.agents: dict[tuple[str, str], Agent] = {}
        """By cloud and machine id."""
        self.deaf: set[str] = set()
        """Clouds, or machines, on which no agent comes up."""
        self.first_secret = self.roost.people.ensure_admin() or ""
        admin = self.roost.people.authenticate(self.first_secret)
        assert admin is not None
        self.admin = admin

    @property
    def cloud(self) -> FakeCloud:
        return self.clouds["fake"]

    @property
    def now(self) -> datetime:
        return self.clock.now()

    # ---- time

    def tick(self, times: int = 1, seconds: float = 1.0) -> None:
        """So many rounds: time passes, agents call in, the reconciler ticks."""
        for _ in range(times):
            self.clock.set(self.now + timedelta(seconds=seconds))
            self.call_in()
            assert self.roost.reconciler.tick()

    def tick_until(
        self, condition: Callable[[], object], seconds: float = 10.0, times: int = 400
    ) -> None:
        for _ in range(times):
            if condition():
                return
            self.tick(1, seconds)
        raise AssertionError(f"not within {times} ticks of {seconds} s")

    def call_in(self) -> None:
        """Every running machine's agent registers, if it is new, and sends a heartbeat."""
        running: set[tuple[str, str]] = set()
        for name, cloud in self.clouds.items():
            for machine in machines_of(cloud):
                if machine.state is MachineState.RUNNING and not {name, machine.id} & self.deaf:
                    running.add((name, machine.id))
                    self._beat(machine.id, cloud)
        for gone in self.agents.keys() - running:
            self.agents[gone].boot = f"boot-after-{self.now.isoformat()}"
            self.agents[gone].tasks.clear()
            self.agents[gone].notices.clear()

    def _beat(self, machine_id: str, cloud: FakeCloud) -> None:
        key = (cloud.name, machine_id)
        agent = self.agents.get(key)
        if agent is None:
            agent = self.agents[key] = agent_of(cloud.request_of(machine_id).user_data)
            try:
                self.roost.agents.register(agent.bootstrap, registration(agent))
            except UnauthenticatedError:
                agent.silent = True  # its instance has been given up
        if not agent.silent:
            agent.obey(self.roost.agents.heartbeat(agent.token, agent.report()))

    # ---- people

    def team(self, name: str, budget: str | None = None, currency: str = "USD") -> None:
        self.roost.people.create_team(self.admin, name)
        if budget is not None:
            self.roost.people.set_budget(self.admin, name, Decimal(budget), currency)

    def person(self, name: str, team: str, role: Role = Role.MEMBER) -> Actor:
        made = self.roost.people.create_person(self.admin, name, team, role)
        return Actor(made.id, made.name, made.team_id, made.team_name, made.role)

    # ---- what people have

    def ready_desk(self, name: str = "desk", actor: Actor | None = None, **asked: Any) -> str:
        """A new workstation that is ready; its id."""
        new = NewWorkstation(name, **asked)
        id = self.roost.workstations.create(actor or self.admin, new).id
        self.tick_until(lambda: self.state(id) is InstanceState.READY)
        return id

    def submit(self, name: str = "train", actor: Actor | None = None, **asked: Any) -> str:
        """A new job; its id."""
        new = NewJob(name, argv=["python", "train.py"], **asked)
        return self.roost.jobs.submit(actor or self.admin, new).id

    def running_job(self, name: str = "train", actor: Actor | None = None, **asked: Any) -> str:
        """A new job that runs; its id."""
        id = self.submit(name, actor, **asked)
        self.tick_until(lambda: self.job(id).state is JobState.RUNNING)
        return id

    # ---- what is there

    def rows(self, owner_id: str | None = None) -> list[InstanceRow]:
        with self.store.read() as connection:
            if owner_id is not None:
                return instances.of_owner(connection, owner_id)
            return instances.select(connection)

    def row(self, owner_id: str | None = None) -> InstanceRow:
        """The newest instance."""
        return self.rows(owner_id)[-1]

    def state(self, owner_id: str | None = None) -> InstanceState | None:
        """The newest instance's state; None while there is none."""
        states = self.states(owner_id)
        return states[-1] if states else None

    def states(self, owner_id: str | None = None) -> list[InstanceState]:
        return [row.state for row in self.rows(owner_id)]

    def job(self, id: str) -> JobRow:
        with self.store.read() as connection:
            row = jobs.get(connection, id)
        assert row is not None
        return row

    def agent(self, owner_id: str | None = None) -> Agent:
        row = self.row(owner_id)
        assert row.machine_id is not None
        return self.agents[row.provider, row.machine_id]

    def machines(self) -> list[Machine]:
        """All that runs or costs money, at all clouds, lags aside."""
        return [
            machine
            for cloud in self.clouds.values()
            for machine in machines_of(cloud)
            if machine.state is not MachineState.TERMINATED
        ]

    def calls(self, call: str) -> int:
        return sum(1 for cloud in self.clouds.values() for made in cloud.calls if made[1] == call)

    def bill(self) -> Decimal:
        """What all clouds charge for machines, from the beginning."""
        end = self.now + timedelta(days=1)
        return sum(
            (sum(cloud.bill(START, end).values(), Decimal()) for cloud in self.clouds.values()),
            Decimal(),
        )


def machines_of(cloud: FakeCloud) -> list[Machine]:
    """The truth about a cloud, without the lag of its listing."""
    cloud.bill(START, START)  # lets happen what is due
    return [machine.seen for machine in cloud._machines]


def vanish(cloud: FakeCloud, machine_id: str) -> None:
    """A machine is gone without a trace, as after a provider's own accident."""
    cloud.forget(machine_id)


def agent_of(user_data: str) -> Agent:
    """The agent that a machine's user data starts."""
    instance = re.search(r"^instance=(\S+)$", user_data, re.MULTILINE)
    token = re.search(r"^token=(\S+)$", user_data, re.MULTILINE)
    assert instance
    assert token
    return Agent(instance[1], token[1], f"agent-of-{instance[1]}-with-a-long-secret")


def registration(agent: Agent, **changes: Any) -> dict[str, Any]:
    return {
        "protocol": 1,
        "instance_id": agent.instance_id,
        "token_sha256": digest(agent.token),
        "boot_id": agent.boot,
        "agent_version": "1",
        "hostname": "host",
        "facts": {"cpus": 2},
        **changes,
    }


__all__ = [
    "ABLE",
    "OFFERS",
    "ON_DEMAND",
    "SPOT",
    "START",
    "Agent",
    "World",
    "agent_of",
    "machines_of",
    "offer",
    "registration",
    "vanish",
]
