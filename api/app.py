"""The HTTP application over one control plane."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.routing import APIRoute

from api import openapi, problems
from api.limits import BodyLimit
from api.routes import (
    agent,
    costs,
    instances,
    jobs,
    launches,
    offers,
    people,
    policies,
    status,
    teams,
    workstations,
)
from provisioner.app import Roost

ROUTERS = (
    people.router,
    people.secrets_router,
    teams.router,
    workstations.router,
    jobs.router,
    offers.router,
    policies.router,
    instances.router,
    launches.router,
    costs.router,
    status.router,
    agent.router,
)


def create_app(roost: Roost) -> FastAPI:
    """The API of `roost`. It starts and stops nothing."""
    app = FastAPI(
        generate_unique_id_function=openapi.operation_id,
        docs_url=None,  # it would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        **openapi.INFO,
    )
    app.state.roost = roost
    app.state.endpoints = [
        route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)
    ]
    for router in ROUTERS:
        app.include_router(router)
    problems.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(problems.Unforeseen)
    openapi.install(app)
    return app
