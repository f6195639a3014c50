"""The errors of Roost.

RoostError                  says what, which one, and what to do next
├── NotFoundError           no such thing, or not yours to see
├── ConflictError           it clashes with what is there
├── InvalidError            the request makes no sense
├── UnauthenticatedError    no valid token
├── ForbiddenError          not allowed for this person
├── RefusedError            a policy or a budget says no
├── StateError              the state folder, database or port cannot be used
└── ProviderError           a provider said no; one reaction each, in reconcile/reactions.py
    ├── CapacityError       no machine of this offer now
    ├── QuotaError          the account's limit is reached
    ├── ThrottledError      too many calls
    ├── AuthError           credentials are wrong
    ├── InvalidRequest      this request can never work
    ├── NotFound            no such machine
    └── Ambiguous           it may or may not have happened
"""

from __future__ import annotations


class RoostError(Exception):
    """Base of all. `message` says what and which; `remedy` what to do; `code` is stable."""

    code = "error"

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        if not self.remedy:
            return self.message
        end = "" if self.message.endswith((".", "!", "?", ":")) else "."
        return f"{self.message}{end} {self.remedy}"


class NotFoundError(RoostError):
    code = "not-found"


class ConflictError(RoostError):
    code = "conflict"


class InvalidError(RoostError):
    code = "invalid"


class UnauthenticatedError(RoostError):
    code = "unauthenticated"


class ForbiddenError(RoostError):
    code = "forbidden"


class RefusedError(RoostError):
    """A policy allows nothing that fits, or the budget has no room."""

    code = "refused"


class BudgetExceededError(RefusedError):
    code = "budget-exceeded"


class StateError(RoostError):
    code = "state"


class StaleEpochError(StateError):
    """Another reconciler holds the lease: this one must not write any more."""

    code = "stale-epoch"


class ProviderError(RoostError):
    """Base of what a provider call may raise."""

    code = "provider"


class CapacityError(ProviderError):
    code = "capacity"


class QuotaError(ProviderError):
    code = "quota"


class ThrottledError(ProviderError):
    """`retry_after_s` is the provider's own advice, None without one."""

    code = "throttled"

    def __init__(
        self, message: str, *, remedy: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after_s = retry_after_s


class AuthError(ProviderError):
    code = "auth"


class InvalidRequest(ProviderError):  # noqa: N818 (the contract's name for it)
    code = "invalid-request"


class NotFound(ProviderError):  # noqa: N818
    code = "machine-not-found"


class Ambiguous(ProviderError):  # noqa: N818
    code = "ambiguous"
