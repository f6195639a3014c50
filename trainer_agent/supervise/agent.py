"""Puts the agent together and runs it until the machine is to stop."""

from __future__ import annotations

import fcntl
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable

import trainer_agent
from trainer_agent.clock import Clock, SystemClock
from trainer_agent.supervise.activity import LastInput
from trainer_agent.supervise.aws_metadata import AwsMetadata
from trainer_agent.supervise.azure_metadata import AzureMetadata
from trainer_agent.supervise.bell import Bell
from trainer_agent.supervise.boot_parts import BootParts
from trainer_agent.supervise.client import Backoff, ControlPlane
from trainer_agent.supervise.commands import Commands
from trainer_agent.supervise.gce_metadata import GceMetadata
from trainer_agent.supervise.heartbeat import Heartbeat, Machine
from trainer_agent.supervise.identity import Boot, Identity
from trainer_agent.supervise.metadata_service import MetadataService, Watched
from trainer_agent.supervise.notices import POLL_S, MetadataFolder, Notices
from trainer_agent.supervise.registration import Registration
from trainer_agent.supervise.settings import Settings, SettingsError
from trainer_agent.supervise.shipping import Shipping
from trainer_agent.supervise.tasks import Tasks
from trainer_agent.supervise.telemetry import GpuMeter, Meter

EX_TEMPFAIL = 75
EX_CONFIG = 78
_LOOK_S = 0.1
_AFTER_FAULT_S = 1.0
_LAST_SHIPPING_S = 3.0
_DONE = b"\0"  # no signal has the number 0

_log = logging.getLogger(__name__)


def main() -> int:
    """Run until SIGTERM or until the control plane says stop; returns the exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s roost-agent %(levelname)s %(message)s"
    )
    try:
        settings = Settings.from_environment(os.environ)
        settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(settings.state / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except SettingsError as error:
        _log.error("%s", error)
        return EX_CONFIG
    except BlockingIOError:
        _log.error("another agent runs on %s; leaving it to that one", settings.state)
        return EX_TEMPFAIL
    except OSError as error:
        _log.error("ROOST_STATE_DIR %s cannot be used: %s", settings.state, error.strerror)
        return EX_CONFIG
    try:
        agent = Agent(settings)
    except SettingsError as error:
        _log.error("%s", error)
        return EX_CONFIG
    return agent.run()


class Agent:
    """The threads of one agent and what they share."""

    def __init__(self, settings: Settings) -> None:
        clock = SystemClock()
        identity = Identity.load(settings.state, settings.instance_id)
        boot = Boot.load(settings.state)
        control = _control_plane(settings, clock)
        chance = random.Random(identity.token_sha256 + boot.id)  # noqa: S311 (spreads a fleet)
        self._bell = Bell()
        self._ship_bell = Bell()
        self._gpus = GpuMeter()
        self._tasks = Tasks(settings.state / "tasks")
        self._commands = Commands(
            settings.state / "commands", control, identity, Backoff(0.2, 10.0, chance), self._bell
        )
        self._shipping = Shipping(
            control, identity, self._tasks, Backoff(0.2, 15.0, chance), self._ship_bell
        )
        machine = Machine(
            identity=identity,
            boot=boot,
            tasks=self._tasks,
            commands=self._commands,
            meter=Meter(settings.home, self._gpus),
            last_input=LastInput(settings.state, terminals=settings.watch_terminals, clock=clock),
        )
        self._heartbeat = Heartbeat(
            control,
            machine,
            self._bell,
            clock,
            away=Backoff(0.2, 15.0, chance),
            refused=Backoff(2.0, 60.0, chance),
        )
        self._watched = [Watched(service) for service in _services(settings, clock)]
        folder = [MetadataFolder(settings.metadata)] if settings.metadata else []
        self._notices = Notices([*folder, *self._watched], self._heartbeat.noticed)
        self._heartbeat.watch(self._notices)
        self._registration = Registration(
            control, identity, boot, settings.bootstrap_token, BootParts(settings.state)
        )
        self._exit_code = 0

    def run(self) -> int:
        inbox, outbox = os.pipe()
        os.set_blocking(outbox, False)
        signal.set_wakeup_fd(outbox, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        _log.info("agent %s begins, pid %d", trainer_agent.__version__, os.getpid())
        self._tasks.adopt()
        self._commands.adopt()
        self._notices.poll()
        self._gpus.start()
        for source in self._watched:
            source.start()
        _thread("notices", self._watch_notices)
        _thread("tasks", self._watch_tasks)
        _thread("shipping", self._shipping.ship)
        _thread("results", self._commands.post_results)
        threading.Thread(target=self._converse, args=(outbox,), daemon=True).start()
        while (word := os.read(inbox, 1)) != _DONE:
            if word[0] in (signal.SIGTERM, signal.SIGINT):
                _log.info("told to stop")
                self._heartbeat.stop()
        _log.info("agent ends")
        return self._exit_code

    def _converse(self, outbox: int) -> None:
        while True:
            try:
                answered = self._heartbeat.run(self._registration)
                if self._tasks.all() and not (answered and self._shipping.flush(_LAST_SHIPPING_S)):
                    _log.warning("some output is not told yet; it stays on the disk")
            except SettingsError as error:
                _log.error("%s", error)
                self._exit_code = EX_CONFIG
            except Exception:  # noqa: BLE001 (what runs must not lose its agent)
                _log.exception("fault in the heartbeat, going on")
                time.sleep(_AFTER_FAULT_S)
                continue
            break
        os.write(outbox, _DONE)

    def _watch_notices(self) -> None:
        self._notices.poll()
        time.sleep(POLL_S)

    def _watch_tasks(self) -> None:
        if self._tasks.refresh():
            self._bell.ring(urgent=self._heartbeat.leaving)
            self._ship_bell.ring()
        time.sleep(_LOOK_S)


def _control_plane(settings: Settings, clock: Clock) -> ControlPlane:
    try:
        return ControlPlane(settings.url, clock, settings.ca)
    except OSError as error:
        raise SettingsError(f"ROOST_CA_FILE {settings.ca} cannot be used: {error}") from None


def _services(settings: Settings, clock: Clock) -> list[MetadataService]:
    """The cloud's own, where the machine is of one."""
    address = settings.metadata_address
    if settings.metadata_service == "aws":
        return [AwsMetadata(address)]
    if settings.metadata_service == "gce":
        return [GceMetadata(clock, address)]
    if settings.metadata_service == "azure":
        return [AzureMetadata(address)]
    return []


def _thread(name: str, step: Callable[[], None]) -> None:
    """Repeat `step` for good; a fault in it must not end what else the agent does."""

    def repeat() -> None:
        while True:
            try:
                step()
            except Exception:  # noqa: BLE001 (logged; the others must go on)
                _log.exception("fault in %s, going on", name)
                time.sleep(_AFTER_FAULT_S)

    threading.Thread(target=repeat, name=name, daemon=True).start()
