"""The fixture that ends all machines of a test."""

from tests.contract.machines import local_machines

__all__ = ["local_machines"]
