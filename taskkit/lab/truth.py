"""What really happened in a run of the lab, and how it is written down beside the bundle."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FILE = "truth.json"
BUNDLE = "incident.zip"


@dataclass(slots=True)
class Truth:
    """The rule, the variant, which verdicts are right, and the facts that make them so, as the lab saw them itself."""

    rule: str
    variant: str
    verdicts: tuple[str, ...]
    seed: int
    about: str
    stores: str
    scale: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    times: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write truth.json into the folder."""
        path = folder / FILE
        path.write_text(
            json.dumps(asdict(self), indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8"
        )
        return path


def read(folder: Path) -> dict[str, Any]:
    """The truth of a run that was kept."""
    found: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return found
