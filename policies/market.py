"""What stands between an offer and a machine beside the policies: cooldowns, closures, quotas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from policies.moments import at
from policies.plan import Rank, Reason
from policies.world import Closure, Cooldown, Offer, Quota


class Barriers:
    """Answers for one offer after the other, each in time that does not grow with their number."""

    def __init__(
        self,
        cooldowns: Iterable[Cooldown],
        closures: Iterable[Closure],
        quotas: Iterable[Quota],
        now: datetime,
    ) -> None:
        self._now = now
        self._cooldowns: dict[str, Cooldown] = {}
        for cooldown in sorted(cooldowns, key=lambda c: (c.scope, c.until, c.reason)):
            if cooldown.until > now:
                self._cooldowns[cooldown.scope] = cooldown
        self._closures = {closure.scope: closure for closure in closures}
        self._quotas: dict[tuple[str, str], list[Quota]] = {}
        for quota in quotas:
            self._quotas.setdefault((quota.provider, quota.region), []).append(quota)

    def reason(self, offer: Offer) -> Reason | None:
        """Why an offer cannot be had now; None when nothing stands in its way."""
        return self._closed(offer) or self._cooling(offer) or self._over_quota(offer)

    def _closed(self, offer: Offer) -> Reason | None:
        found = closing(self._closures, offer)
        if found is None:
            return None
        text = f"{found.scope} is closed: {found.reason}. {found.remedy}"
        return Reason(Rank.SAFETY, "closed", text, observed=found.scope)

    def _cooling(self, offer: Offer) -> Reason | None:
        covering = [self._cooldowns[s] for s in _scopes(offer) if s in self._cooldowns]
        if not covering:
            return None
        last = max(covering, key=lambda cooldown: cooldown.until)
        until = at(last.until, self._now)
        text = f"{last.scope} is not tried until {until} UTC: {last.reason}"
        return Reason(Rank.SAFETY, "cooldown", text, observed=last.scope, threshold=until)

    def _over_quota(self, offer: Offer) -> Reason | None:
        for quota in self._quotas.get((offer.provider, offer.region), ()):
            needed, left = quota.needed(offer), quota.limit - quota.used
            if needed > left:
                text = (
                    f"{quota.name} in {quota.region} is {quota.limit:g} {quota.unit}, of which "
                    f"{quota.used:g} are used, and this takes {needed:g}"
                )
                wanted = f"{needed:g} {quota.unit}"
                return Reason(
                    Rank.SAFETY, "quota", text, observed=f"{left:g} left", threshold=wanted
                )
        return None


def closing(closures: Mapping[str, Closure], offer: Offer) -> Closure | None:
    """Of closures by scope, the widest that an offer is under; None when it is open."""
    return next((closures[scope] for scope in _scopes(offer) if scope in closures), None)


def _scopes(offer: Offer) -> Iterator[str]:
    """All that an offer is under, the widest first; its type in any zone of its region too."""
    parts = offer.id.split("/")
    yield from ("/".join(parts[:end]) for end in range(1, len(parts)))
    yield "/".join((*parts[:2], "*", *parts[3:]))
    yield offer.id
