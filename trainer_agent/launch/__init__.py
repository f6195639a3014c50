"""Starts one attempt's ranks on this node and keeps them independent of the agent's life.

folder   a task is a folder: what was asked, who runs it, what came out
shim     the small detached process that owns the ranks
ranks    environment and command of one rank
"""
