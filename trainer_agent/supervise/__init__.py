"""The agent: `python -m trainer_agent.supervise` follows the control plane on one machine.

    heartbeat   says what is, hears what should be     notices    the machine is about to be taken
    tasks       starts and stops what should run       commands   runs a command once
    shipping    brings logs and progress home          telemetry, activity   what is measured

Standard library only: it must start at once on any machine with Python, and use next to nothing.
"""
