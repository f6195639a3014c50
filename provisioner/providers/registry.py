"""The providers of this installation, by name."""

from __future__ import annotations

from collections.abc import Mapping

from provisioner.providers.contract import Provider

Providers = Mapping[str, Provider]
"""Made by `provisioner.app`, the one place that knows them all."""
