"""Reads EC2's answers about instances, some twenty times as fast as botocore does.

A page of 1,000 instances is 3.5 MB of XML, and botocore spends a second of CPU on it while it holds
the interpreter's lock. Here libxml2 parses it and an XSLT program picks the few fields that are
needed, both without the lock; what is left for Python is to split a text. Everything else of
botocore stays as it is: endpoints, signatures, errors, retries, paging, other answers.
"""

from __future__ import annotations

import re
from typing import Any

from botocore.parsers import (  # type: ignore[import-untyped]
    EC2QueryParser,
    ResponseParserError,
    ResponseParserFactory,
)
from lxml import etree  # type: ignore[import-untyped]

from provisioner.providers.aws.instance import Instance

INSTANCES = "RoostInstances"
"""Where an answer holds its instances, in place of botocore's `Reservations`."""

_RECORD, _FIELD, _ITEM, _PAIR = "\ue000", "\ue001", "\ue002", "\ue003"
_SEPARATORS = _RECORD + _FIELD + _ITEM + _PAIR
_ANSWERS = frozenset({"DescribeInstancesResult", "Reservation"})
_NAMESPACE = re.compile(rb' xmlns="[^"]*"')

_FREE = "translate({}, '" + _SEPARATORS + "', '')"
"""A text that people wrote, and that might hold a separator."""

_PLAIN = (
    "instanceId",
    "instanceType",
    "placement/availabilityZone",
    "instanceState/name",
    "instanceLifecycle",
    "launchTime",
    "reason",
    "stateReason/code",
    _FREE.format("stateReason/message"),
    "spotInstanceRequestId",
    "hibernationOptions/configured",
)
_LISTS = (
    "blockDeviceMapping/item/ebs/volumeId",
    "groupSet/item/groupId | networkInterfaceSet/item/groupSet/item/groupId",
)
_TAG = (_FREE.format("key"), _FREE.format("value"))


class InstanceParserFactory(ResponseParserFactory):  # type: ignore[misc]
    """A session's `response_parser_factory`."""

    def create_parser(self, protocol_name: str) -> Any:
        if protocol_name == "ec2":
            return InstanceParser(**self._defaults)
        return super().create_parser(protocol_name)


class InstanceParser(EC2QueryParser):  # type: ignore[misc]
    """botocore's parser of EC2 but for what holds instances: `{INSTANCES: (Instance, ...)}`."""

    def _do_parse(self, response: dict[str, Any], shape: Any) -> dict[str, Any]:
        if shape is None or shape.name not in _ANSWERS:
            parsed: dict[str, Any] = super()._do_parse(response, shape)
            return parsed
        try:
            return parse(response["body"])
        except etree.XMLSyntaxError as error:
            raise ResponseParserError(f"EC2's answer is no XML: {error}") from error


def parse(body: bytes) -> dict[str, Any]:
    """Raises `XMLSyntaxError` for what is no XML."""
    # Without its namespace all names are plain; which namespace it is differs between servers.
    plain = _NAMESPACE.sub(b"", body, count=1)
    parser = etree.XMLParser(huge_tree=True, resolve_entities=False, no_network=True)
    head, *records = str(_PROGRAM(etree.fromstring(plain, parser))).split(_RECORD)
    request_id, token = head.split(_FIELD)
    answer: dict[str, Any] = {INSTANCES: tuple(map(_instance, records))}
    answer["ResponseMetadata"] = {"RequestId": request_id}
    if token:
        answer["NextToken"] = token
    return answer


def _instance(record: str) -> Instance:
    fields: list[Any] = record.split(_FIELD)
    can_hibernate, volumes, groups, tags = fields[-4:]
    fields[-4:] = (
        can_hibernate == "true",
        tuple(volumes.split(_ITEM)[:-1]),
        tuple(groups.split(_ITEM)[:-1]),
        dict(_pair(pair) for pair in tags.split(_ITEM)[:-1]),
    )
    return Instance(*fields)


def _pair(pair: str) -> tuple[str, str]:
    key, _, value = pair.partition(_PAIR)
    return key, value


def _program() -> str:
    """The XSLT: a line of text for the answer, then one for each instance."""

    def value(path: str) -> str:
        return f'<xsl:value-of select="{path}"/>'

    def each(path: str, inner: str) -> str:
        return f'<xsl:for-each select="{path}">{inner}{_ITEM}</xsl:for-each>'

    fields = [value(path) for path in _PLAIN]
    fields += [each(path, value(".")) for path in _LISTS]
    fields.append(each("tagSet/item", _PAIR.join(value(name) for name in _TAG)))
    head = value("*/requestId") + _FIELD + value("*/nextToken")
    instances = "*/reservationSet/item/instancesSet/item | */instancesSet/item"
    return (
        '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">'
        '<xsl:output method="text" encoding="UTF-8"/><xsl:template match="/">'
        f"{head}"
        f'<xsl:for-each select="{instances}">{_RECORD}{_FIELD.join(fields)}</xsl:for-each>'
        "</xsl:template></xsl:stylesheet>"
    )


_PROGRAM = etree.XSLT(etree.XML(_program()))
