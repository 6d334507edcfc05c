"""What receivers that are called at a web address have in common."""

from __future__ import annotations

from dataclasses import dataclass

from taskkit.receivers.addresses import Address
from taskkit.receivers.protocol import Options


@dataclass(frozen=True, slots=True)
class AtAddress:
    """Its options and its address; two with one address are the same robot."""

    options: Options
    address: Address

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def robot(self) -> str:
        return self.address.robot
