"""Every operation, with requests drawn from its own document, as an administrator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from api.app import create_app
from provisioner.app import Roost
from tests.api.conftest import Live, live, make_person

CHECKS = [
    schemathesis.checks.not_a_server_error,
    allow_header_conformance,
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("schema") / "state") as running:
        yield running


@pytest.fixture(scope="module")
def known(world: Live) -> dict[str, str]:
    """Real things for the path parameters, so that it does not end at 404 each time."""
    with world.client(world.admin_token) as admin:
        admin.post("/v1/teams", json={"name": "vision"}).raise_for_status()
        make_person(admin, "mina", "vision", "member")
        mine = admin.get("/v1/tokens").json()["items"]
        (token,) = [each["id"] for each in mine if each["person_name"] == "mina"]
        desk = _made(admin, "/v1/workstations", {"name": "desk", "team": "vision"})
        job = _made(admin, "/v1/jobs", {"name": "job", "argv": ["true"], "team": "vision"})
        text = "policy: house\nversion: 1\n"
        _made(admin, "/v1/policies", {"text": text, "filename": "house.yaml"})
    return {
        "team": "vision",
        "token": token,
        "workstation": desk,
        "job": job,
        "policy": "house",
        "target": desk,
    }


# The document does not depend on the control plane behind it, and the tests are made from it.
schema = schemathesis.openapi.from_dict(create_app(cast(Roost, None)).openapi())


@schema.parametrize()
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_the_api_does_what_its_document_says(case, world, known):
    headers = {"Authorization": f"Bearer {world.admin_token}"}
    case.call_and_validate(world.url, headers=headers, checks=CHECKS)
    real = {name: known[name] for name in case.path_parameters or {} if name in known}
    if real:
        case.path_parameters = {**case.path_parameters, **real}
        case.call_and_validate(world.url, headers=headers, checks=CHECKS[:1])


def _made(admin: httpx.Client, path: str, body: dict[str, object]) -> str:
    made = admin.post(path, json=body)
    assert made.status_code == 201, made.text
    id_: str = made.json()["id"]
    return id_
