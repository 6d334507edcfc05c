"""URLs of SQL and Redis: which are accepted, what to write instead, and how to show one without its secrets."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from taskkit.errors import SettingsError

MYSQL = ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql")
REDIS = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")
DATABASE_FORM = "mysql://user:password@host:3306/database or sqlite:///file.db"
REDIS_FORM = (
    "redis://host:6379/0, rediss://…, unix:///path/to/socket, "
    "redis+sentinel://host1:26379,host2:26379/master/0 or redis+cluster://host:6379"
)
MYSQL_PARAMETERS = frozenset(
    """
    bind_address charset client_flag collation connect_timeout init_command local_infile max_allowed_packet
    program_name read_default_file read_default_group read_timeout server_public_key sql_mode ssl ssl_ca
    ssl_capath ssl_cert ssl_check_hostname ssl_cipher ssl_disabled ssl_key ssl_key_password ssl_verify_cert
    ssl_verify_identity unix_socket use_unicode write_timeout
    """.split()
)
UNSPOKEN = r"(?:[\w.-]*(?:passw|pwd|secret|token|credential)[\w.-]*|key|sign|api_?key)"

_userinfo = re.compile(r"([a-z][a-z0-9+.-]*://[^\s:/?#@]*:)\S+@", re.IGNORECASE)
_parameter = re.compile(rf"([?&]{UNSPOKEN}=)[^\s&#'\"]+", re.IGNORECASE)
_not_a_port = re.compile(r"(://[^\s:/?#@\[]*:)(?!\d+(?:[,/?#]|$)|\*\*\*@)[^\s/?#,]+")


def redact_text(text: str) -> str:
    """Any text with the passwords and tokens of the URLs in it replaced by ``***``."""
    if "://" not in text:
        return text
    return _parameter.sub(r"\1***", _userinfo.sub(r"\1***@", text))


def redact(url: str) -> str:
    """A URL fit to be shown: passwords and tokens become ``***``; what is no URL at all is not shown."""
    if "://" not in url:
        return "***"
    joined = "%20".join(url.split())
    return _not_a_port.sub(r"\1***", redact_text(joined))


def check_database_url(url: str) -> None:
    """Raise SettingsError, saying what to write, unless taskkit can use this URL for its task center."""
    parts = _split(url, DATABASE_FORM)
    if parts.scheme == "sqlite":
        _check_sqlite(url)
    elif parts.scheme in MYSQL:
        _check_mysql(parts)
    elif parts.scheme.partition("+")[0] in ("mysql", "mariadb", "sqlite"):
        raise SettingsError(f"the driver of {parts.scheme}:// is not supported; write {DATABASE_FORM}")
    else:
        raise SettingsError(f"{parts.scheme}:// is no database that taskkit knows; write {DATABASE_FORM}")


def _check_sqlite(url: str) -> None:
    rest = url.partition("://")[2]
    path = rest.partition("?")[0]
    if not rest.startswith("/"):
        raise SettingsError(
            "an SQLite URL has three slashes, or four for an absolute path; "
            "write sqlite:///file.db or sqlite:////folder/file.db"
        )
    if path in ("/", "/:memory:") or "mode=memory" in rest:
        raise SettingsError("a database in memory cannot be shared by processes; write sqlite:///file.db")


def _check_mysql(parts: SplitResult) -> None:
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not parts.hostname and "unix_socket" not in parameters:
        raise SettingsError(f"the host is missing; write {DATABASE_FORM}")
    if not parts.path.strip("/"):
        raise SettingsError(f"the name of the database is missing; write {DATABASE_FORM}")
    for name in parameters:
        if name not in MYSQL_PARAMETERS:
            raise SettingsError(
                f"unknown parameter {name!r} in the URL{did_you_mean(name, MYSQL_PARAMETERS)}"
            )


def check_redis_url(url: str) -> None:
    """Raise SettingsError, saying what to write, unless taskkit can use this URL for its queue."""
    scheme = url.partition("://")[0].lower()
    if scheme == "redis+sentinel":
        _check_sentinel(url)
        return
    parts = _split(url, REDIS_FORM)
    if parts.scheme not in REDIS:
        raise SettingsError(f"{parts.scheme}:// is no broker that taskkit knows; write {REDIS_FORM}")
    if parts.scheme == "unix":
        if not parts.path.strip("/"):
            raise SettingsError("the path of the socket is missing; write unix:///path/to/socket")
    elif not parts.hostname:
        raise SettingsError(f"the host is missing; write {REDIS_FORM}")
    elif not re.fullmatch(r"/?\d*", parts.path):
        raise SettingsError("the database of Redis is a number; write redis://host:6379/0")


def _check_sentinel(url: str) -> None:
    form = "redis+sentinel://host1:26379,host2:26379/master/0"
    head, _, rest = url.partition("://")
    netloc, slash, tail = rest.partition("/")
    credentials, _, hosts = netloc.rpartition("@")
    for host in hosts.split(","):
        parts = _split(f"{head}://{credentials}@{host}{slash}{tail}", form)
        if not parts.hostname:
            raise SettingsError(f"a host is missing; write {form}")
    if not re.fullmatch(r"[^/?#]+(/\d*)?([?#].*)?", tail):
        raise SettingsError(f"after the hosts stand the master's name and the database; write {form}")


def _split(url: str, form: str) -> SplitResult:
    """The parts of a URL; its errors never repeat the URL, which may hold a password in the wrong place."""
    if re.search(r"[\s\x00-\x1f]", url):
        raise SettingsError(f"a URL has no blanks and no line breaks in it; write {form}")
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url):
        raise SettingsError(f"not a URL; write {form}")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SettingsError(
            f"the port is not a number up to 65535 (in a password write @ as %40, / as %2F, # as %23, "
            f"? as %3F, : as %3A); write {form}"
        ) from None
    return parts


def sqlalchemy_url(url: str) -> str:
    """An accepted database URL as SQLAlchemy wants it: PyMySQL with utf8mb4, or an absolute SQLite path."""
    if url.lower().startswith("sqlite:"):
        return absolute_sqlite(url, Path.cwd())
    rest = url.partition("://")[2]
    if any(name == "charset" for name, _ in parse_qsl(urlsplit(url).query)):
        return f"mysql+pymysql://{rest}"
    return f"mysql+pymysql://{rest}{'&' if '?' in rest else '?'}charset=utf8mb4"


def absolute_sqlite(url: str, folder: Path) -> str:
    """An SQLite URL whose path no longer depends on the current folder; its parameters are kept."""
    path, mark, query = url.partition("://")[2][1:].partition("?")
    return f"sqlite:///{_in_folder(path, folder)}{mark}{query}"


def _in_folder(path: str, folder: Path) -> str:
    return path if path.startswith("file:") else str(folder / Path(path).expanduser())


def did_you_mean(name: str, known: frozenset[str] | list[str]) -> str:
    """``; did you mean 'x'?`` when something known looks like ``name``, else nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""
