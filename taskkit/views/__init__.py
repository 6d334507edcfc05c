"""What an installation looks like right now, as a page of a notebook or lines of a terminal; and again every second."""

from __future__ import annotations

from taskkit.views.live import follow
from taskkit.views.overview import Overview, look

__all__ = ["Overview", "follow", "look"]
