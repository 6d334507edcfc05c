"""What every command has at hand: the settings, the kit, the task center; opened when first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskkit.errors import InputError, NotFound

if TYPE_CHECKING:
    from taskkit.center import TaskCenter
    from taskkit.kit import Taskkit
    from taskkit.producer import Producer
    from taskkit.registry import Registry
    from taskkit.settings import Settings


class Front:
    """The installation that the command line is about."""

    def __init__(self, home: str | None = None, config: str | None = None) -> None:
        self.home, self.config = home, config
        self._settings: Settings | None = None
        self._kit: Taskkit | None = None
        self._raw: TaskCenter | None = None

    @property
    def options(self) -> list[str]:
        """What was said on the command line about the installation, for a process that is to mean the same."""
        given = {"--home": self.home, "--config": self.config}
        return [part for name, value in given.items() if value for part in (name, str(value))]

    @property
    def settings(self) -> Settings:
        """Environment and taskkit.toml, with what was said on the command line."""
        if self._settings is None:
            from taskkit.settings import Settings

            self._settings = Settings.load(file=self.config, home=self.home)
        return self._settings

    @property
    def kit(self) -> Taskkit:
        """The kit that writes; an embedded installation is made where there is none yet."""
        if self._kit is None:
            from taskkit.kit import Taskkit

            self._kit = Taskkit(self.settings)
        return self._kit

    @property
    def center(self) -> TaskCenter:
        """The task center of an installation that exists; looking never makes one."""
        self.must_exist()
        return self.kit.center

    def raw_center(self) -> TaskCenter:
        """The task center whatever its schema is; nothing of it is checked or made."""
        if self._raw is None:
            from taskkit.center import TaskCenter

            self._raw = TaskCenter(self.settings.sqlalchemy_url())
        return self._raw

    def database_shown(self) -> str:
        """The database for people: its file, or its URL without the password."""
        from taskkit.settings import redact

        settings = self.settings
        if settings.database_url is None:
            return f"SQLite {settings.home / 'taskkit.db'}"
        return redact(settings.database_url)

    def broker_shown(self) -> str:
        """The broker for people."""
        from taskkit.settings import redact

        url = self.settings.redis_url
        return f"embedded server in {self.settings.home}" if url is None else redact(url)

    def producer(self, code: str, app: str | None, *, checked: bool = True) -> Producer:
        """What writes tasks of this code, once the handler that is known for it has been found.

        That is a built-in one, or one of the application; with no application any code is taken.
        """
        from taskkit.app import add_builtins, load
        from taskkit.worker.builtin import HANDLERS

        kit, app = self.kit, app or (self.settings.app if checked else None)
        if app is not None:
            kit.registry = load(app).registry
            if kit.registry.get(code) is None:
                raise InputError("code", unknown_code(code, app, kit.registry))
        elif code in HANDLERS:
            add_builtins(kit)
        return kit.producer

    def newest_id(self) -> int:
        """The highest id there is: a task that is added after this look has a higher one."""
        from taskkit.center import TaskFilter

        newest = self.kit.center.read.find(TaskFilter(limit=1))
        return newest[0].id if newest else 0

    def must_exist(self) -> None:
        """Raise NotFound when this is an embedded installation and nothing was ever started in its home."""
        settings = self.settings
        if settings.embedded_database and not (settings.home / "taskkit.db").exists():
            raise NotFound(
                f"nothing is installed in {settings.home}: run `taskkit up` to start it there, "
                "or say where it is with --home or TASKKIT_DATABASE_URL"
            )

    def close(self) -> None:
        """Close what was opened."""
        for opened in (self._kit, self._raw):
            if opened is not None:
                opened.close()


def unknown_code(code: str, app: str, registry: Registry) -> str:
    """What to say when an application has no such handler."""
    from taskkit.hints import suggest

    codes = sorted(handler.code for handler in registry)
    close = suggest(code, codes) or f"; it has {', '.join(codes[:10]) or 'none'}"
    return f"{app} has no handler {code!r}{close} (--unchecked writes it all the same)"


pass_front = click.make_pass_decorator(Front, ensure=True)
