"""Texts that break software, for every name and value that people choose."""

from __future__ import annotations

import json
from pathlib import Path

LIST = Path(__file__).parents[2] / "shared" / "data" / "naughty-strings.json"
OWN = [
    "支付😀完成", "𝌆", "👨‍👩‍👧‍👦", "𠮷野家", "a\u0000b", "\u202e", "", " ", "\\", "'", '"', "\\'; DROP TABLE task_center; --",
    "{}", "%s", ":id", "?", "\ufeff", "\r\n", "null", "1e400", "$HOME", "<script>", "é", "e\u0301", "\U0010ffff",
]  # fmt: skip


def naughty_strings() -> list[str]:
    """Our own, and the big list where it is at hand."""
    return OWN + (json.loads(LIST.read_text()) if LIST.exists() else [])
