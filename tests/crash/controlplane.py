"""A control plane that dies where a test wants it to: the product's own parts and an armed point.

`run` is the whole life of a process of its own. It announces nothing: it answers, or it is dead.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.endpoint  # type: ignore[import-untyped]
import uvicorn

from api.app import create_app
from policies.decide import decide
from policies.language import Policy
from policies.plan import Plan
from policies.world import Snapshot
from provisioner import crashpoints
from provisioner.app import Roost, build
from provisioner.crashpoints import Point
from provisioner.daemon import Daemon
from provisioner.ids import new_id
from provisioner.providers.aws.limiter import Limiter
from provisioner.providers.aws.settings import AwsSettings
from provisioner.providers.contract import LaunchRequest
from provisioner.providers.local.booting import Booting
from provisioner.reconcile import belongings, mirror, perform, reconciler
from provisioner.settings import LocalProviderSettings, Settings
from provisioner.statefolder import StateFolder
from provisioner.store import actions
from provisioner.store.actions import ActionRow, ActionState
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from tests.clouds.aws.control import CREDENTIALS

FOREVER = datetime(9999, 1, 1, tzinfo=UTC)
STRAY_GRACE = timedelta(seconds=1)
TOKEN_FILE = "admin-token"
IN_BOOT = "provider.boot"
"""Inside the provider: the machine is on record, and nothing runs it yet."""
BEFORE_AWS = "aws."
"""Before a call of AWS, such as `aws.CreateVolume`: all earlier ones have taken effect."""
AWS_REGION = "us-east-1"
AWS_TYPES = ("c5*.large", "c6*.large")
"""So many that there always are alternatives of nearly the same price."""
_IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-"
TICK_POINTS = (Point.OBSERVED, Point.MIRRORED, Point.DECIDED, Point.RECORDED)


@dataclass(frozen=True, slots=True)
class Crash:
    """Where to die: the `nth` time that `point` is reached on behalf of a call of this kind.

    `point` is a `Point`, `IN_BOOT`, or one of `BEFORE_AWS`.

    With `kind` "" at a point of the tick, any tick counts. Else the points before the intents are
    those of the tick that decides on such a call (`DECIDED`, `RECORDED`) or of the first tick after
    it went out (`OBSERVED`, `MIRRORED`).
    """

    point: str
    kind: str = ""
    nth: int = 1


def settings(state: Path, port: int, aws_url: str | None = None) -> Settings:
    """What the control plane and the test that looks into its folder both use.

    With the URL of a test cloud its machines are there, and else on this host.
    """
    return Settings(
        state=state,
        port=port,
        public_url=f"http://127.0.0.1:{port}",
        tick_s=0.2,
        heartbeat_s=0.2,
        lease_s=2.0,
        local=LocalProviderSettings(limits="none", overcommit=16.0, enabled=aws_url is None),
        aws=None if aws_url is None else _aws(aws_url),
    )


def _aws(url: str) -> AwsSettings:
    return AwsSettings(
        regions=(AWS_REGION,),
        endpoint_url=url,
        image=f"{_IMAGE}x86_64",
        image_arm64=f"{_IMAGE}arm64",
        types=AWS_TYPES,
        list_every_s=0.5,
    )


def run(
    state: Path, port: int, crash: Crash | None, mutant: str | None, aws_url: str | None
) -> None:
    """Be a control plane until killed."""
    _log_to(state.with_name("log"))
    chosen = settings(state, port, aws_url)
    StateFolder(chosen.state).lock()
    mirror.STRAY_GRACE = belongings.STRAY_GRACE = STRAY_GRACE
    roost = build(chosen)
    secret = roost.people.ensure_admin()
    if secret is not None:
        (chosen.state / TOKEN_FILE).write_text(secret)
    if mutant is not None:
        MUTANTS[mutant](roost)
    if crash is not None:
        crashpoints.arm(_Fuse(roost, crash).reached)
    listening = _listen(chosen)
    daemon = Daemon(roost)
    if aws_url is not None:
        _meet_test_cloud(roost)
    daemon.start()
    config = uvicorn.Config(create_app(roost), log_config=None, access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


def _meet_test_cloud(roost: Roost) -> None:
    """Its machines call in from this host, and nothing but the waiting for it is left out."""
    os.environ.update(CREDENTIALS)
    vars(botocore.endpoint)["time"] = SimpleNamespace(sleep=lambda _: None)
    roost.market.closures_now = tuple


def _log_to(path: Path) -> None:
    form = "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, filename=path)
    for noisy in ("apscheduler", "alembic", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _listen(chosen: Settings) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((chosen.host, chosen.port))
    listening.listen(64)
    return listening


# ---- the crash


class _Fuse:
    """Counts, and kills this process as hard as a power cut would."""

    def __init__(self, roost: Roost, crash: Crash) -> None:
        self._roost = roost
        self._crash = crash
        self._count = 0
        self._went_out = False
        self._planned: set[str] = set()
        self._note_plans()
        self._watch_boots()
        self._watch_aws()

    def reached(self, point: Point, kind: str) -> None:
        mine = self._crash
        if point is Point.SUBMITTED and kind == mine.kind:
            self._went_out = True
        self._count_if(point == mine.point and self._concerned(point, kind))

    def _count_if(self, here: bool) -> None:
        self._count += here
        if here and self._count == self._crash.nth:
            os.kill(os.getpid(), signal.SIGKILL)

    def _note_plans(self) -> None:
        def noted(snapshot: Snapshot, policies: Sequence[Policy]) -> Plan:
            plan = decide(snapshot, policies)
            self._planned = {decision.action.value for decision in plan.decisions}
            return plan

        vars(reconciler)["decide"] = noted

    def _watch_boots(self) -> None:
        boot: Callable[..., None] = Booting.boot

        def noticed(*given: Any) -> None:
            self._count_if(self._crash.point == IN_BOOT)
            boot(*given)

        Booting.boot = noticed  # type: ignore[method-assign, assignment]

    def _watch_aws(self) -> None:
        wait = Limiter.wait

        def noticed(limiter: Limiter, service: str, region: str, action: str) -> None:
            self._count_if(self._crash.point == BEFORE_AWS + action)
            wait(limiter, service, region, action)

        Limiter.wait = noticed  # type: ignore[method-assign]

    def _concerned(self, point: Point, kind: str) -> bool:
        mine = self._crash
        if point not in TICK_POINTS:
            return kind == mine.kind
        if not mine.kind:
            return True
        if point in (Point.OBSERVED, Point.MIRRORED):
            return self._went_out
        if point is Point.DECIDED and mine.kind in self._planned:
            return True
        with self._roost.store.read() as connection:
            found = actions.due(connection, FOREVER)
            return any(action.kind == mine.kind for action in found)


# ---- protocols with a fault, to see that it is found


def _forgetful(roost: Roost) -> None:
    """Another launch id for each try, so that what runs already is not recognised."""
    performer = roost.reconciler._performer
    request = performer._request

    def renamed(connection: Connection, row: InstanceRow) -> LaunchRequest:
        return replace(request(connection, row), launch_id=new_id("launch"))

    performer._request = renamed


def _rash(roost: Roost) -> None:
    """A call counts as done before it is made."""
    submit = perform.Performer._submit

    def closed_at_once(
        self: perform.Performer, connection: Connection, action: ActionRow, provider: Any
    ) -> Any:
        call = submit(self, connection, action, provider)
        if call is not None:
            actions.update(connection, action.id, ActionState.DONE, self._clock.now())
        return call

    perform.Performer._submit = closed_at_once  # type: ignore[method-assign]


MUTANTS = {"forgetful": _forgetful, "rash": _rash}
