"""What has changed between two tables of one source."""

from __future__ import annotations

from dataclasses import dataclass

from provisioner.offers.table import Table

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Diff:
    """How many offers are new, gone, or have another price; some of each by id."""

    added: int = 0
    removed: int = 0
    repriced: int = 0
    examples: tuple[str, ...] = ()
    """`+ id`, `- id`, `~ id 0.30 -> 0.35`."""


NOTHING = Diff()


def difference(before: Table, after: Table) -> Diff:
    """What `after` has that `before` had not, and the other way round."""
    if not len(before):
        return Diff(added=len(after))
    was, now = before.prices(), after.prices()
    if was == now:
        return NOTHING
    added = [id for id in now if id not in was]
    removed = [id for id in was if id not in now]
    repriced = [id for id, price in now.items() if id in was and was[id] != price]
    examples = (
        *(f"+ {id}" for id in added[:EXAMPLES]),
        *(f"- {id}" for id in removed[:EXAMPLES]),
        *(f"~ {id} {was[id]:g} -> {now[id]:g}" for id in repriced[:EXAMPLES]),
    )
    return Diff(len(added), len(removed), len(repriced), examples)
