"""What can be trained by name: a strict configuration, and a Training built from it."""
