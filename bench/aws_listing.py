"""What listing many EC2 machines costs: this provider's parser against boto3's own.

    python -m bench.aws_listing [--machines 10000] [--rounds 3]

A server of its own process replays pages of 1,000 instances, as EC2 sends them, over HTTP. Told are
the CPU seconds of the asking process, the calls, what its memory grew by, and the longest time that
another thread had to wait for the interpreter meanwhile: what an API call would feel.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import boto3
from botocore.config import Config

from provisioner.clock import SystemClock
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.aws.settings import AwsSettings

REGION, PAGE = "us-east-1", 1000
ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<{0}Response xmlns="http://ec2.amazonaws.com/doc/'
    '2016-11-15/"><requestId>0b1c</requestId>{1}</{0}Response>'
)
EMPTY = {
    "DescribeVolumes": "<volumeSet/>",
    "DescribeSnapshots": "<snapshotSet/>",
    "DescribeSecurityGroups": "<securityGroupInfo/>",
    "DescribeLaunchTemplates": "<launchTemplates/>",
}
INSTANCE = """<item><reservationId>r-{n:017x}</reservationId><ownerId>123456789012</ownerId>
<groupSet/><instancesSet><item><instanceId>i-{n:017x}</instanceId><imageId>ami-0123456789abcdef0</imageId>
<instanceState><code>16</code><name>running</name></instanceState>
<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName>
<dnsName>ec2-203-0-113-1.compute-1.amazonaws.com</dnsName><reason/><amiLaunchIndex>0</amiLaunchIndex>
<productCodes/><instanceType>g5.xlarge</instanceType><launchTime>2026-03-01T10:00:00.000Z</launchTime>
<placement><availabilityZone>us-east-1a</availabilityZone><groupName/><tenancy>default</tenancy>
</placement><monitoring><state>disabled</state></monitoring><subnetId>subnet-0123456789abcdef0</subnetId>
<vpcId>vpc-0123456789abcdef0</vpcId><privateIpAddress>10.0.0.1</privateIpAddress>
<ipAddress>203.0.113.1</ipAddress><sourceDestCheck>true</sourceDestCheck><groupSet><item>
<groupId>sg-0123456789abcdef0</groupId><groupName>roost-bench</groupName></item></groupSet>
<architecture>x86_64</architecture><rootDeviceType>ebs</rootDeviceType>
<rootDeviceName>/dev/sda1</rootDeviceName><blockDeviceMapping><item><deviceName>/dev/sda1</deviceName>
<ebs><volumeId>vol-{n:017x}</volumeId><status>attached</status>
<attachTime>2026-03-01T10:00:01.000Z</attachTime><deleteOnTermination>true</deleteOnTermination></ebs>
</item></blockDeviceMapping><virtualizationType>hvm</virtualizationType><clientToken>l-{n}</clientToken>
<tagSet>{tags}</tagSet><hypervisor>xen</hypervisor><networkInterfaceSet><item>
<networkInterfaceId>eni-0123456789abcdef0</networkInterfaceId><subnetId>subnet-0123456789abcdef0</subnetId>
<vpcId>vpc-0123456789abcdef0</vpcId><description/><ownerId>123456789012</ownerId><status>in-use</status>
<macAddress>0e:00:00:00:00:01</macAddress><privateIpAddress>10.0.0.1</privateIpAddress>
<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><sourceDestCheck>true</sourceDestCheck>
<groupSet><item><groupId>sg-0123456789abcdef0</groupId><groupName>roost-bench</groupName></item></groupSet>
<attachment><attachmentId>eni-attach-0123456789abcdef0</attachmentId><deviceIndex>0</deviceIndex>
<status>attached</status><attachTime>2026-03-01T10:00:00.000Z</attachTime>
<deleteOnTermination>true</deleteOnTermination><networkCardIndex>0</networkCardIndex></attachment>
<association><publicIp>203.0.113.1</publicIp>
<publicDnsName>ec2-203-0-113-1.compute-1.amazonaws.com</publicDnsName><ipOwnerId>amazon</ipOwnerId>
</association><privateIpAddressesSet><item><privateIpAddress>10.0.0.1</privateIpAddress>
<privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName><primary>true</primary></item>
</privateIpAddressesSet><ipv6AddressesSet/><interfaceType>interface</interfaceType></item>
</networkInterfaceSet><ebsOptimized>false</ebsOptimized><cpuOptions><coreCount>2</coreCount>
<threadsPerCore>2</threadsPerCore></cpuOptions><capacityReservationSpecification>
<capacityReservationPreference>open</capacityReservationPreference></capacityReservationSpecification>
<hibernationOptions><configured>false</configured></hibernationOptions><enclaveOptions>
<enabled>false</enabled></enclaveOptions><metadataOptions><state>applied</state>
<httpTokens>required</httpTokens><httpPutResponseHopLimit>1</httpPutResponseHopLimit>
<httpEndpoint>enabled</httpEndpoint></metadataOptions></item></instancesSet></item>"""
TAGS = "".join(
    f"<item><key>{key}</key><value>{value}</value></item>"
    for key, value in (
        ("roost:installation", "bench"),
        ("roost:launch", "l-{n}"),
        ("roost:fingerprint", "0123456789abcdef0123456789abcdef"),
        ("Name", "l-{n}"),
        ("installation", "bench"),
        ("instance", "inst_{n}"),
    )
)


class Replay(BaseHTTPRequestHandler):
    """Pages of made-up instances, and nothing of all else."""

    protocol_version = "HTTP/1.1"
    pages: tuple[bytes, ...] = ()

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        action = form["Action"][0]
        body = ENVELOPE.format(action, EMPTY.get(action, "")).encode()
        if action == "DescribeInstances":
            body = self.pages[int(form.get("NextToken", ["0"])[0])]
        self.send_response(200)
        self.send_header("Content-Type", "text/xml;charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def serve(machines: int) -> None:
    """The server's process: says its port, then answers until its input ends."""
    numbers = range(0, machines, PAGE)
    Replay.pages = tuple(
        _page(first, min(machines, first + PAGE), i + 1 if first != numbers[-1] else None)
        for i, first in enumerate(numbers)
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replay)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


