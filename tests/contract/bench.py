"""What the contract suite needs of a provider beside the contract itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from policies.world import Offer, PurchaseMode
from provisioner.clock import Clock
from provisioner.providers.contract import (
    LaunchRequest,
    Machine,
    MachineState,
    Provider,
)


@dataclass(frozen=True)
class Bench:
    """A provider under test, and how time passes for it.

    What is None cannot be brought about there, and its tests are skipped.
    """

    provider: Provider
    other_installation: Provider | None
    clock: Clock
    pass_until: Callable[[Callable[[], object]], None]
    """Let time pass until the condition holds."""
    bill: Callable[[datetime, datetime], dict[str, Decimal]]
    inventory: Callable[[], object] | None = None
    """All that the account holds; equal when it holds the same."""
    lose_reply: Callable[[str], None] | None = None
    """Have the next call of that name (`launch`, `terminate`) take effect without an answer."""
    silence: Callable[[], tuple[Provider, str]] | None = None
    """A provider of this installation, and the region of its machines, which answers no more."""
    limit: Callable[[float], None] | None = None
    """Allow so many vCPUs on demand."""
    reclaim: Callable[[str], datetime] | None = None
    """Have the market take a spot machine after a warning; returns when."""
    exhaust: Callable[[Offer], None] | None = None
    """Have no capacity of an offer any more."""

    def offers(self, mode: PurchaseMode = PurchaseMode.ON_DEMAND) -> list[Offer]:
        return [offer for offer in self.provider.offers() if offer.mode is mode]

    def another(self, offer: Offer) -> Offer:
        """Another type in the same zone and mode."""
        return next(
            one
            for one in self.offers(offer.mode)
            if one.zone == offer.zone and one.resources.cpus != offer.resources.cpus
        )

    def request(
        self,
        launch_id: str = "one",
        mode: PurchaseMode = PurchaseMode.ON_DEMAND,
        **changes: object,
    ) -> LaunchRequest:
        offer = next(offer for offer in self.provider.offers() if offer.mode is mode)
        request = LaunchRequest(launch_id, offer, "#!/bin/sh\nexec sleep 600\n", (("job", "j1"),))
        return replace(request, **changes)  # type: ignore[arg-type]

    def machine(self, machine_id: str) -> Machine:
        return next(one for one in self.provider.list().machines if one.id == machine_id)

    def pass_until_state(self, machine_id: str, state: MachineState) -> Machine:
        self.pass_until(lambda: self.machine(machine_id).state is state)
        return self.machine(machine_id)

    def launch(self, launch_id: str = "one", **changes: object) -> Machine:
        """A machine that runs."""
        machine = self.provider.launch(self.request(launch_id, **changes))  # type: ignore[arg-type]
        return self.pass_until_state(machine.id, MachineState.RUNNING)

    def end(self, machine_id: str) -> Machine:
        self.provider.terminate(machine_id)
        return self.pass_until_state(machine_id, MachineState.TERMINATED)
