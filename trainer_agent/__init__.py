"""What runs on a machine: the agent, the launcher of ranks, and the training library."""

__version__ = "0.1.0"
