"""Notices on their way: out of the outbox to the receivers, within budgets, merged when too many, none lost."""
