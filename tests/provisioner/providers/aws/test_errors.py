"""What AWS says becomes exactly one of the provider's errors."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

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
from provisioner.providers.aws.errors import code_of, of_code, translated

CODES = {
    "InsufficientInstanceCapacity": CapacityError,
    "Unsupported": CapacityError,
    "UnfulfillableCapacity": CapacityError,
    "SpotMaxPriceTooLow": CapacityError,
    "InsufficientFooCapacity": CapacityError,
    "VcpuLimitExceeded": QuotaError,
    "MaxSpotInstanceCountExceeded": QuotaError,
    "VolumeLimitExceeded": QuotaError,
    "SomeNewLimitExceeded": QuotaError,
    "RequestLimitExceeded": ThrottledError,
    "ThrottlingException": ThrottledError,
    "UnauthorizedOperation": AuthError,
    "ExpiredToken": AuthError,
    "RequestExpired": AuthError,
    "SignatureDoesNotMatch": AuthError,
    "OptInRequired": AuthError,
    "InvalidInstanceID.NotFound": NotFound,
    "InvalidInstanceID.Malformed": NotFound,
    "IdempotentParameterMismatch": InvalidRequest,
    "InvalidParameterValue": InvalidRequest,
    "InvalidVolume.ZoneMismatch": InvalidRequest,
    "UnsupportedOperation": InvalidRequest,
    "MissingParameter": InvalidRequest,
    "IncorrectInstanceState": ProviderError,
    "IncorrectSpotRequestState": ProviderError,
    "VolumeInUse": ProviderError,
    "InvalidGroup.NotFound": ProviderError,
    "InvalidAMIID.NotFound": ProviderError,
    "OperationNotPermitted": ProviderError,
    "SomethingElse": ProviderError,
}


def said(code: str, status: int = 400, message: str = "words") -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        },
        "RunInstances",
    )


@pytest.mark.parametrize(("code", "kind"), CODES.items())
def test_each_code_is_one_error(code: str, kind: type[ProviderError]) -> None:
    error = translated(said(code), "launch", changes=True, sent=False)
    assert type(error) is kind
    assert code in str(error)
    assert "launch" in str(error)


def test_no_capacity_is_definite_although_its_status_is_500() -> None:
    error = translated(said("InsufficientInstanceCapacity", 500), "x", changes=True, sent=False)
    assert type(error) is CapacityError


@pytest.mark.parametrize("code", ["InternalError", "Unavailable", "500", ""])
def test_a_failing_server_may_have_done_what_was_asked(code: str) -> None:
    error = said(code, 503)
    assert type(translated(error, "x", changes=True, sent=False)) is Ambiguous
    assert type(translated(error, "x", changes=False, sent=False)) is ProviderError


def test_an_unknown_refusal_settles_nothing_after_an_attempt_without_an_answer() -> None:
    assert type(translated(said("Odd"), "x", changes=True, sent=True)) is Ambiguous
    assert type(translated(said("Odd"), "x", changes=True, sent=False)) is ProviderError


def test_silence_is_ambiguous_only_where_something_may_have_changed() -> None:
    silence = ReadTimeoutError(endpoint_url="http://x")
    assert type(translated(silence, "x", changes=True, sent=True)) is Ambiguous
    assert type(translated(silence, "x", changes=False, sent=True)) is ProviderError


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://x", error="refused"),
        ConnectTimeoutError(endpoint_url="http://x"),
    ],
)
def test_what_was_never_sent_has_not_happened(error: Exception) -> None:
    assert type(translated(error, "x", changes=True, sent=False)) is ProviderError
    # An earlier attempt went through, and only the last one did not.
    assert type(translated(error, "x", changes=True, sent=True)) is Ambiguous


def test_missing_credentials_say_what_to_do() -> None:
    error = translated(NoCredentialsError(), "x", changes=True, sent=False)
    assert type(error) is AuthError
    assert error.remedy is not None


def test_wrong_parameters_can_never_work() -> None:
    error = ParamValidationError(report="Missing X")
    assert type(translated(error, "x", changes=True, sent=False)) is InvalidRequest


def test_the_encoded_message_of_a_refusal_is_left_out() -> None:
    message = "You are not authorized. Encoded authorization failure message: " + "A1-" * 200
    error = of_code("UnauthorizedOperation", message, "x")
    assert "A1-" not in str(error)
    assert "docs/reference/aws.md" in str(error)


def test_the_code_is_kept_for_those_who_react_to_one() -> None:
    cause = said("VolumeInUse")
    error = translated(cause, "x", changes=True, sent=False)
    error.__cause__ = cause
    assert code_of(error) == "VolumeInUse"
    assert code_of(ProviderError("other")) == ""
