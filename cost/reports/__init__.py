"""Cost reports: a report as data (`model`), and what renders it."""
