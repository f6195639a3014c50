from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from provisioner.store import actions
from provisioner.store.actions import ActionRow, ActionState, CallKind
from provisioner.store.engine import Store
from provisioner.store.tables import action

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
ROW = ActionRow(
    id="act_1",
    kind=CallKind.LAUNCH,
    subject_id="ins_1",
    provider="fake",
    state=ActionState.INTENDED,
    epoch=1,
    tries=0,
    not_before=NOW,
    error_code=None,
    error=None,
    decision_id=None,
    created_at=NOW,
    updated_at=NOW,
)


@pytest.mark.parametrize("open_state", [ActionState.INTENDED, ActionState.SUBMITTED])
def test_the_database_itself_allows_one_open_action_a_subject(
    store: Store, open_state: ActionState
) -> None:
    with store.write() as connection:
        assert actions.insert(connection, replace(ROW, state=open_state))
        assert not actions.insert(connection, replace(ROW, id="act_2", kind=CallKind.TERMINATE))
    values = {n: getattr(ROW, n) for n in ActionRow.__dataclass_fields__} | {"id": "act_2"}
    with pytest.raises(IntegrityError), store.write() as connection:
        connection.execute(action.insert().values(values))


@pytest.mark.parametrize(
    "closed", [ActionState.DONE, ActionState.FAILED, ActionState.ABANDONED], ids=str
)
def test_a_closed_action_makes_room_for_the_next(store: Store, closed: ActionState) -> None:
    with store.write() as connection:
        actions.insert(connection, ROW)
        actions.update(connection, ROW.id, closed, NOW)
        assert actions.insert(connection, replace(ROW, id="act_2"))
        found = actions.open_of(connection, "ins_1")
        assert found is not None
        assert found.id == "act_2"


def test_due_are_the_open_ones_whose_time_has_come_oldest_first(store: Store) -> None:
    def row(n: int, **changes: object) -> ActionRow:
        values = {"id": f"act_{n}", "subject_id": f"ins_{n}", **changes}
        return replace(ROW, **values)  # type: ignore[arg-type]

    later = NOW + timedelta(seconds=5)
    with store.write() as connection:
        actions.insert(connection, row(3))
        actions.insert(connection, row(1, created_at=NOW - timedelta(seconds=9)))
        actions.insert(connection, row(2, state=ActionState.SUBMITTED))
        actions.insert(connection, row(4, not_before=later))
        actions.insert(connection, row(5))
        actions.update(connection, "act_5", ActionState.DONE, NOW)
        assert [a.id for a in actions.due(connection, NOW)] == ["act_1", "act_2", "act_3"]
        assert [a.id for a in actions.due(connection, later)][-1] == "act_4"
