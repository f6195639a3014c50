"""From a snapshot and the policies to a plan: the one pure function that all decisions come from.

    select -> constrain -> propose -> arbitrate -> place

Level-triggered: it looks at the world as it is and asks for what is missing, so a lost event, a
missed tick or a crash needs no repair. It acts on nothing, and equal input in any order gives the
equal plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from policies.instances import decide_instance
from policies.jobs import decide_job
from policies.language import Policy
from policies.plan import Decision, Plan
from policies.teams import decide_team
from policies.view import View
from policies.workstations import decide_workstation
from policies.world import Snapshot


def decide(snapshot: Snapshot, policies: Sequence[Policy]) -> Plan:
    """One decision for each workstation, job, live instance and team budget, with its reasons.

    Seats and machines go to those who have waited longest: workstations first, then jobs in the
    order of their queue.
    """
    view = View(snapshot, policies)
    workstations = sorted(
        snapshot.workstations, key=lambda w: (w.waiting_since or snapshot.now, w.id)
    )
    jobs = sorted(snapshot.jobs, key=lambda job: (job.queued_at, job.id))
    decisions: list[Decision] = [
        *(decide_workstation(view, workstation) for workstation in workstations),
        *(decide_job(view, job) for job in jobs),
        *(decide_instance(view, i) for i in snapshot.instances if i.state.live),
        *(decide_team(view, budget) for budget in snapshot.budgets),
    ]
    decisions.sort(key=lambda d: (d.target_kind.value, d.target_id))
    return Plan(snapshot.id, tuple(decisions))
