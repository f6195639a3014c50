"""The demo's six steps, told through the API as any client would."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from api.client import Client
from api.demo.plane import Plane
from api.demo.proof import Interruption, Summary, interruption
from api.demo.screen import Screen
from cost.reports.money import duration, money
from provisioner.clock import SystemClock
from provisioner.errors import StateError

T = TypeVar("T")
Json = dict[str, Any]

POLICY = Path(__file__).with_name("policy.yaml")
TRAINING: Json = {"data": "mnist5k", "epochs": 6, "checkpoint_every_steps": 20, "seed": 7}
RECLAIMS = ((0.25, 10.0), (0.6, 0.0))
"""How far the job is when the market takes its machine, and after how many seconds of notice."""
LIMIT_S = 170.0
_LOOK_EVERY_S = 0.1


class Story:
    """One run of the demo."""

    def __init__(self, plane: Plane, screen: Screen, summary: Summary) -> None:
        self._plane = plane
        self._screen = screen
        self._summary = summary
        self._clock = SystemClock()
        self._admin = plane.client()
        self._ana: Client = self._admin

    def tell(self) -> None:
        """All six steps; what does not hold is in the summary.

        Raises:
            StateError: a step did not come to its end in time.
        """
        self._team()
        self._desk()
        job, reference = self._training()
        self._proof(job, reference)
        self._money(job)
        self._leave()

    # 1

    def _team(self) -> None:
        self._screen.step(1, "A team with a budget and a policy")
        self._admin.create_team({"name": "vision", "timezone": "Europe/Berlin"})
        self._admin.set_budget("vision", {"amount": "25.00", "currency": "USD"})
        self._admin.create_person({"name": "ana", "team": "vision", "role": "member"})
        token = self._admin.create_token({"person": "ana", "label": "demo"})
        self._ana = self._plane.client(token["secret"])
        text = POLICY.read_text()
        self._admin.apply_policy({"text": text, "filename": POLICY.name})
        self._screen.say("team [bold]vision[/], 25.00 USD a month, and this policy:")
        self._screen.yaml(text)

    # 2

    def _desk(self) -> None:
        self._screen.step(2, "A workstation for Ana")
        self._ana.create_workstation({"name": "desk", "cpus": 1, "memory_gib": 1, **ON_DEMAND})
        desk = self._until("created", lambda: self._phase("desk", "ready"))
        machine = desk["instance"]["machine_id"]
        said = self._exec("uname -n && echo precious > kept.txt")
        self._held("reachable", said != "", f"`uname -n` on it says {said.splitlines()[0]!r}")
        self._until("idle; the policy stops it", lambda: self._phase("desk", "off"))
        why = self._ana.workstation("desk")["desire_reason"]
        self._held("stopped when idle", why == "idle", self._why("desk"))
        self._ana.start_workstation("desk")
        desk = self._until("started again", lambda: self._phase("desk", "ready"))
        kept = self._exec("cat kept.txt")
        same = f"kept.txt says {kept!r}; machine {machine} before, now the same home"
        self._held("its home survived", kept == "precious", same)

    def _exec(self, script: str) -> str:
        asked = self._ana.exec("desk", {"argv": ["sh", "-c", script], "timeout_s": 20})

        def answered() -> Json | None:
            command = self._ana.command(asked["id"])
            return command if command["state"] != "queued" else None

        return str(self._until(f"running `{script}`", answered)["stdout"]).strip()

    def _phase(self, name: str, phase: str) -> Json | None:
        desk = self._ana.workstation(name)
        return desk if desk["phase"] == phase else None

    # 3 and 4

    def _training(self) -> tuple[Json, Json]:
        self._screen.step(3, "A training job on spot, and the same job undisturbed on demand")
        self._ana.submit_job(_job("digits", "spot"))
        self._ana.submit_job(_job("reference", "on-demand"))
        self._screen.say("5,000 handwritten digits (MNIST), a convolutional network, 1 thread each")
        self._screen.step(4, "The spot market takes the machine twice")
        for number, (share, notice_s) in enumerate(RECLAIMS, start=1):
            self._reclaim(number, share, notice_s)
        job = self._watch("digits", "trains to the end", lambda job: _ended(job))
        reference = self._watch("reference", "the undisturbed run", lambda job: _ended(job))
        return job, reference

    def _reclaim(self, number: int, share: float, notice_s: float) -> None:
        """Let the market take the machine at a share of the work, and wait for the next step."""
        job = self._watch("digits", "trains", lambda job: _is_at(job, share))
        lost = job["attempts"][-1]
        step = job["step"]
        at = self._clock.now()
        self._admin.rehearse_reclaim(lost["instance_id"], {"notice_s": notice_s})
        how = f"with {notice_s:.0f} s notice" if notice_s else "without notice (SIGKILL)"
        self._screen.say(f"step {step}: the machine is reclaimed {how}")

        def resumed(job: Json) -> bool:
            return len(job["attempts"]) > number and job["attempts"][number]["first_step_at"]

        job = self._watch("digits", "is placed again and resumes", resumed)
        found = interruption(job["attempts"][number - 1], job["attempts"][number], at)
        self._summary.interruptions.append(found)
        self._judge(found, notice_s > 0)

    def _judge(self, found: Interruption, announced: bool) -> None:
        redone = f"{found.steps_redone} steps redone, {found.resume_seconds:.1f} s to the next step"
        seen = f"resumed from step {found.resumed_step}; {redone}"
        interval = int(TRAINING["checkpoint_every_steps"])
        name = "resumed after the notice" if announced else "resumed after the kill"
        most = 0 if announced else interval
        held = found.notice is announced and found.resumed_step > 0 and found.steps_redone <= most
        self._held(name, held, seen)

    def _watch(self, name: str, text: str, wanted: Callable[[Json], Any]) -> Json:
        """Follow a job's progress until it is as wanted."""
        end = time.monotonic() + LIMIT_S
        with self._screen.progress(f"{name} {text}") as update:
            while time.monotonic() < end:
                job = self._ana.job(name)
                if wanted(job):
                    return job
                if job["state"] in ("failed", "cancelled"):
                    raise StateError(f"Job {name} {job['state']}: {job['message']}")
                step, total = job["step"] or 0, job["total_steps"]
                where = f"step {step} of {total}" if total else job["state"]
                update(f"{name} {text}: {where}", done=step, of=total)
                time.sleep(_LOOK_EVERY_S)
        raise StateError(f"Job {name} did not get there within {LIMIT_S:.0f} s: {text}.")

    # 5

    def _proof(self, job: Json, reference: Json) -> None:
        self._screen.step(5, "The proof")
        summary, result = self._summary, job["result"] or {}
        summary.accuracy = result.get("accuracy")
        summary.weights_sha256 = result.get("weights_sha256")
        summary.reference_weights_sha256 = (reference["result"] or {}).get("weights_sha256")
        done = job["state"] == "succeeded" and reference["state"] == "succeeded"
        self._held("both jobs ended well", done, f"{job['state']}, {reference['state']}")
        accuracy = summary.accuracy or 0.0
        self._held("it learned", accuracy >= 0.9, f"test accuracy {accuracy:.1%}")
        undisturbed = len(reference["attempts"]) == 1
        self._held("the reference was not interrupted", undisturbed, "one attempt")
        same = summary.weights_sha256 is not None and (
            summary.weights_sha256 == summary.reference_weights_sha256
        )
        seen = f"SHA-256 {str(summary.weights_sha256)[:16]}… and "
        seen += f"{str(summary.reference_weights_sha256)[:16]}…"
        self._held("the weights are bit-identical", same, seen)

    # 6

    def _money(self, job: Json) -> None:
        self._screen.step(6, "The money")
        by_job = self._admin.costs({"team": "vision", "group_by": "job"})
        by_person = self._admin.costs({"team": "vision", "group_by": "person"})
        currency = by_job["currency"]
        rows = [
            [
                row["name"],
                shown(row["cost"], currency),
                shown(row["on_demand_cost"], currency),
                duration(Decimal(str(row["hours"]))),
            ]
            for row in (*by_person["rows"], *by_job["rows"])
        ]
        columns = ["", "cost", "on demand", "machine time"]
        self._screen.table("Prices of the local provider are settings.", columns, rows)
        summary = self._summary
        summary.cost, summary.on_demand_cost = job_costs(by_job, "digits")
        summary.currency, summary.forecast = currency, by_job["forecast"]
        saved = float(summary.on_demand_cost) - float(summary.cost)
        spot, list_price = shown(summary.cost, currency), shown(summary.on_demand_cost, currency)
        cheaper = f"{spot} instead of {list_price} on demand"
        self._held("spot was cheaper", saved > 0, cheaper)
        intervals = list(self._admin.usage_intervals(job["id"]))
        told = f"{len(intervals)} usage intervals of {len(job['attempts'])} attempts"
        self._held("every machine was metered", len(intervals) == len(job["attempts"]), told)
        self._screen.say(
            f"spent {shown(by_job['budget_spent'], currency)} "
            f"of {shown(by_job['budget_amount'], currency)}; forecast to the month's end "
            f"{shown(by_job['forecast'], currency)} ({by_job['forecast_note']})"
        )
        page = Path(tempfile.mkdtemp(prefix="roost-report-")) / "report.html"
        page.write_text(self._admin.report("vision"))
        summary.report = str(page)
        chart = "<svg" in page.read_text()
        self._held("the report is written, with a chart", chart, str(page))

    def _leave(self) -> None:
        self._ana.delete_workstation("desk")

        def gone() -> bool:
            return not list(self._admin.instances(live=True)) and not list(self._ana.workstations())

        self._until("the machines go away", gone)

    # what all steps use

    def _held(self, claim: str, held: bool, seen: str) -> None:
        self._screen.held(self._summary.check(claim, bool(held), seen))

    def _why(self, target: str) -> str:
        for decision in self._ana.explain(target)["items"]:
            if decision["action"] in ("stop", "terminate"):
                return str(decision["text"])
        return "no decision is stored"

    def _until(self, text: str, found: Callable[[], T | None]) -> T:
        started = time.monotonic()
        with self._screen.progress(text):
            while time.monotonic() - started < LIMIT_S:
                value = found()
                if value:
                    break
                time.sleep(_LOOK_EVERY_S)
            else:
                raise StateError(f"This did not happen within {LIMIT_S:.0f} s: {text}.")
        self._screen.say(f"[dim]{text}: {time.monotonic() - started:.1f} s[/]")
        return value


ON_DEMAND: Json = {"mode": "on-demand"}


def _job(name: str, mode: str) -> Json:
    return {
        "name": name,
        "recipe": "image-classification",
        "config": TRAINING,
        "cpus": 1,
        "memory_gib": 1,
        "mode": mode,
        "max_runtime_s": 900,
        "grace_s": 8,
    }


def _is_at(job: Json, share: float) -> bool:
    """Far enough, with a checkpoint, on a machine that trains."""
    attempt = job["attempts"][-1] if job["attempts"] else None
    return (
        attempt is not None
        and job["state"] == "running"
        and job["total_steps"] is not None
        and (attempt["step"] or 0) >= share * job["total_steps"]
        and (attempt["checkpoint_step"] or 0) > 0
    )


def _ended(job: Json) -> bool:
    return job["state"] in ("succeeded", "failed", "cancelled")


def shown(amount: str | None, currency: str) -> str:
    """An amount as people read it."""
    return money(None if amount is None else Decimal(amount), currency)


def job_costs(view: Json, name: str) -> tuple[str, str]:
    """What a job cost, and would have cost on demand."""
    row = next(row for row in view["rows"] if row["name"] == name)
    return str(row["cost"]), str(row["on_demand_cost"])
