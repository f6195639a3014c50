"""Our reading of EC2's answers against botocore's own, field by field."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape

import botocore.session
import pytest
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st

from provisioner.providers.aws.instance_parser import (
    INSTANCES,
    InstanceParser,
    InstanceParserFactory,
)

MODEL = botocore.session.get_session().get_service_model("ec2")
DESCRIBED = MODEL.operation_model("DescribeInstances").output_shape
RUN = MODEL.operation_model("RunInstances").output_shape
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=40
)

SPOT = """<item><reservationId>r-1</reservationId><instancesSet><item>
<instanceId>i-0123456789abcdef0</instanceId><imageId>ami-1</imageId>
<instanceState><code>48</code><name>terminated</name></instanceState>
<reason>Server.SpotInstanceTermination (2026-03-01 10:02:00 GMT)</reason>
<instanceType>g5.xlarge</instanceType><launchTime>2026-03-01T10:00:00.000Z</launchTime>
<placement><availabilityZone>us-east-1a</availabilityZone></placement>
<groupSet><item><groupId>sg-1</groupId></item><item><groupId>sg-2</groupId></item></groupSet>
<stateReason><code>Server.SpotInstanceTermination</code><message>Spot &lt;gone&gt;</message>
</stateReason><instanceLifecycle>spot</instanceLifecycle>
<spotInstanceRequestId>sir-abc</spotInstanceRequestId>
<blockDeviceMapping><item><deviceName>/dev/sda1</deviceName><ebs><volumeId>vol-1</volumeId></ebs>
</item><item><deviceName>/dev/sdf</deviceName><ebs><volumeId>vol-2</volumeId></ebs></item>
</blockDeviceMapping><networkInterfaceSet><item><groupSet><item><groupId>sg-3</groupId></item>
</groupSet></item></networkInterfaceSet>
<hibernationOptions><configured>true</configured></hibernationOptions>
<tagSet><item><key>roost:launch</key><value>one</value></item></tagSet></item></instancesSet></item>"""
PLAIN = """<item><instancesSet><item><instanceId>i-2</instanceId>
<instanceState><code>0</code><name>pending</name></instanceState><reason/>
<instanceType>m5.large</instanceType><launchTime>2026-03-01T10:00:00.000Z</launchTime>
<placement><availabilityZone>us-east-1b</availabilityZone></placement></item></instancesSet></item>"""


def described(*reservations: str, token: str = "", namespace: str = "2016-11-15/") -> bytes:
    more = f"<nextToken>{token}</nextToken>" if token else ""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<DescribeInstancesResponse'
        f' xmlns="http://ec2.amazonaws.com/doc/{namespace}"><requestId>req-1</requestId>'
        f"<reservationSet>{''.join(reservations)}</reservationSet>{more}"
        "</DescribeInstancesResponse>"
    ).encode()


def read(body: bytes, status: int = 200, shape: Any = DESCRIBED) -> dict[str, Any]:
    answer = {"status_code": status, "headers": {}, "body": body}
    parsed: dict[str, Any] = InstanceParserFactory().create_parser("ec2").parse(answer, shape)
    return parsed


def test_it_reads_what_botocore_reads() -> None:
    body = described(SPOT, PLAIN, token="next")
    theirs = botocore.parsers.create_parser("ec2").parse(
        {"status_code": 200, "headers": {}, "body": body}, DESCRIBED
    )
    ours = read(body)
    assert ours["NextToken"] == theirs["NextToken"] == "next"
    assert ours["ResponseMetadata"]["RequestId"] == theirs["ResponseMetadata"]["RequestId"]
    told = [one for group in theirs["Reservations"] for one in group["Instances"]]
    assert len(ours[INSTANCES]) == len(told) == 2
    for mine, their in zip(ours[INSTANCES], told, strict=True):
        assert mine.id == their["InstanceId"]
        assert mine.type == their["InstanceType"]
        assert mine.zone == their["Placement"]["AvailabilityZone"]
        assert mine.state == their["State"]["Name"]
        assert mine.lifecycle == their.get("InstanceLifecycle", "")
        assert mine.transition == their["StateTransitionReason"]
        assert mine.reason_code == their.get("StateReason", {}).get("Code", "")
        assert mine.reason == their.get("StateReason", {}).get("Message", "")
        assert mine.spot_request == their.get("SpotInstanceRequestId", "")
        assert mine.can_hibernate == their.get("HibernationOptions", {}).get("Configured", False)
        disks = their.get("BlockDeviceMappings", ())
        assert mine.volumes == tuple(disk["Ebs"]["VolumeId"] for disk in disks)
        assert mine.tags == {tag["Key"]: tag["Value"] for tag in their.get("Tags", ())}


def test_groups_of_all_interfaces_count() -> None:
    (spot,) = read(described(SPOT))[INSTANCES]
    assert set(spot.groups) == {"sg-1", "sg-2", "sg-3"}


def test_the_answer_of_a_launch_is_read_too() -> None:
    inner = PLAIN.removeprefix("<item>").removesuffix("</item>")
    body = f'<RunInstancesResponse xmlns="http://x/"><requestId>r</requestId>{inner}'
    (made,) = read(f"{body}</RunInstancesResponse>".encode(), shape=RUN)[INSTANCES]
    assert (made.id, made.zone) == ("i-2", "us-east-1b")


def test_any_namespace_is_read() -> None:
    assert len(read(described(PLAIN, namespace="2016-11-15"))[INSTANCES]) == 1


def test_nothing_is_nothing() -> None:
    assert read(described()) == {
        INSTANCES: (),
        "ResponseMetadata": {"RequestId": "req-1", "HTTPStatusCode": 200, "HTTPHeaders": {}},
    }


def test_errors_stay_botocores() -> None:
    body = (
        b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slow</Message>"
        b"</Error></Errors><RequestID>r</RequestID></Response>"
    )
    assert read(body, 503)["Error"]["Code"] == "RequestLimitExceeded"


def test_half_an_answer_is_none() -> None:
    with pytest.raises(ResponseParserError):
        read(described(SPOT, PLAIN)[:-200])


def test_an_entity_is_not_resolved() -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    body = described(SPOT).replace(b"\n<Describe", b"\n" + bomb + b"<Describe", 1)
    (spot,) = read(body.replace(b">one<", b">&e;<"))[INSTANCES]
    assert spot.tags["roost:launch"] == ""


def test_other_answers_are_botocores() -> None:
    assert isinstance(InstanceParserFactory().create_parser("ec2"), InstanceParser)
    shape = MODEL.operation_model("DescribeVolumes").output_shape
    body = b'<R xmlns="x"><volumeSet><item><volumeId>vol-1</volumeId></item></volumeSet></R>'
    assert read(body, shape=shape)["Volumes"] == [{"VolumeId": "vol-1"}]


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5))
def test_whatever_people_write_in_tags_breaks_nothing(tags: dict[str, str]) -> None:
    items = "".join(
        f"<item><key>{escape(key)}</key><value>{escape(value)}</value></item>"
        for key, value in tags.items()
    )
    tagged = PLAIN.replace(
        "</item></instancesSet>", f"<tagSet>{items}</tagSet></item></instancesSet>"
    )
    first, second = read(described(tagged, SPOT))[INSTANCES]
    assert second.tags == {"roost:launch": "one"}
    assert first.tags == {_cleaned(key): _cleaned(value) for key, value in tags.items()}


def _cleaned(text: str) -> str:
    return text.translate(dict.fromkeys(range(0xE000, 0xE004)))
