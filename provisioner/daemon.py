"""What runs all the time: the reconciler's loop, woken by events, and the schedule."""

from __future__ import annotations

import logging
import threading

from provisioner import reachability
from provisioner.app import Roost
from provisioner.errors import StateError
from provisioner.schedule import Schedule
from provisioner.store.housekeeping import prune

PRUNE_EVERY_S = 3600.0
_AFTER_FAILURE_S = 5.0
_log = logging.getLogger(__name__)


class Daemon:
    """Started once a process; stops within a tick."""

    def __init__(self, roost: Roost) -> None:
        self._roost = roost
        roost.market.closures_now = lambda: roost.reachability.closures(roost.providers)
        self._schedule = Schedule()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def start(self) -> None:
        self._roost.agent_wheel  # noqa: B018 (built now, so that a fault shows at start)
        self._roost.check_boot_script()
        self._roost.reconciler.refresh_offers()
        self._schedule.every(PRUNE_EVERY_S, self._prune, "prune the journal")
        if any(not each.capabilities.same_host for each in self._roost.providers.values()):
            self._schedule.every(reachability.LOOK_EVERY_S, self._look, "look at public_url")
        self._schedule.start()
        self._thread.start()

    def stop(self) -> None:
        """End the loop and let another control plane take the lease at once."""
        self._stopping.set()
        self._roost.poked.set()
        self._thread.join()
        self._schedule.stop()
        self._roost.reconciler.release()

    def _run(self) -> None:
        poked, tick_s = self._roost.poked, self._roost.settings.tick_s
        while not self._stopping.is_set():
            poked.clear()
            try:
                self._roost.refresher.refresh()
                self._roost.reconciler.tick()
            except StateError as error:
                _log.error("no tick: %s", error)
                self._stopping.wait(_AFTER_FAILURE_S)
            except Exception:  # noqa: BLE001 (the loop must outlive any one fault, and say so)
                _log.exception("a tick failed; the next one starts anew from the rows")
                self._stopping.wait(_AFTER_FAILURE_S)
            poked.wait(tick_s)

    def _look(self) -> None:
        before = self._roost.reachability.trouble()
        self._roost.reachability.look()
        if self._roost.reachability.trouble() != before:
            self._roost.poked.set()

    def _prune(self) -> None:
        if self._roost.reconciler.held is not None:
            prune(self._roost.store, self._roost.clock.now())
