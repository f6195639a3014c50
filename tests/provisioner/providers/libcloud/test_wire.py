"""Calls over real HTTP: what becomes of errors, and that no thread gets another's answer."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from libcloud.compute.drivers.digitalocean import DigitalOcean_v2_NodeDriver

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
from provisioner.providers.libcloud.cloud import Cloud
from provisioner.providers.libcloud.clouds.digitalocean import DigitalOcean
from provisioner.providers.libcloud.connections import Clouds
from provisioner.providers.libcloud.marks import Owner, words
from provisioner.providers.libcloud.refusals import LONGEST_MESSAGE, message_of
from provisioner.providers.libcloud.settings import CloudSettings
from provisioner.providers.libcloud.wire import TIMEOUT_S, Wire, driver_class
from tests.clouds.libcloud_fixtures.recorded import Call, Recorded


def wire(url: str, connect: Callable[[], Any] | None = None) -> Wire:
    kind = driver_class(DigitalOcean_v2_NodeDriver, url)
    return Wire(connect or (lambda: kind("token").connection), (), "The cloud")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"message": "name is wrong"}, InvalidRequest),
        (401, {"message": "Unable to authenticate you"}, AuthError),
        (403, {"message": "You do not have access"}, AuthError),
        (403, {"message": "Quota exceeded for cores"}, QuotaError),
        (404, {"message": "not found"}, NotFound),
        (409, {"message": "it is locked"}, ProviderError),
        (422, {"message": "region is invalid"}, InvalidRequest),
        (429, {"message": "Too many requests"}, ThrottledError),
        (429, {"message": "quota of calls exceeded"}, ThrottledError),
        (500, {"message": "Insufficient capacity"}, CapacityError),
        (503, {"message": "AllocationFailed"}, CapacityError),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_clouds_have_in_common(
    recorded_cloud: Recorded, status: int, body: dict[str, str], kind: type[ProviderError]
) -> None:
    recorded_cloud.on("POST", "/x", body, status=status)
    with pytest.raises(ProviderError) as error:
        wire(recorded_cloud.url).post("/x", {})
    assert type(error.value) is kind
    assert body["message"] in str(error.value)


def test_a_server_error_may_have_taken_effect_only_where_something_was_asked(
    recorded_cloud: Recorded,
) -> None:
    for method in ("GET", "POST"):
        recorded_cloud.on(method, "/x", {"message": "oops"}, status=502)
    calls = wire(recorded_cloud.url)
    with pytest.raises(Ambiguous):
        calls.post("/x", {})
    for read in (lambda: calls.get("/x"), lambda: calls.ask("/x", {})):
        with pytest.raises(ProviderError) as error:
            read()
        assert type(error.value) is ProviderError


def test_an_answer_that_is_cut_off_may_have_taken_effect(recorded_cloud: Recorded) -> None:
    for method in ("GET", "POST"):
        recorded_cloud.on(method, "/x", status=0)
    calls = wire(recorded_cloud.url)
    with pytest.raises(Ambiguous):
        calls.post("/x", {})
    assert len(recorded_cloud.told("POST")) == 1  # nothing sends it twice
    with pytest.raises(ProviderError) as error:
        calls.get("/x")
    assert type(error.value) is ProviderError


def test_an_answer_that_cannot_be_read_may_have_taken_effect(recorded_cloud: Recorded) -> None:
    recorded_cloud.on("POST", "/x", "not json")
    with pytest.raises(Ambiguous):
        wire(recorded_cloud.url).post("/x", {})


def test_what_was_never_sent_has_not_happened() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ProviderError) as error:
            wire(url).post("/x", {})
    assert type(error.value) is ProviderError


def test_the_clouds_advice_when_to_come_back_is_kept(recorded_cloud: Recorded) -> None:
    recorded_cloud.on("GET", "/x", {"message": "slow"}, status=429, headers={"Retry-After": "37"})
    with pytest.raises(ThrottledError) as error:
        wire(recorded_cloud.url).get("/x")
    assert error.value.retry_after_s == 37.0


def test_it_signs_in_anew_once_when_it_is_not_let_in_any_more(recorded_cloud: Recorded) -> None:
    signed_in: list[int] = []

    def connect() -> Any:
        signed_in.append(1)
        return driver_class(DigitalOcean_v2_NodeDriver, recorded_cloud.url)("token").connection

    recorded_cloud.on("POST", "/x", {"ok": True})
    calls = wire(recorded_cloud.url, connect)
    calls.post("/x", {})
    recorded_cloud.on("POST", "/x", {"message": "expired"}, status=401, count=1)
    assert calls.post("/x", {}) == {"ok": True}
    assert len(signed_in) == 2
    recorded_cloud.on("POST", "/x", {"message": "expired"}, status=401)
    with pytest.raises(AuthError):
        calls.post("/x", {})
    assert len(signed_in) == 3


def test_calls_have_a_limit_and_libcloud_itself_is_left_as_it_was(
    recorded_cloud: Recorded,
) -> None:
    before = DigitalOcean_v2_NodeDriver.connectionCls.conn_class
    connection = driver_class(DigitalOcean_v2_NodeDriver, recorded_cloud.url)("token").connection
    recorded_cloud.on("GET", "/x", {})
    connection.request("/x")
    assert connection.connection.session.timeout == TIMEOUT_S
    assert DigitalOcean_v2_NodeDriver.connectionCls.conn_class is before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"error": {"code": "SkuNotAvailable", "message": "none"}}', "SkuNotAvailable: none"),
        ('{"forbidden": {"code": 403, "message": "Quota exceeded"}}', "Quota exceeded"),
        ('{"errors": [{"reason": "Invalid region", "field": "region"}]}', "Invalid region"),
        ('{"error": "Bad request", "status": 400}', "Bad request"),
        ("<R><Errors><Error><Code>A.B</Code><Message>no</Message></Error></Errors></R>", "A.B: no"),
        ("<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        ("<broken", "<broken"),
        ('{"broken', '{"broken'),
        ("", ""),
    ],
    ids=str,
)
def test_the_sentence_for_people_is_found(body: str, message: str) -> None:
    assert message_of(body) == message


def test_a_page_of_html_is_no_message() -> None:
    assert len(message_of("<p>" + "x" * 5000)) == LONGEST_MESSAGE


def test_each_thread_gets_its_own_answers(
    recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One driver for all threads mixes them up: 2 of 480 were another thread's."""
    monkeypatch.setenv("TOKEN", "t")
    settings = CloudSettings(
        name="ocean",
        driver="digitalocean",
        secrets={"token": "env:TOKEN"},  # type: ignore[dict-item]
        regions=("nyc3",),
        endpoint_url=recorded_cloud.url,
    )

    def droplet(call: Call) -> dict[str, Any]:
        name = call.path.rpartition("/")[2]
        when = "2026-01-01T00:00:00Z"
        return {
            "droplet": {
                "id": name,
                "status": "active",
                "size_slug": name,
                "region": {"slug": "nyc3"},
                "created_at": when,
                "tags": tags,
            }
        }

    owner = Owner("test", "ocean")
    tags = words(owner.marks, 255)
    recorded_cloud.on("GET", "/v2/droplets/.*", droplet)
    clouds = Clouds(lambda region: DigitalOcean(settings, owner, region), ("",))

    def ask(number: int) -> bool:
        found = clouds.at("").server(str(number))
        return found is not None and (found.id, found.size) == (str(number), str(number))

    here = Barrier(8)

    def own(_: int) -> Cloud:
        here.wait(timeout=20)
        return clouds.at("")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(480)))
        assert len(set(pool.map(own, range(8)))) == 8
    assert clouds.at("") is clouds.at("")
