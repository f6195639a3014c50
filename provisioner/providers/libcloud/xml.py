"""Reads answers of XML without minding their namespaces, which compatible clouds get wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def every(element: Any, path: str) -> list[Any]:
    """The elements under a path such as `reservationSet/item`."""
    found: list[Any] = element.findall("/".join(f"{{*}}{part}" for part in path.split("/")))
    return found


def text(element: Any, path: str) -> str:
    """The text of the first one; empty when there is none."""
    found = every(element, path)
    return (found[0].text or "") if found else ""


def tags(element: Any, path: str, key: str, value: str) -> Mapping[str, str]:
    """Pairs of names and values."""
    return {text(one, key): text(one, value) for one in every(element, path)}
