"""The document says everything that the API does."""

from __future__ import annotations

import pytest

METHODS = {"get", "put", "post", "delete"}


@pytest.fixture
def document(served):
    with served.client() as client:
        return client.get("/openapi.json").json()


def _operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield path, method, operation


def test_it_is_openapi_31_with_one_id_and_a_tag_each(document):
    assert document["openapi"].startswith("3.1")
    ids = [operation["operationId"] for _, _, operation in _operations(document)]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 40
    assert all(operation["tags"] for _, _, operation in _operations(document))
    assert all(operation["summary"] for _, _, operation in _operations(document))


def test_every_operation_but_health_and_the_wheel_takes_a_bearer_token(document):
    for scheme in document["components"]["securitySchemes"].values():
        assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    open_ = {path for path, _, operation in _operations(document) if "security" not in operation}
    assert open_ == {"/healthz", "/readyz", "/v1/agent/wheel"}


def test_every_error_is_documented_as_a_problem(document):
    for path, method, operation in _operations(document):
        errors = {s: r for s, r in operation["responses"].items() if s >= "400"}
        assert {"500", "503"} <= set(errors), path
        if "security" in operation:
            assert {"401", "403"} <= set(errors), path
        if "requestBody" in operation:
            assert {"400", "413", "422"} <= set(errors), (path, method)
        for status, response in errors.items():
            content = response["content"]["application/problem+json"]
            assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
            assert content["example"]["status"] == int(status)
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_post_of_people_but_the_making_of_a_token_takes_an_idempotency_key(document):
    for path, method, operation in _operations(document):
        names = {each["name"] for each in operation.get("parameters", [])}
        of_people = operation.get("security") == [{"person": []}]
        expected = method == "post" and of_people and path != "/v1/tokens"
        assert ("Idempotency-Key" in names) == expected, (path, method)


def test_every_answer_of_success_has_a_schema(document):
    for path, method, operation in _operations(document):
        good = {s: r for s, r in operation["responses"].items() if s < "300"}
        assert len(good) == 1, (path, method)
        ((status, response),) = good.items()
        if status != "204":
            assert all("schema" in each for each in response["content"].values()), path
