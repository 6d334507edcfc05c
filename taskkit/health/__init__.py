"""What will hurt, before it does: facts of SQL, the broker, the nodes and this place → findings, each with what to do."""

from taskkit.health.findings import Finding, Level, worst
from taskkit.health.judging import judge
from taskkit.health.looking import look

__all__ = ["Finding", "Level", "judge", "look", "worst"]