def _page(first: int, end: int, following: int | None) -> bytes:
    items = "".join(INSTANCE.format(n=n, tags=TAGS.format(n=n)) for n in range(first, end))
    more = f"<nextToken>{following}</nextToken>" if following is not None else ""
    body = f"<reservationSet>{items.replace(chr(10), '')}</reservationSet>{more}"
    return ENVELOPE.format("DescribeInstances", body).encode()


@contextmanager
def replaying(machines: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.aws_listing", "--serve", str(machines)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.stdin.close()


def with_boto3(url: str) -> int:
    config = Config(retries={"mode": "standard"})
    client = boto3.Session().client("ec2", region_name=REGION, endpoint_url=url, config=config)
    pages = client.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": PAGE})
    return sum(len(one["Instances"]) for page in pages for one in page["Reservations"])


def with_provider(url: str) -> int:
    settings = AwsSettings(regions=(REGION,), endpoint_url=url)
    provider = AwsProvider(settings, "bench", SystemClock())
    return len(provider.list().machines)


def measured(list_all: Callable[[str], int], url: str, machines: int) -> tuple[float, float]:
    """CPU seconds, and the longest wait of another thread in ms."""
    longest, stop = 0.0, threading.Event()

    def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not stop.wait(0.001):
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    other = threading.Thread(target=tick)
    other.start()
    began = time.process_time()
    assert list_all(url) == machines
    took = time.process_time() - began
    stop.set()
    other.join()
    return took, longest * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
    ways = {"provider": with_provider, "boto3": with_boto3}
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with replaying(given.machines) as url:
        for name, way in ways.items():
            way(url)  # imports and service models
            print(f"{name:<9} largest memory {_rss_mib():.0f} MiB", flush=True)
        for _ in range(given.rounds):
            for name, way in ways.items():
                results[name].append(measured(way, url, given.machines))
    print(f"{given.machines} machines, {-(-given.machines // PAGE)} pages")
    for name, runs in results.items():
        cpu = statistics.median(run[0] for run in runs)
        wait = statistics.median(run[1] for run in runs)
        print(f"{name:<9} {cpu:6.2f} CPU-s, another thread waits up to {wait:6.1f} ms")
    pairs = zip(results["boto3"], results["provider"], strict=True)
    ratios = sorted(theirs[0] / ours[0] for theirs, ours in pairs)
    median = statistics.median(ratios)
    print(f"boto3 / provider: median {median:.1f} (min {ratios[0]:.1f}, max {ratios[-1]:.1f})")


def _rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
