"""What machines and disks cost: pure functions over observed usage, prices and money.

Usage events become intervals, intervals and prices become charges, and charges become budgets,
forecasts, savings, reports and FOCUS rows. Nothing here reads a clock, a file or a database, and
nothing here knows the policies.
"""
