"""Carries out intents: one provider call each, between two short transactions.

`submitted` is written before the call and the outcome after it, so that whatever happens in
between is found again: the next tick sees the action and looks before it sends anything twice.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

from cost.usage import UsageKind
from policies.world import InstanceState, OwnerKind
from provisioner import crashpoints
from provisioner.calls import Calls
from provisioner.clock import Clock
from provisioner.crashpoints import Point
from provisioner.errors import Ambiguous, NotFound, ProviderError, StaleEpochError, ThrottledError
from provisioner.providers.contract import LaunchRequest, Leftover, Machine, Provider
from provisioner.reconcile.planning import intend
from provisioner.reconcile.reactions import Reaction, Rule, cooled_scope, retry_delay, rule_for
from provisioner.store import actions, cooldowns, instances, journal, ledger, workstations
from provisioner.store.actions import ActionRow, ActionState, CallKind
from provisioner.store.engine import Connection
from provisioner.store.instances import InstanceRow
from provisioner.store.ledger import Fact

I = InstanceState
_log = logging.getLogger(__name__)

TROUBLE_PAUSE = timedelta(hours=1)
"""How long a workstation whose launch can never work is left alone; starting it ends the pause."""

Fenced = Callable[[], AbstractContextManager[Connection]]
"""A write transaction of the current lease."""
Request = Callable[[Connection, InstanceRow], LaunchRequest]
"""Makes the launch request of an instance, the same one each time."""


class Performer:
    """Performs due actions; the same action never twice at once."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        calls: Calls,
        clock: Clock,
        request: Request,
        done: Callable[[], None],
    ) -> None:
        self._providers = providers
        self._calls = calls
        self._clock = clock
        self._request = request
        self._done = done
        self._busy: set[str] = set()
        self._lock = threading.Lock()

    def perform(self, due: list[ActionRow], fenced: Fenced) -> None:
        """Start each action that is not being performed already."""
        for action in due:
            provider = self._providers.get(action.provider)
            if provider is None or not self._claim(action.id):
                continue
            run = functools.partial(self._run, action, provider, fenced)
            self._calls.send(action.provider, run)

    def _claim(self, action_id: str) -> bool:
        with self._lock:
            if action_id in self._busy:
                return False
            self._busy.add(action_id)
            return True

    def _run(self, action: ActionRow, provider: Provider, fenced: Fenced) -> None:
        called = False
        try:
            called = self._perform(action, provider, fenced)
        except StaleEpochError:
            _log.warning("lost the lease while performing %s", action.id)
        finally:
            with self._lock:
                self._busy.discard(action.id)
        if called:  # else the next tick would come at once, again and again
            self._done()

    def _perform(self, action: ActionRow, provider: Provider, fenced: Fenced) -> bool:
        """Make the call if it is to be made now; whether it was."""
        with fenced() as connection:
            call = self._submit(connection, action, provider)
        if call is None:
            return False
        crashpoints.reach(Point.SUBMITTED, action.kind)
        machine, failure = _made(call, action)
        crashpoints.reach(Point.RETURNED, action.kind)
        with fenced() as connection:
            if failure is None:
                self._succeeded(connection, action, machine)
            else:
                self._failed(connection, action, failure)
        crashpoints.reach(Point.CLOSED, action.kind)
        return True

    def _submit(
        self, connection: Connection, action: ActionRow, provider: Provider
    ) -> Callable[[], Machine | None] | None:
        """Mark the action submitted; the call to make, or None when it is not to be made now."""
        now = self._clock.now()
        current = actions.get(connection, action.id)
        if current is None or current.state.value not in actions.OPEN:
            return None
        row = None
        if action.kind not in _WITHOUT_ROW:
            row = instances.get(connection, action.subject_id)
            if row is None or not row.state.live:
                actions.update(connection, action.id, ActionState.ABANDONED, now)
                return None
        if current.state is ActionState.SUBMITTED and not self._may_resend(current, provider):
            return None
        if action.kind is CallKind.LAUNCH and row is not None and row.state is I.PLANNED:
            row = instances.move(connection, row, I.LAUNCHING, "submitted", now)
        call = self._call(connection, action, row, provider)
        actions.update(connection, action.id, ActionState.SUBMITTED, now, tries=current.tries + 1)
        return call

    def _may_resend(self, action: ActionRow, provider: Provider) -> bool:
        """Whether a call whose outcome is unknown may be made again.

        All calls but a launch are idempotent (P5), and so is a launch with a token (P1). Without
        tokens the machine must have had the time to show in the listing, which adopts it.
        """
        can = provider.capabilities
        if action.kind is not CallKind.LAUNCH or can.client_tokens:
            return True
        wait = timedelta(seconds=2 * can.listing_lag_s + 60)
        return self._clock.now() - action.updated_at > wait

    def _call(
        self, connection: Connection, action: ActionRow, row: InstanceRow | None, on: Provider
    ) -> Callable[[], Machine | None]:
        if action.kind is CallKind.DELETE_VOLUME:
            return _without_result(lambda: on.delete_volume(action.subject_id))
        if action.kind is CallKind.COLLECT:
            machine_id = _stray(action)[1]
            return _without_result(lambda: on.terminate(machine_id))
        if action.kind is CallKind.TIDY:
            kind, _, id = _stray(action)[1].partition("/")
            return _without_result(lambda: on.delete_leftover(Leftover(kind, id)))
        assert row is not None
        if action.kind is CallKind.LAUNCH:
            request = self._request(connection, row)
            return lambda: on.launch(request)
        verb = {
            CallKind.START: on.start,
            CallKind.STOP: on.stop,
            CallKind.TERMINATE: on.terminate,
        }[action.kind]
        # Without an id the launch never came through, and its launch id is the machine's name.
        name = row.machine_id or row.launch_id
        return _without_result(lambda: verb(name))

    def _succeeded(
        self, connection: Connection, action: ActionRow, machine: Machine | None
    ) -> None:
        now = self._clock.now()
        current = actions.get(connection, action.id)
        if current is None or current.state is not ActionState.SUBMITTED:
            return  # the mirror closed it: it saw the machine before the reply came
        actions.update(connection, action.id, ActionState.DONE, now)
        if action.kind is CallKind.COLLECT:
            provider, machine_id = _stray(action)
            cooldowns.forget_stray(connection, provider, machine_id)
            journal.record(connection, now, "machine.collected", machine_id, provider=provider)
        elif action.kind is CallKind.TIDY:
            provider, name = _stray(action)
            cooldowns.forget_stray(connection, provider, name)
            journal.record(connection, now, "leftover.deleted", name, provider=provider)
        elif action.kind is CallKind.LAUNCH and machine is not None:
            row = instances.get(connection, action.subject_id)
            if row is not None and row.state is I.LAUNCHING:
                instances.note_offer(connection, row, machine.offer_id, now)
                instances.move(connection, row, I.BOOTING, "launched", now, machine_id=machine.id)

    def _failed(self, connection: Connection, action: ActionRow, error: ProviderError) -> None:
        now = self._clock.now()
        rule = rule_for(error)
        row = instances.get(connection, action.subject_id)
        journal.record(
            connection,
            now,
            "action.failed",
            action.subject_id,
            team_id=row.team_id if row else None,
            action=action.kind,
            error=error.code,
            message=str(error),
            reaction=rule.reaction,
            tell=rule.tell,
        )
        fields = {"error_code": error.code, "error": str(error)}
        scope = cooled_scope(rule.cools, row.offer.id) if row else None
        if scope is not None and action.kind is CallKind.LAUNCH:
            cooldowns.cool(connection, scope, str(error), rule.for_, now, rule.longest)
        if isinstance(error, NotFound):
            actions.update(connection, action.id, ActionState.DONE, now, **fields)
            self._gone(connection, action, row)
        elif action.kind is CallKind.LAUNCH and rule.reaction in _ENDS_LAUNCH and row is not None:
            actions.update(connection, action.id, ActionState.FAILED, now, **fields)
            if row.state in (I.PLANNED, I.LAUNCHING):
                instances.move(connection, row, I.FAILED, error.code, now, message=str(error))
            if row.state is I.BOOTING:
                # It is listed and cannot be finished: it goes, and its owner gets another.
                instances.move(
                    connection, row, I.TERMINATING, "launch-cut-off", now, message=str(error)
                )
                intend(connection, CallKind.TERMINATE, row.id, row.provider, action.epoch, now)
            elif rule.reaction is Reaction.GIVE_UP and row.owner_kind is OwnerKind.WORKSTATION:
                _break(connection, row, str(error), now)
        elif rule.reaction is Reaction.GIVE_UP and action.kind in _SWITCHES and row is not None:
            # It can be neither stopped nor started: it goes, and the home stays.
            actions.update(connection, action.id, ActionState.FAILED, now, **fields)
            instances.move(connection, row, I.TERMINATING, error.code, now, message=str(error))
            intend(connection, CallKind.TERMINATE, row.id, row.provider, action.epoch, now)
        else:
            self._again(connection, action, rule, error)

    def _again(
        self, connection: Connection, action: ActionRow, rule: Rule, error: ProviderError
    ) -> None:
        """Later; a call that may have worked stays submitted, so that it is looked at first."""
        now = self._clock.now()
        advice = error.retry_after_s if isinstance(error, ThrottledError) else None
        unclear = rule.reaction is Reaction.LOOK_FIRST
        actions.update(
            connection,
            action.id,
            ActionState.SUBMITTED if unclear else ActionState.INTENDED,
            now,
            not_before=now + retry_delay(action.tries, advice),
            error_code=error.code,
            error=str(error),
        )

    def _gone(self, connection: Connection, action: ActionRow, row: InstanceRow | None) -> None:
        now = self._clock.now()
        if action.kind is CallKind.DELETE_VOLUME:
            ended = Fact(action.subject_id, UsageKind.ENDED, now)
            ledger.add_events(connection, [ended], now)
            workstations.update_volume(connection, action.subject_id, deleted_at=now)
        elif action.kind in (CallKind.COLLECT, CallKind.TIDY):
            cooldowns.forget_stray(connection, *_stray(action))
        elif row is not None and row.machine_id is None and row.state is I.TERMINATING:
            instances.move(connection, row, I.TERMINATED, "never-launched", now)


