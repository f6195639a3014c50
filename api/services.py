"""How an endpoint gets at the services: one dependency."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from provisioner.app import Roost


def services_of(request: Request) -> Roost:
    """The control plane that this app was made for."""
    roost: Roost = request.app.state.roost
    return roost


Services = Annotated[Roost, Depends(services_of)]
