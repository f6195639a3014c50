"""Checkpoints that survive kills, full disks and flipped bits. Knows no model and no recipe."""
