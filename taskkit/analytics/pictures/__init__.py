"""Pictures of a source's window: pure functions from frames to something that shows itself. Needs matplotlib.

from taskkit.analytics import pictures
pictures.backlog(source).save("backlog.svg")
"""

from __future__ import annotations

try:
    import matplotlib  # noqa: F401 - looked for here, so that one sentence says what to install
except ImportError as error:
    from taskkit.errors import AnalyticsMissing

    raise AnalyticsMissing("pictures need matplotlib: pip install 'taskkit[notebooks]'") from error

from taskkit.analytics.pictures.backlog import backlog
from taskkit.analytics.pictures.calendar import calendar
from taskkit.analytics.pictures.latency import latency
from taskkit.analytics.pictures.outcomes import outcomes
from taskkit.analytics.pictures.picture import Picture
from taskkit.analytics.pictures.repeats import repeats
from taskkit.analytics.pictures.workers import workers

__all__ = ["Picture", "backlog", "calendar", "latency", "outcomes", "repeats", "workers"]
