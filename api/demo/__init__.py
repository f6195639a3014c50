"""The demo: Roost's main job, end to end, on this machine, with proof at the end."""

from api.demo.run import demo

__all__ = ["demo"]
