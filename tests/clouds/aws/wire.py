"""AWS's requests and answers on the wire: what was asked for, and how a refusal is worded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.sax.saxutils import escape

XML, JSON = "text/xml", "application/x-amz-json-1.1"
_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an API. `form` keeps the names of the wire, such as `InstanceId.1`."""

    service: str
    region: str
    action: str
    form: dict[str, Any]
    path: str
    headers: Mapping[str, str]
    body: bytes

    def values(self, name: str) -> list[str]:
        """The values of a list in the form: `InstanceId.1`, `InstanceId.2` and so on."""
        names = takewhile(self.form.__contains__, (f"{name}.{number}" for number in count(1)))
        return [str(self.form[one]) for one in names]

    def smaller_page(self, most: int) -> Request:
        """The same call, asking for so many things a page at most."""
        asked = int(self.form.get("MaxResults") or most)
        return self.saying({**self.form, "MaxResults": str(min(asked, most))})

    def saying(self, form: dict[str, Any]) -> Request:
        """The same call with another form."""
        return replace(self, form=form, body=urlencode(form).encode())


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    kind: str
    body: bytes


def read(path: str, headers: Mapping[str, str], body: bytes) -> Request:
    """The call in a signed HTTP request; the signature's scope says whom it is for."""
    scope = headers.get("Authorization", "").partition("Credential=")[2].split(",")[0].split("/")
    region, service = (scope[2], scope[3]) if len(scope) > 3 else ("", "")
    target = headers.get("X-Amz-Target", "").rpartition(".")[2]
    form: dict[str, Any] = json.loads(body or b"{}") if target else dict(parse_qsl(body.decode()))
    action = target or str(form.get("Action", ""))
    return Request(service, region, action, form, path, headers, body)


def refusal(request: Request, code: str, message: str = "", status: int = 400) -> Answer:
    """An error as the called service words it."""
    message = message or f"{request.action} is refused"
    if request.service in ("ec2", ""):
        text = (
            f"<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message>"
            "</Error></Errors><RequestID>r-1</RequestID></Response>"
        )
        return Answer(status, XML, text.encode())
    if request.service == "sts":
        text = (
            f"<ErrorResponse><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
            "<RequestId>r-1</RequestId></ErrorResponse>"
        )
        return Answer(status, XML, text.encode())
    return Answer(status, JSON, json.dumps({"__type": code, "message": message}).encode())


def ec2(request: Request, inner: str) -> Answer:
    """EC2's answer to a call that went well."""
    name = f"{request.action}Response"
    text = f'<{name} xmlns="{_NAMESPACE}"><requestId>r-1</requestId>{inner}</{name}>'
    return Answer(200, XML, text.encode())


def as_json(value: object) -> Answer:
    return Answer(200, JSON, json.dumps(value).encode())


def mended(answer: Answer) -> Answer:
    """With the namespace as EC2 writes it: moto's lacks the last slash."""
    short, full = f'"{_NAMESPACE[:-1]}"'.encode(), f'"{_NAMESPACE}"'.encode()
    return Answer(answer.status, answer.kind, answer.body.replace(short, full, 1))
