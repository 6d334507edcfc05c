"""Who is called by a message: users, phone numbers, everybody; and from which severity on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from taskkit.alerts import SEVERITIES, Event, Notice
from taskkit.receivers.finals import final_states

MOST_PEOPLE = 50
"""DingTalk's limit for one message; more than that is a crowd anywhere."""
LOUD = (Event.FIRING, Event.REPEAT)


@dataclass(frozen=True, slots=True)
class Mentions:
    """People to be called."""

    users: tuple[str, ...] = ()
    mobiles: tuple[str, ...] = ()
    everyone: bool = False
    severity: str = "note"
    """The least for which they are called."""

    def __bool__(self) -> bool:
        return bool(self.users or self.mobiles or self.everyone)

    @property
    def people(self) -> int:
        """How many are named."""
        return len(self.users) + len(self.mobiles)

    def due(self, notice: Notice, *, mention_all: bool = True) -> Mentions:
        """Those to call for this notice: nobody for what is over, nor for what is not bad enough."""
        if not self._loud(notice):
            return NOBODY
        return self if mention_all else replace(self, everyone=False)

    def _loud(self, notice: Notice) -> bool:
        if not notice.items:
            return notice.mentions
        rank = SEVERITIES.index
        return any(
            item.event in LOUD and rank(item.severity) >= rank(self.severity)
            for item in final_states(notice.items)
        )

    def limited(self, most: int = MOST_PEOPLE) -> Mentions:
        """At most ``most`` people, phone numbers first."""
        mobiles = self.mobiles[:most]
        return replace(self, mobiles=mobiles, users=self.users[: most - len(mobiles)])


NOBODY = Mentions()
