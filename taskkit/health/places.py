"""What the folders on this node mean: can they be written, and have they room."""

from __future__ import annotations

from collections.abc import Iterator

from taskkit.health.facts import Facts, Folder
from taskkit.health.findings import Finding, error, ok, size, untold, warning

LITTLE, TOO_LITTLE = 1 << 30, 100 << 20


def judge_places(facts: Facts) -> Iterator[Finding]:
    """Findings about each folder of the settings."""
    for folder in facts.folders:
        yield _writable(folder)
        yield _room(folder)
        if folder.open_to_others:
            yield warning(
                f"{folder.use}.private",
                f"{folder.path} is open to other accounts of this machine",
                "whoever can read it has all payloads, and whoever can write it can run programs as you",
                f"chmod 700 {folder.path}",
            )


def _writable(folder: Folder) -> Finding:
    if folder.writable:
        return ok(f"{folder.use}.writable", f"{folder.path} can be written")
    why = "the embedded database and server live there" if folder.use == "home" else "log lines are lost"
    return error(
        f"{folder.use}.writable", f"{folder.path} cannot be written", why, "give this account the folder"
    )


def _room(folder: Folder) -> Finding:
    free = folder.free_bytes
    if free is None:
        return untold(f"{folder.use}.room", f"how much room there is at {folder.path}")
    what = f"{size(free)} free at {folder.path}"
    why = "a full disk stops every write" if folder.use == "home" else "a full disk loses log lines, and more"
    advice = "free some; `taskkit prune` makes room inside the database"
    if free < TOO_LITTLE:
        return error(f"{folder.use}.room", what, why, advice)
    return (
        warning(f"{folder.use}.room", what, why, advice) if free < LITTLE else ok(f"{folder.use}.room", what)
    )
