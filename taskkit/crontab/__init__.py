"""Reads crontabs as Debian's cron does and says what becomes of every line.

``read`` decides nothing about what is written where: it returns one ``Line`` for each line of the file, with the
``Job`` of those that can be scheduled and a reason for those that cannot.
"""

from taskkit.crontab.lines import Crontab, Detected, Job, Kind, Line
from taskkit.crontab.reading import decode, read

__all__ = ["Crontab", "Detected", "Job", "Kind", "Line", "decode", "read"]
