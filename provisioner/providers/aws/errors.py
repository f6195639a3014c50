"""What AWS says, in the provider's errors: one table, and what to do about each.

Codes: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

import re

from botocore import exceptions as boto  # type: ignore[import-untyped]

from provisioner.errors import (
    Ambiguous,
    AuthError,
    CapacityError,
    InvalidRequest,
    NotFound,
    ProviderError,
    QuotaError,
    ThrottledError,
)

_CAPACITY = frozenset(
    {
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientCapacity",
        "InsufficientCapacityOnHost",
        "InsufficientAddressCapacity",
        "InsufficientFreeAddressesInSubnet",
        "InsufficientVolumeCapacity",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
        "Unsupported",
        "UnsupportedHostConfiguration",
        "ReservationCapacityExceeded",
    }
)
_QUOTA = frozenset(
    {
        "VcpuLimitExceeded",
        "InstanceLimitExceeded",
        "MaxSpotInstanceCountExceeded",
        "MaxSpotFleetRequestCountExceeded",
        "VolumeLimitExceeded",
        "MaxIOPSLimitExceeded",
        "SnapshotLimitExceeded",
        "ConcurrentSnapshotLimitExceeded",
        "PendingSnapshotLimitExceeded",
        "AttachmentLimitExceeded",
        "AddressLimitExceeded",
        "SecurityGroupLimitExceeded",
        "NetworkInterfaceLimitExceeded",
        "ResourceLimitExceeded",
        "InstanceLimitExceededException",
    }
)
_THROTTLED = frozenset(
    {
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
        "RequestThrottled",
        "RequestThrottledException",
        "EC2ThrottledException",
        "SlowDown",
        "BandwidthLimitExceeded",
        "SnapshotCreationPerVolumeRateExceeded",
        "VolumeModificationRateExceeded",
    }
)
_CREDENTIALS = "Give the control plane valid AWS credentials (environment, profile or role)."
_PERMISSION = "Give its role the policy in docs/reference/aws.md."
_CLOCK = "Correct the clock of the control plane's host; AWS allows five minutes."
_REGION = "Enable the region in the account, or take it out of the setting `aws.regions`."
_ACCOUNT = "Finish what AWS asks of the account: see its console and mail."
_AUTH = {
    "AuthFailure": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "UnrecognizedClientException": _CREDENTIALS,
    "InvalidAccessKeyId": _CREDENTIALS,
    "MissingAuthenticationToken": _CREDENTIALS,
    "MissingAuthenticationTokenException": _CREDENTIALS,
    "IncompleteSignature": _CREDENTIALS,
    "ExpiredToken": "Renew the credentials: their session has expired.",
    "ExpiredTokenException": "Renew the credentials: their session has expired.",
    "SignatureDoesNotMatch": f"{_CREDENTIALS} {_CLOCK}",
    "InvalidSignatureException": f"{_CREDENTIALS} {_CLOCK}",
    "RequestExpired": _CLOCK,
    "RequestTimeTooSkewed": _CLOCK,
    "UnauthorizedOperation": _PERMISSION,
    "AccessDenied": _PERMISSION,
    "AccessDeniedException": _PERMISSION,
    "OptInRequired": _REGION,
    "PendingVerification": _ACCOUNT,
    "Blocked": _ACCOUNT,
    "AccountDisabled": _ACCOUNT,
}
_WRONG_STATE = frozenset(
    {
        "IncorrectState",
        "IncorrectInstanceState",
        "IncorrectSpotRequestState",
        "VolumeInUse",
        "VolumeModificationInProgress",
        "DependencyViolation",
        "ResourceInUse",
        "InvalidSnapshot.InUse",
        "OperationNotPermitted",
    }
)
_INVALID = re.compile(
    r"Invalid\w*(\.(?!.*NotFound).*)?|Malformed.*|Missing\w*|Unknown\w*|Unsupported\w+|"
    r"ValidationError|ValidationException|IdempotentParameterMismatch|UserDataLimitExceeded|"
    r"TagLimitExceeded|TagPolicyViolation|VPCIdNotSpecified|"
    r"EncryptedVolumesNotSupported|ParameterNotFound|ClientInvalidParameterValue"
)
_MACHINE_GONE = frozenset({"InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"})
_CAPACITY_LIKE = re.compile(r"capacity|insufficient|unfulfill|no.?available|try.again.later", re.I)
_QUOTA_LIKE = re.compile(r"(limit|quota|count|maximum)\w*exceed", re.I)
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+")

DEFINITE = _CAPACITY | _QUOTA
"""Codes that tell how it is, some of them with status 500: to try the same again is in vain."""
REFUSED = DEFINITE | _THROTTLED
"""Codes that tell that nothing has happened, whatever their status."""

NOT_SENT = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.ProxyConnectionError,
    boto.SSLError,
)
"""No connection came about, so nothing reached AWS."""
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.ProfileNotFound,
    boto.TokenRetrievalError,
    boto.UnauthorizedSSOTokenError,
    boto.SSOTokenLoadError,
    boto.NoAuthTokenError,
)


def translated(error: Exception, what: str, *, changes: bool, sent: bool) -> ProviderError:
    """The provider's error for one of botocore's.

    `what` names the call for people, `changes` whether it changes anything, and `sent` whether any
    of its attempts may have reached AWS without a clear answer.
    """
    if isinstance(error, boto.ClientError):
        response = error.response
        detail = response.get("Error", {})
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return of_code(
            str(detail.get("Code", "")),
            str(detail.get("Message", "")),
            what,
            unclear=changes and (status >= 500 or sent),
        )
    if isinstance(error, _NO_CREDENTIALS):
        return AuthError(f"{what}: {error}", remedy=_CREDENTIALS)
    if isinstance(error, (boto.ParamValidationError, boto.NoRegionError, ValueError)):
        return InvalidRequest(f"{what} is not possible: {error}")
    if isinstance(error, NOT_SENT) and not sent:
        return ProviderError(
            f"{what}: AWS cannot be reached: {error}",
            remedy="Check the network and the setting `aws.endpoint_url`.",
        )
    if changes:
        return Ambiguous(f"{what}: no answer came from AWS, it may have happened: {error}")
    return ProviderError(f"{what}: AWS does not answer: {error}", remedy="It is asked again.")


def of_code(code: str, message: str, what: str, *, unclear: bool = False) -> ProviderError:
    """The provider's error for a code of AWS; `unclear` when an unknown one settles nothing."""
    message = _ENCODED.sub("", message).strip()
    told = f"{what}: {message or 'refused'} ({code or 'no code'})"
    if code in _AUTH:
        return AuthError(told, remedy=_AUTH[code])
    kind = _kind(code, message, unclear)
    return kind(told, remedy=_REMEDIES.get(code) or _REMEDIES.get(kind.code))


def code_of(error: ProviderError) -> str:
    """AWS's own code for what became this error; empty when it has none."""
    cause = error.__cause__
    if isinstance(cause, boto.ClientError):
        return str(cause.response.get("Error", {}).get("Code", ""))
    return ""


def _kind(code: str, message: str, unclear: bool) -> type[ProviderError]:
    if code in _CAPACITY:
        return CapacityError
    if code in _THROTTLED:
        return ThrottledError
    if code in _QUOTA or _QUOTA_LIKE.search(code):
        return QuotaError
    if code in _MACHINE_GONE:
        return NotFound
    if code in _WRONG_STATE or code.endswith(".NotFound"):
        return ProviderError
    if _INVALID.fullmatch(code):
        return InvalidRequest
    if unclear and not _CAPACITY_LIKE.search(code):
        return Ambiguous
    return CapacityError if _CAPACITY_LIKE.search(f"{code} {message}") else ProviderError


_REMEDIES = {
    "OperationNotPermitted": "Turn off its protection in the AWS console.",
    QuotaError.code: "Ask AWS for more in its Service Quotas console, or stop something.",
    Ambiguous.code: "It may have happened: its state is looked at before it is tried again.",
}
