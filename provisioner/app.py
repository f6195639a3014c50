"""The composition root: the one place that knows all parts and puts them together."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version

import httpx

from policies.world import Snapshot
from provisioner import tls
from provisioner.agent_wheel import AgentWheel, build_agent_wheel
from provisioner.agents import Agents
from provisioner.bootstrap import HomeDisk, Preparation, user_data
from provisioner.calls import Calls, ThreadedCalls
from provisioner.clock import Clock, SystemClock
from provisioner.costs import Costs
from provisioner.ids import digest
from provisioner.installation import Installation, load_installation
from provisioner.instances import Instances
from provisioner.jobs.service import Jobs
from provisioner.launches import Launches
from provisioner.offers.catalogue import Catalogue
from provisioner.offers.market import Market
from provisioner.offers.refresh import Refresher, sources_of
from provisioner.offers.service import Offers
from provisioner.people import People
from provisioner.policybook import PolicyBook
from provisioner.provider_setup import make_providers
from provisioner.providers.contract import LaunchRequest, Provider
from provisioner.reachability import Reachability
from provisioner.reconcile.reconciler import Reconciler
from provisioner.settings import Settings
from provisioner.statefolder import StateFolder
from provisioner.status import ProviderStatus, Status
from provisioner.store import cooldowns, instances, lease, workstations
from provisioner.store.engine import Connection, Store
from provisioner.store.instances import InstanceRow
from provisioner.store.migrate import upgrade
from provisioner.workstations.service import Workstations

STALE_AFTER_S = 60.0


class Roost:
    """A control plane: its services, and the reconciler that the daemon runs."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        clock: Clock,
        calls: Calls,
        folder: StateFolder,
        installation: Installation,
        providers: Mapping[str, Provider],
        market: Market | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self.folder = folder
        self.installation = installation
        self.providers = providers
        self.url = settings.public_url or f"http://{settings.host}:{settings.port}"
        """Where machines reach the control plane; set again when the port is chosen at start."""
        self.ca = tls.pinned(settings.tls_certificate, settings.tls_key, settings.tls_ca)
        """PEM text of the only authority that may vouch for `url`; None for the usual ones."""
        self.reachability = Reachability(self.url, clock, lambda: self.agent_wheel.sha256, self.ca)
        self.poked = threading.Event()
        self._calls = calls
        self.costs = Costs(store, clock, settings.local.currency)
        self.people = People(store, clock)
        self.market = market or Market(Catalogue())
        self.catalogue = self.market.catalogue
        self.offers = Offers(self.market, clock)
        sources = sources_of(settings.offers, self.market, httpx.Client)
        self.refresher = Refresher(sources, clock, calls, self.market)
        self.launches = Launches(store)
        self.instances = Instances(store, clock, providers)
        self.workstations = Workstations(store, clock, self.market, self.poked.set)
        self.jobs = Jobs(store, clock, self.market, folder.jobs, self.poked.set)
        self.agents = Agents(
            store, clock, settings.heartbeat_s, lambda: self.agent_wheel, self.poked.set
        )
        self.reconciler = Reconciler(
            store=store,
            clock=clock,
            calls=calls,
            providers=providers,
            market=self.market,
            installation_id=installation.id,
            holder=f"{socket.gethostname()}:{folder.path}"[:128],
            request=self._launch_request,
            budgets=self.costs.budgets,
            lease_s=settings.lease_s,
            poke=self.poked.set,
        )
        self.policies = PolicyBook(store, clock, self._snapshot)

    @cached_property
    def agent_wheel(self) -> AgentWheel:
        """The program that machines run, built once from what is installed here."""
        return build_agent_wheel(self.folder.wheels)

    def status(self) -> Status:
        now = self.clock.now()
        with self.store.read() as connection:
            holder, epoch = lease.current(connection)
            cooled = cooldowns.active(connection, now)
        last = self.reconciler.last_tick_s
        return Status(
            version=_version(),
            installation_id=self.installation.id,
            time=now,
            reconciler_holder=holder,
            epoch=epoch,
            last_tick_at=self.reconciler.last_tick_at,
            tick_ms=None if last is None else last * 1000,
            providers=tuple(self._provider_status(name, now) for name in sorted(self.providers)),
            cooldowns=cooled,
            closures=self.market.closures,
        )

    def close(self) -> None:
        """Finish what is under way and let go of everything."""
        self._calls.close()
        self.store.close()
        self.folder.unlock()

    def _snapshot(self, connection: Connection) -> Snapshot:
        return self.reconciler.snapshot(connection)

    def _provider_status(self, name: str, now: datetime) -> ProviderStatus:
        health = self.reconciler.health[name]
        heard = health.listed_at
        stale = heard is None or (now - heard).total_seconds() > STALE_AFTER_S
        return ProviderStatus(
            name, heard, stale, health.error, health.offered_at, health.offers_error
        )

    def _launch_request(self, connection: Connection, row: InstanceRow) -> LaunchRequest:
        """The same request each time for an instance, so that a repeat is the same launch."""
        token = self.installation.bootstrap_token(row.launch_id)
        instances.update(connection, row.id, bootstrap_sha256=digest(token))
        gib = 10
        if row.volume_id is not None:
            gib = workstations.volume_of(connection, row.volume_id)["gib"]
        can = self.providers[row.provider].capabilities
        elsewhere, home = not can.same_host, None
        if row.volume_id is not None and can.home_disks:
            home = HomeDisk(row.volume_id, gib)
        return LaunchRequest(
            launch_id=row.launch_id,
            offer=row.offer,
            user_data=self._user_data(row.id, token, home, elsewhere),
            tags=(("installation", self.installation.id), ("instance", row.id)),
            volume_id=row.volume_id,
            volume_gib=gib,
            alternatives=row.alternatives,
        )

    def check_boot_script(self) -> None:
        """Refuse at the start, and not at the first machine, what no cloud would take.

        Raises:
            StateError: it is too long.
        """
        self._user_data("i" * 64, "t" * 64, HomeDisk("", 10**6), elsewhere=True)

    def _user_data(
        self, instance_id: str, token: str, home: HomeDisk | None, elsewhere: bool
    ) -> str:
        """A machine on this host has this host's Python, and its home is a folder."""
        wheel, machines = self.agent_wheel, self.settings.machines
        wanted = Preparation(machines.python, machines.packages, machines.package_index)
        return user_data(
            url=self.url,
            instance_id=instance_id,
            bootstrap_token=token,
            wheel_sha256=wheel.sha256,
            wheel_filename=wheel.filename,
            ca=self.ca,
            home=home,
            preparation=wanted if elsewhere else Preparation(),
        )


def build(settings: Settings, clock: Clock | None = None, calls: Calls | None = None) -> Roost:
    """Put a control plane together: folder, database (brought up to date), providers, services.

    Raises:
        StateError: the state folder or the database cannot be used.
    """
    clock = clock or SystemClock()
    folder = StateFolder(settings.state)
    folder.prepare()
    store = Store(settings.database)
    upgrade(store)
    installation = load_installation(store, folder.path, clock)
    market = Market(Catalogue())
    providers = make_providers(settings, folder, installation.id, clock, market)
    return Roost(
        settings, store, clock, calls or ThreadedCalls(), folder, installation, providers, market
    )


def _version() -> str:
    try:
        return version("roost")
    except PackageNotFoundError:
        return "0.1.0"
