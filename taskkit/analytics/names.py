"""The names of the rules; each is a file in rules/ and a table in texts/."""

from __future__ import annotations

RULES = (
    "backlog",
    "duplicates",
    "zombies",
    "lost",
    "success_rate",
    "missed",
    "slow",
    "retry_storm",
    "capacity",
)
