"""The API from the other side: what the command line asks the control plane.

One function an operation, plain JSON in and out. Every failure is a `ClientProblem`. A POST goes
out with an idempotency key, so that it is repeated safely when the connection breaks under it.
Import it only where the network is really needed: httpx is not cheap to load.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import quote

import httpx

from provisioner.errors import RoostError
from provisioner.ids import new_id
from provisioner.tls import trusting

Json = dict[str, Any]
_TRIES = 3
_COME_BACK_S = 1.0


class ClientProblem(RoostError):  # noqa: N818 (it is the problem that the server told)
    """The control plane said no, or could not be asked; `status` is None in the latter case."""

    def __init__(self, body: Json, status: int | None) -> None:
        super().__init__(str(body.get("detail", "")), remedy=body.get("remedy"))
        self.body = body
        self.status = status
        self.code = str(body.get("type", "")).rsplit(":", 1)[-1] or "error"


class Client:
    """A connection to one control plane, for one token."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`ca` is PEM text: the only certificates to trust; None for those of the system.

        Raises:
            StateError: `ca` is no certificate.
        """
        self.url = url.rstrip("/")
        trusted: ssl.SSLContext | bool = True if ca is None else trusting(ca)
        try:
            self._http = httpx.Client(
                base_url=self.url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=httpx.Timeout(30.0, connect=5.0),
                trust_env=not _on_this_machine(self.url),
                verify=trusted,
                transport=transport,
            )
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise self._unreachable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # -- people

    def me(self) -> Json:
        return self._get("/v1/me")

    def teams(self) -> Iterator[Json]:
        return self._all("/v1/teams")

    def create_team(self, body: Json) -> Json:
        return self._post("/v1/teams", body)

    def set_budget(self, team: str, body: Json) -> Json:
        return self._send("PUT", f"/v1/teams/{_part(team)}/budget", body)

    def people(self) -> Iterator[Json]:
        return self._all("/v1/people")

    def create_person(self, body: Json) -> Json:
        return self._post("/v1/people", body)

    def tokens(self) -> Iterator[Json]:
        return self._all("/v1/tokens")

    def create_token(self, body: Json) -> Json:
        return self._send("POST", "/v1/tokens", body)

    def revoke_token(self, token: str) -> None:
        self._ask("DELETE", f"/v1/tokens/{_part(token)}")

    # -- workstations

    def workstations(self) -> Iterator[Json]:
        return self._all("/v1/workstations")

    def create_workstation(self, body: Json) -> Json:
        return self._post("/v1/workstations", body)

    def workstation(self, ref: str) -> Json:
        return self._get(f"/v1/workstations/{_part(ref)}")

    def start_workstation(self, ref: str) -> Json:
        return self._post(f"/v1/workstations/{_part(ref)}/start")

    def stop_workstation(self, ref: str) -> Json:
        return self._post(f"/v1/workstations/{_part(ref)}/stop")

    def delete_workstation(self, ref: str) -> Json:
        return self._send("DELETE", f"/v1/workstations/{_part(ref)}")

    def hold_workstation(self, ref: str, body: Json) -> Json:
        return self._send("PUT", f"/v1/workstations/{_part(ref)}/hold", body)

    def release_workstation(self, ref: str) -> Json:
        return self._send("DELETE", f"/v1/workstations/{_part(ref)}/hold")

    def exec(self, ref: str, body: Json) -> Json:
        return self._post(f"/v1/workstations/{_part(ref)}/exec", body)

    def command(self, command: str) -> Json:
        return self._get(f"/v1/commands/{_part(command)}")

    # -- jobs

    def jobs(self, state: str | None = None) -> Iterator[Json]:
        return self._all("/v1/jobs", {"state": state})

    def submit_job(self, body: Json) -> Json:
        return self._post("/v1/jobs", body)

    def job(self, ref: str) -> Json:
        return self._get(f"/v1/jobs/{_part(ref)}")

    def cancel_job(self, ref: str) -> Json:
        return self._post(f"/v1/jobs/{_part(ref)}/cancel")

    def job_logs(self, ref: str, cursor: str | None) -> Json:
        return self._get(f"/v1/jobs/{_part(ref)}/logs", {"cursor": cursor})

    # -- offers, machines, policies

    def offers(self, query: Json) -> Iterator[Json]:
        return self._all("/v1/offers", query)

    def offers_left_out(self, query: Json) -> list[Json]:
        found: list[Json] = self._get("/v1/offers/left-out", query)["items"]
        return found

    def offer_sources(self) -> list[Json]:
        found: list[Json] = self._get("/v1/offers/sources")["items"]
        return found

    def quarantined(self) -> Iterator[Json]:
        return self._all("/v1/offers/quarantine")

    def instances(self, *, live: bool) -> Iterator[Json]:
        return self._all("/v1/instances", {"live": str(live).lower()})

    def launches(self, target: str | None) -> Iterator[Json]:
        return self._all("/v1/launches", {} if target is None else {"target": target})

    def rehearse_reclaim(self, instance: str, body: Json) -> Json:
        return self._post(f"/v1/instances/{_part(instance)}/reclaim-rehearsal", body)

    def policies(self) -> Iterator[Json]:
        return self._all("/v1/policies")

    def plan(self, body: Json) -> Json:
        return self._post("/v1/policies/plan", body)

    def apply_policy(self, body: Json) -> Json:
        return self._post("/v1/policies", body)

    def explain(self, target: str) -> Json:
        return self._get(f"/v1/explain/{_part(target)}")

    # -- costs, status

    def costs(self, query: Json) -> Json:
        return self._get("/v1/costs", query)

    def usage_intervals(self, owner: str | None = None) -> Iterator[Json]:
        return self._all("/v1/usage-intervals", {"owner": owner})

    def report(self, team: str | None) -> str:
        return self._ask("GET", "/v1/reports/current", params=_given({"team": team})).text

    def status(self) -> Json:
        return self._get("/v1/status")

    def quotas(self) -> list[Json]:
        found: list[Json] = self._get("/v1/quotas")["items"]
        return found

    # -- how it is asked

    def _get(self, path: str, query: Json | None = None) -> Json:
        return _json(self._ask("GET", path, params=_given(query or {})))

    def _all(self, path: str, query: Json | None = None) -> Iterator[Json]:
        """Every item of a list, part by part."""
        asked = _given(query or {}) | {"limit": "200"}
        while True:
            part = self._get(path, asked)
            yield from part["items"]
            if part["next"] is None:
                return
            asked["cursor"] = part["next"]

    def _post(self, path: str, body: Json | None = None) -> Json:
        return _json(self._ask("POST", path, body=body, key=new_id("cli")))

    def _send(self, method: str, path: str, body: Json | None = None) -> Json:
        return _json(self._ask(method, path, body=body))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Json | None = None,
        body: Json | None = None,
        key: str | None = None,
    ) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        tries = _TRIES if method == "GET" or key is not None else 1
        request = self._request(method, path, params=params, json=body, headers=headers)
        response = self._reach(request, tries)
        while _still_at_work(response) and (tries := tries - 1):
            time.sleep(_COME_BACK_S)
            response = self._reach(request, tries)
        if response.is_success:
            return response
        raise ClientProblem(_problem(response), response.status_code)

    def _request(self, method: str, path: str, **what: Any) -> httpx.Request:
        try:
            return self._http.build_request(method, path, **what)
        except UnicodeEncodeError as error:
            text = error.object[error.start : error.end].encode("ascii", "backslashreplace")
            body = {
                "type": "urn:roost:problem:invalid",
                "title": "The request makes no sense",
                "detail": f"What was given holds bytes that are no text: {text.decode()}.",
                "remedy": "Give names and arguments in UTF-8, under a locale such as C.UTF-8.",
            }
            raise ClientProblem(body, None) from error

    def _reach(self, request: httpx.Request, tries: int) -> httpx.Response:
        for left in reversed(range(tries)):
            try:
                return self._http.send(request)
            except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
                raise self._unreachable(error) from error
            except httpx.TransportError as error:
                if left == 0:
                    raise self._unreachable(error) from error
        raise AssertionError("unreachable")

    def _unreachable(self, error: Exception) -> ClientProblem:
        detail = f"The control plane at {self.url} cannot be reached: {error}."
        remedy = "Start it with `roost up`, or name another with ROOST_URL or `roost login`."
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            remedy = "Name who vouches for its certificate: `roost login --ca FILE`, ROOST_CA_FILE."
        body = {
            "type": "urn:roost:problem:unreachable",
            "title": "The control plane cannot be reached",
            "detail": detail,
            "remedy": remedy,
        }
        return ClientProblem(body, None)


def _still_at_work(response: httpx.Response) -> bool:
    """Whether the first request under this key, whose answer was lost, has not ended yet."""
    return response.status_code == 409 and "retry-after" in response.headers


def _on_this_machine(url: str) -> bool:
    """Whether no proxy may be asked for `url`."""
    return httpx.URL(url).host in {"127.0.0.1", "localhost", "::1"}


def _part(ref: str) -> str:
    """`ref` as one segment of a path, whatever it is."""
    return quote(ref, safe="") or "-"


def _given(query: Json) -> Json:
    return {name: value for name, value in query.items() if value is not None}


def _json(response: httpx.Response) -> Json:
    try:
        body = response.json()
    except ValueError:
        body = None
    if isinstance(body, dict):
        return body
    raise ClientProblem(_foreign(response), response.status_code)


def _problem(response: httpx.Response) -> Json:
    try:
        body = response.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) and "detail" in body else _foreign(response)


def _foreign(response: httpx.Response) -> Json:
    return {
        "type": "urn:roost:problem:not-roost",
        "title": "Not a control plane",
        "status": response.status_code,
        "detail": f"{response.url.copy_with(query=None)} answered {response.status_code}, and not "
        "as a control plane does.",
        "remedy": "Check ROOST_URL; something else may listen there.",
    }
