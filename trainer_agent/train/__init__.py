"""The training loop of one rank. Importing this package alone imports no torch."""
