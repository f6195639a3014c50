"""What the demo claims, and whether it held."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """One claim, and what was seen."""

    claim: str
    held: bool
    seen: str


@dataclass(frozen=True, slots=True)
class Interruption:
    """One reclaim of a machine in the middle of training."""

    notice: bool
    steps_redone: int
    """Steps that the lost attempt is known to have done and the next one did again."""
    resumed_step: int
    resume_seconds: float
    """From the notice (or the kill) to the first step of the next attempt."""


@dataclass(slots=True)
class Summary:
    """What `roost demo --json` prints."""

    checks: list[Check] = field(default_factory=list)
    accuracy: float | None = None
    interruptions: list[Interruption] = field(default_factory=list)
    weights_sha256: str | None = None
    reference_weights_sha256: str | None = None
    cost: str | None = None
    on_demand_cost: str | None = None
    currency: str | None = None
    forecast: str | None = None
    report: str | None = None
    seconds: float | None = None
    error: str | None = None

    def check(self, claim: str, held: bool, seen: str) -> Check:
        found = Check(claim, held, seen)
        self.checks.append(found)
        return found

    @property
    def ok(self) -> bool:
        """Whether everything was shown and everything shown held."""
        return self.error is None and bool(self.checks) and all(c.held for c in self.checks)

    def as_json(self) -> Json:
        return {
            "ok": self.ok,
            "accuracy": self.accuracy,
            "interruptions": [
                {
                    "notice": i.notice,
                    "steps_redone": i.steps_redone,
                    "resumed_step": i.resumed_step,
                    "resume_seconds": round(i.resume_seconds, 3),
                }
                for i in self.interruptions
            ],
            "weights_sha256": self.weights_sha256,
            "reference_weights_sha256": self.reference_weights_sha256,
            "cost": self.cost,
            "on_demand_cost": self.on_demand_cost,
            "currency": self.currency,
            "forecast": self.forecast,
            "report": self.report,
            "seconds": self.seconds,
            "checks": [{"claim": c.claim, "held": c.held, "seen": c.seen} for c in self.checks],
            "error": self.error,
        }


def interruption(lost: Json, following: Json, reclaimed_at: datetime) -> Interruption:
    """What an interruption cost, from the two attempts around it as the API tells them."""
    resumed = following["resumed_step"] or 0
    first_step = datetime.fromisoformat(following["first_step_at"])
    return Interruption(
        notice=bool(lost["notice"]),
        steps_redone=max(0, (lost["step"] or 0) - resumed),
        resumed_step=resumed,
        resume_seconds=(first_step - reclaimed_at).total_seconds(),
    )