def _made(
    call: Callable[[], Machine | None], action: ActionRow
) -> tuple[Machine | None, ProviderError | None]:
    """Make a call; what came of it, or how it failed."""
    try:
        return call(), None
    except ProviderError as error:
        return None, error
    except Exception as error:  # noqa: BLE001 (P7 is broken: nobody knows what it did)
        _log.exception("the call of %s failed in a way that it must not", action.id)
        return None, Ambiguous(f"Provider {action.provider} broke: {type(error).__name__}: {error}")


def _break(connection: Connection, row: InstanceRow, why: str, now: datetime) -> None:
    """Its workstation is told, and not given another machine until somebody could mend it."""
    if row.owner_id is not None:
        workstations.update(connection, row.owner_id, trouble=why, not_before=now + TROUBLE_PAUSE)


def _stray(action: ActionRow) -> tuple[str, str]:
    """The provider and the machine (or `kind/id`) that a COLLECT (or TIDY) is about."""
    provider, _, machine_id = action.subject_id.partition("/")
    return provider, machine_id


_WITHOUT_ROW = {CallKind.COLLECT, CallKind.DELETE_VOLUME, CallKind.TIDY}
"""Calls that are about no instance."""
_SWITCHES = {CallKind.STOP, CallKind.START}
_ENDS_LAUNCH = {Reaction.NEXT_OFFER, Reaction.GIVE_UP}


def _without_result(call: Callable[[], None]) -> Callable[[], Machine | None]:
    def made() -> None:
        call()

    return made
