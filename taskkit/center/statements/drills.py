"""Statements by which a drill cuts connections; a user may end those of its own without a further grant."""

OWN_CONNECTIONS = """
SELECT id, host FROM information_schema.processlist
WHERE user = SUBSTRING_INDEX(USER(), '@', 1) AND id <> CONNECTION_ID()
"""

KILL = "KILL {:d}"
