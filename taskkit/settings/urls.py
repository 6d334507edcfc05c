"""URLs: which databases are accepted, what to write instead, and how to show any URL without its secrets."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from taskkit.errors import SettingsError
from taskkit.hints import suggest

MYSQL = ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql")
DATABASE_FORM = "mysql://user:password@host:3306/database or sqlite:///file.db"
NO_PORT = "the port is not a number up to 65535"
ESCAPED = "in a password write @ as %40, / as %2F, # as %23, ? as %3F, : as %3A"
MYSQL_PARAMETERS = frozenset(
    """
    bind_address charset client_flag collation connect_timeout init_command local_infile max_allowed_packet
    pooler program_name read_default_file read_default_group read_timeout server_public_key sql_mode ssl ssl_ca
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


def origin(url: str) -> str:
    """Of a URL whose path may be a secret only what cannot be one: scheme and host."""
    match = re.match(r"(https?)://(?:[^/?#@]*@)?([^/?#@]+)", url)
    return f"{match[1]}://{match[2]}/***" if match else "***"


def check_web_url(url: str) -> None:
    """Raise SettingsError, which never repeats it, unless this is an http or https URL."""
    form = "https://host/path"
    parts = _split(url, form)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"must begin with http:// or https:// and a host; write {form}")


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
            raise SettingsError(f"unknown parameter {name!r} in the URL{suggest(name, MYSQL_PARAMETERS)}")
    if parameters.get("pooler", "transaction") != "transaction":
        raise SettingsError(f"pooler is {parameters['pooler']!r}; write pooler=transaction, or leave it out")


def check_form(url: str, form: str) -> None:
    """Raise SettingsError, which never repeats the URL, unless it begins like one and has no blanks in it."""
    if re.search(r"[\s\x00-\x1f]", url):
        raise SettingsError(f"a URL has no blanks and no line breaks in it; write {form}")
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url):
        raise SettingsError(f"not a URL; write {form}")


def _split(url: str, form: str) -> SplitResult:
    """The parts of a URL; its errors never repeat the URL, which may hold a password in the wrong place."""
    check_form(url, form)
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SettingsError(f"{NO_PORT} ({ESCAPED}); write {form}") from None
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
