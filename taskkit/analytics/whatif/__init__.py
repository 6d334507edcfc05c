"""What would have been: one's own arrivals and service times again, with other slots, limits and load.

from taskkit.analytics import LiveSource
from taskkit.analytics.whatif import whatif
whatif(LiveSource(kit.center), slots=[8, 16], load=2)
"""

from __future__ import annotations

from taskkit.analytics.whatif.replaying import Outlook, WhatIf, whatif

__all__ = ["Outlook", "WhatIf", "whatif"]
