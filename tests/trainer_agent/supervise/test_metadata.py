from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.trainer_agent.supervise.control_plane import ControlPlane, wait_until
from tests.trainer_agent.supervise.machine import Machine
from tests.trainer_agent.supervise.metadata import Aws, Azure, Gce, Metadata
from trainer_agent.supervise.aws_metadata import AwsMetadata
from trainer_agent.supervise.azure_metadata import AzureMetadata
from trainer_agent.supervise.gce_metadata import GceMetadata
from trainer_agent.supervise.metadata_service import MetadataError, Watched, detected
from trainer_agent.supervise.notices import Notice
from trainer_agent.supervise.settings import Settings, SettingsError

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ACTION, REBALANCE = "spot/instance-action", "events/recommendations/rebalance"


class Noon:
    def now(self) -> datetime:
        return NOON


def test_aws_says_nothing_then_rebalance_then_reclaim() -> None:
    cloud = Aws()
    with cloud.served() as address:
        service = AwsMetadata(address)
        assert service.look() == ()
        cloud.items[REBALANCE] = '{"noticeTime": "2026-01-01T11:50:00Z"}'
        assert service.look() == (Notice("rebalance", "aws"),)
        cloud.items[ACTION] = '{"action": "terminate", "time": "2026-01-01T12:02:00Z"}'
        assert service.look() == (Notice("reclaim", "aws", NOON + timedelta(minutes=2)),)
        cloud.items[ACTION] = '{"action": "hibernate"}'
        assert service.look() == (Notice("reclaim", "aws"),)
    assert len(cloud.tokens) == 1, "one session for all"


def test_aws_gets_another_token_when_its_own_has_ended() -> None:
    cloud = Aws()
    with cloud.served() as address:
        service = AwsMetadata(address)
        service.look()
        cloud.tokens.clear()
        cloud.items[ACTION] = "{}"
        assert [notice.kind for notice in service.look()] == ["reclaim"]


def test_a_fault_in_what_else_is_asked_hides_no_reclaim() -> None:
    cloud = Aws()
    cloud.items[ACTION] = "{}"
    with cloud.served() as address:
        service = AwsMetadata(address)
        service.look()
        asked = len(cloud.asked)
        service.look()
    assert cloud.asked[asked:] == ["/latest/meta-data/spot/instance-action"]


def test_gce_is_waited_for() -> None:
    cloud = Gce()
    with cloud.served() as address:
        service = GceMetadata(Noon(), address)
        assert service.look() == ()
        watched = Watched(service)
        watched.start()
        wait_until(lambda: "wait_for_change" in cloud.asked[-1], "it waits")
        waited = len(cloud.asked)
        cloud.preempt()
        (notice,) = wait_until(watched.read, "the notice", limit_s=1.0)
        watched.stop()
        assert notice == Notice("reclaim", "gce", NOON + timedelta(seconds=30))
        assert len(cloud.asked) <= waited + 2, "it asked no more often than things changed"


def test_azure_tells_a_group_and_each_finds_itself() -> None:
    cloud = Azure("vm-1")
    with cloud.served() as address:
        service = AzureMetadata(address)
        assert service.look() == ()
        cloud.events = [
            event("Preempt", ["vm-2"]),
            event("Reboot", ["vm-1"]),
        ]
        assert service.look() == ()
        cloud.events.append(event("Preempt", ["vm-2", "vm-1"]))
        assert service.look() == (Notice("reclaim", "azure", NOON + timedelta(seconds=30)),)
        cloud.events = [event("Preempt", ["vm-1"], not_before="")]
        assert service.look() == (Notice("reclaim", "azure"),)


def event(kind: str, machines: Sequence[str], not_before: str | None = None) -> dict[str, Any]:
    return {
        "EventId": "1",
        "EventStatus": "Scheduled",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(machines),
        "NotBefore": "Thu, 01 Jan 2026 12:00:30 GMT" if not_before is None else not_before,
    }


@pytest.mark.parametrize(
    ("cloud", "service"),
    [
        (Aws(), AwsMetadata),
        (Gce(), lambda address: GceMetadata(Noon(), address)),
        (Azure(), AzureMetadata),
    ],
    ids=["aws", "gce", "azure"],
)
def test_a_service_out_of_order_says_nothing_and_is_asked_again(
    cloud: Metadata, service: Any
) -> None:
    with cloud.served() as address:
        asked = service(address)
        cloud.broken = 1
        with pytest.raises(MetadataError, match="HTTP 500"):
            asked.look()
        assert asked.look() == ()
    with pytest.raises(MetadataError):
        asked.look()  # nobody is there


def test_a_service_that_hangs_holds_nobody_up(control: ControlPlane, machine: Machine) -> None:
    cloud = Aws()
    cloud.hanging.set()
    with cloud.served() as address:
        machine.start(
            ROOST_METADATA="", ROOST_METADATA_SERVICE="aws", ROOST_METADATA_ADDRESS=address
        )
        wait_until(lambda: cloud.asked, "the service is asked")
        began = time.monotonic()
        seen = len(control.heartbeats)
        wait_until(lambda: len(control.heartbeats) > seen + 3, "heartbeats go on")
        assert time.monotonic() - began < 2.0
        deadline = "2026-01-01T12:02:00Z"
        cloud.items[ACTION] = f'{{"action": "terminate", "time": "{deadline}"}}'
        cloud.hanging.clear()
        wait_until(lambda: control.heartbeats[-1]["notices"], "the notice")
    assert control.heartbeats[-1]["notices"] == [
        {"kind": "reclaim", "deadline": "2026-01-01T12:02:00+00:00", "source": "aws"}
    ]


@pytest.mark.parametrize(
    ("name", "text", "cloud"),
    [
        ("sys_vendor", "Amazon EC2", "aws"),
        ("bios_version", "4.11.amazon", "aws"),
        ("product_name", "Google Compute Engine", "gce"),
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "azure"),
        ("sys_vendor", "Dell Inc.", None),
    ],
)
def test_the_firmware_tells_the_cloud(
    tmp_path: Path, name: str, text: str, cloud: str | None
) -> None:
    (tmp_path / name).write_text(text + "\n")
    assert detected(tmp_path) == cloud


def test_a_cloud_that_nobody_knows_is_refused() -> None:
    env = {"ROOST_URL": "http://a", "ROOST_STATE_DIR": "/s", "ROOST_INSTANCE_ID": "i"}
    with pytest.raises(SettingsError, match="one of aws, gce, azure"):
        Settings.from_environment(env | {"ROOST_METADATA_SERVICE": "ibm"})
    assert Settings.from_environment(env | {"ROOST_METADATA_SERVICE": ""}).metadata_service is None
