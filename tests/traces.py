"""What an installation has written, as text, to be searched for what must not stand in it: logs, files, every table of SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import quote, urlsplit

from sqlalchemy import inspect, text

from tests.processes import Installation
from tests.robots import FakeServer


def secrets_of(*robots: FakeServer) -> set[str]:
    """Keys, tokens and signing secrets, as they are and as they stand in a URL."""
    plain = {
        value
        for robot in robots
        for name in ("key", "token", "secret")
        if (value := getattr(robot, name, ""))
    }
    return (
        plain
        | {quote(one, safe="") for one in plain}
        | {urlsplit(robot.url).query for robot in robots} - {""}
    )


def found_in(home: Installation, secrets: Iterable[str]) -> list[str]:
    """The places in which one of these stands."""
    wanted = {one.encode(): one for one in secrets}
    assert all(len(one) > 8 for one in wanted), "too short to be searched for"
    return sorted(
        {place for place, content in [*files(home), *tables(home)] for one in wanted if one in content}
    )


def files(home: Installation) -> Iterator[tuple[str, bytes]]:
    """Every file below the installation's folder, the embedded database among them."""
    for path in sorted(home.folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(home.folder)), path.read_bytes()


def tables(home: Installation) -> Iterator[tuple[str, bytes]]:
    """Every table of SQL, row by row."""
    engine = home.kit.center.database.engine
    with engine.connect() as connection:
        for name in inspect(engine).get_table_names():
            for row in connection.execute(text(f"SELECT * FROM {name}")):
                yield f"table {name}", repr(tuple(row)).encode()
