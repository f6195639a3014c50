"""DigitalOcean's requests, against what libcloud's authors recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from provisioner.clock import ManualClock
from provisioner.errors import AuthError, CapacityError, ProviderError, QuotaError
from provisioner.providers.contract import MachineState
from provisioner.providers.libcloud import marks
from provisioner.providers.libcloud.marks import Owner, of_words, words
from provisioner.providers.libcloud.provider import LibcloudProvider
from provisioner.providers.libcloud.settings import CloudSettings
from tests.clouds.libcloud_fixtures.recorded import Recorded, recorded
from tests.contract.machines import wait_until
from tests.provisioner.providers.libcloud.conftest import offer, request

S = MachineState
OWNER = Owner("test", "ocean")
SIZE, REGION = "2gb", "ams2"
OFFER = offer(SIZE, REGION, provider="ocean", region=REGION)
ID = "3164444"


@pytest.fixture
def cloud(recorded_cloud: Recorded, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("TOKEN", "t0k3n")
    recorded_cloud.on("GET", "/v2/droplets", {"droplets": [], "meta": {"total": 0}})
    recorded_cloud.on("GET", "/v2/volumes", {"volumes": []})
    recorded_cloud.on("GET", "/v2/snapshots", {"snapshots": []})
    return recorded_cloud


@pytest.fixture
def provider(cloud: Recorded, clock: ManualClock) -> LibcloudProvider:
    settings = CloudSettings(
        name="ocean",
        driver="digitalocean",
        secrets={"token": "env:TOKEN"},  # type: ignore[dict-item]
        regions=(REGION, "sfo1"),
        endpoint_url=cloud.url,
    )
    return LibcloudProvider(settings, "test", clock)


def droplet(tags: Mapping[str, str], **changes: object) -> dict[str, Any]:
    """The recorded one, with marks of ours."""
    body = recorded("digitalocean_v2/list_node.json")["droplet"]
    return {**body, "size_slug": SIZE, "tags": words({**OWNER.marks, **tags}, 255), **changes}


def running(cloud: Recorded, **changes: object) -> dict[str, Any]:
    body = droplet({marks.LAUNCH: "one"}, **changes)
    cloud.on("GET", "/v2/droplets", {"droplets": [body]})
    cloud.on("GET", f"/v2/droplets/{ID}", {"droplet": body})
    return body


def test_all_requests_carry_the_token_and_no_url_does(
    provider: LibcloudProvider, cloud: Recorded
) -> None:
    provider.list()
    assert {call.headers["authorization"] for call in cloud.calls} == {"Bearer t0k3n"}
    assert "t0k3n" not in repr([(call.path, call.query) for call in cloud.calls])


def test_a_launch(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on(
        "POST",
        "/v2/droplets",
        lambda call: {"droplet": {**droplet({}), "tags": call.body["tags"], "status": "new"}},
        status=202,
    )
    made = provider.launch(request(offer=OFFER))
    assert (made.id, made.state, made.launch_id) == (ID, S.PENDING, "one")
    assert made.offer_id == OFFER.id
    (call,) = cloud.told("POST")
    told = of_words(call.body.pop("tags"))
    assert call.body == {
        "name": "roost-one",
        "region": REGION,
        "size": SIZE,
        "image": "ubuntu-24-04-x64",
        "user_data": "#!/bin/sh\n",
    }
    assert told == OWNER.marks | {
        "job": "j1",
        marks.LAUNCH: "one",
        marks.FINGERPRINT: told[marks.FINGERPRINT],
    }


def test_recorded_droplets_are_not_ours(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("GET", "/v2/droplets", recorded("digitalocean_v2/list_nodes.json"))
    assert provider.list().machines == ()
    assert cloud.told("GET", "/v2/droplets")[0].query["tag_name"] == "roost-installation:test"


def test_states_and_pages(provider: LibcloudProvider, cloud: Recorded) -> None:
    states = {"new": S.PENDING, "active": S.RUNNING, "off": S.STOPPED, "archive": S.TERMINATED}
    bodies = [
        droplet({marks.LAUNCH: status}, id=number, status=status)
        for number, status in enumerate(states)
    ]

    def page(call: Any) -> dict[str, Any]:
        number = int(call.query["page"])
        more = {"pages": {"next": "..."}} if number < len(bodies) else {}
        return {"droplets": bodies[number - 1 : number], "links": more}

    cloud.on("GET", "/v2/droplets", page)
    assert {one.launch_id: one.state for one in provider.list().machines} == states


def test_one_that_is_off_is_billed_on(provider: LibcloudProvider, cloud: Recorded) -> None:
    body = running(cloud, status="off")
    (machine,) = provider.list().machines
    assert machine.run_ended_at is None
    assert machine.run_started_at is not None
    assert machine.run_started_at.isoformat() == body["created_at"].replace("Z", "+00:00")
    cloud.on("GET", "/v2/sizes", recorded("digitalocean_v2/list_sizes.json"))
    assert {one.can_stop for one in provider.offers()} == {False}


@pytest.mark.parametrize(
    ("status", "verb", "action"),
    [
        ("active", "stop", {"type": "shutdown"}),
        ("off", "start", {"type": "power_on"}),
    ],
)
def test_stop_and_start(
    provider: LibcloudProvider, cloud: Recorded, status: str, verb: str, action: object
) -> None:
    running(cloud, status=status)
    answer = recorded("digitalocean_v2/ex_power_on_node.json")
    cloud.on("POST", f"/v2/droplets/{ID}/actions", answer, status=201)
    getattr(provider, verb)("one")
    assert [call.body for call in cloud.told("POST")] == [action]


def test_resize_and_terminate(provider: LibcloudProvider, cloud: Recorded) -> None:
    running(cloud, status="off")
    answer = recorded("digitalocean_v2/ex_resize_node.json")
    cloud.on("POST", f"/v2/droplets/{ID}/actions", answer, status=201)
    cloud.on("DELETE", f"/v2/droplets/{ID}", status=204)
    provider.resize(ID, offer("4gb", REGION, provider="ocean", region=REGION))
    (call,) = cloud.told("POST")
    assert call.body == {"type": "resize", "size": "4gb", "disk": False}
    provider.terminate(ID)
    assert len(cloud.told("DELETE")) == 1
    (machine,) = provider.list().machines
    assert machine.state is S.TERMINATING


def test_volumes(provider: LibcloudProvider, cloud: Recorded) -> None:
    made = recorded("digitalocean_v2/create_volume.json")["volume"]
    cloud.on(
        "POST",
        "/v2/volumes",
        lambda call: {"volume": {**made, "tags": call.body["tags"]}},
        status=201,
    )
    attached = recorded("digitalocean_v2/attach_volume.json")
    cloud.on("POST", "/v2/volumes/actions", attached, status=202)
    home = {marks.LAUNCH: "one", marks.VOLUME: "vol_1", marks.VOLUME_GIB: "4"}
    cloud.on("GET", "/v2/droplets", {"droplets": [droplet(home)]})
    provider.list()
    wait_until(lambda: cloud.told("POST", "/v2/volumes/actions"))
    (create,) = cloud.told("POST", "/v2/volumes")
    assert of_words(create.body.pop("tags")) == OWNER.marks | {marks.VOLUME: "vol_1"}
    assert create.body == {"name": "roost-vol-1", "region": REGION, "size_gigabytes": 4}
    (attach,) = cloud.told("POST", "/v2/volumes/actions")
    assert attach.body == {
        "type": "attach",
        "droplet_id": ID,
        "volume_name": made["name"],
        "region": made["region"]["slug"],
    }


def test_snapshots_of_volumes(provider: LibcloudProvider, cloud: Recorded) -> None:
    (volume,) = recorded("digitalocean_v2/list_volumes.json")["volumes"]
    volume["tags"] = words(OWNER.marks | {marks.VOLUME: "vol_1"}, 255)
    cloud.on("GET", "/v2/volumes", {"volumes": [volume]})
    made = recorded("digitalocean_v2/create_volume_snapshot.json")["snapshot"]
    path = f"/v2/volumes/{volume['id']}/snapshots"
    cloud.on(
        "POST", path, lambda call: {"snapshot": made | {"tags": call.body["tags"]}}, status=201
    )
    taken = provider.snapshot("vol_1", "snap_1")
    assert (taken.id, taken.volume_id, taken.complete) == ("snap_1", "vol_1", True)
    made["tags"] = cloud.told("POST", path)[0].body["tags"]
    cloud.on("GET", "/v2/snapshots", {"snapshots": [made]})
    cloud.on("DELETE", f"/v2/snapshots/{made['id']}", status=204)
    assert provider.list().snapshots == (taken,)
    provider.delete_snapshot("snap_1")
    assert len(cloud.told("DELETE")) == 1


def test_sizes_and_hourly_prices(provider: LibcloudProvider, cloud: Recorded) -> None:
    sizes = recorded("digitalocean_v2/list_sizes.json")
    sizes["sizes"].append(
        {
            "slug": "gpu-h100x8-640gb",
            "memory": 1966080,
            "vcpus": 160,
            "price_hourly": 23.92,
            "regions": [REGION],
            "available": True,
            "gpu_info": {"count": 8, "model": "nvidia_h100", "vram": {"amount": 640}},
        }
    )
    cloud.on("GET", "/v2/sizes", sizes)
    offers = {one.instance_type: one for one in provider.offers()}
    small = offers["512mb"]
    assert (small.resources.cpus, small.resources.memory_gib) == (1, 0.5)
    assert (small.price_per_hour, small.currency) == (Decimal("0.00744"), "USD")
    large = offers["gpu-h100x8-640gb"].resources
    assert (large.gpus, large.gpu_model) == (8, "H100")


def test_the_droplet_limit_is_known(provider: LibcloudProvider, cloud: Recorded) -> None:
    cloud.on("GET", "/v2/account", {"account": {"droplet_limit": 25}})
    cloud.on("GET", "/v2/droplets", {"droplets": [], "meta": {"total": 24}})
    here, there = provider.quotas()
    assert (here.limit, here.used, here.needed(OFFER)) == (25, 24, 1)
    assert (there.region, there.needed(OFFER)) == ("sfo1", 0)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, recorded("digitalocean_v2/error.json"), AuthError),
        (
            422,
            {
                "id": "unprocessable_entity",
                "message": "creating this/these droplet(s) will exceed your droplet limit",
            },
            QuotaError,
        ),
        (
            422,
            {
                "id": "unprocessable_entity",
                "message": "Size is not available in this region.",
            },
            CapacityError,
        ),
    ],
    ids=["auth", "quota", "capacity"],
)
def test_refusals(
    provider: LibcloudProvider,
    cloud: Recorded,
    status: int,
    body: Any,
    kind: type[ProviderError],
) -> None:
    cloud.on("POST", "/v2/droplets", body, status=status)
    with pytest.raises(kind):
        provider.launch(request(offer=OFFER))
