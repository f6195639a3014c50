"""Checkpoints that survive kills, full disks and flipped bits; knows nothing of models or recipes."""
