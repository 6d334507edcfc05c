"""Tells whether a crontab has a user column, from its path or from its job lines."""

from __future__ import annotations

import pwd
import re
import shutil
from collections.abc import Iterable
from pathlib import PurePath
from typing import Literal

from taskkit.crontab.entries import USER, first_word
from taskkit.crontab.lines import Detected

UserColumn = Literal["system", "user", "either"]

PACKAGE_USERS = frozenset(
    "root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody messagebus sshd "
    "postgres mysql redis nginx apache httpd tomcat jenkins gitlab git mongodb rabbitmq elasticsearch grafana "
    "prometheus zabbix nagios munin postfix dovecot amavis clamav debian-spamd ntp ntpsec barman sogo smmsp "
    "systemd-timesync".split()
)
SHELL_WORDS = frozenset(
    "if for while until case { ( ! [ [[ . : source cd exec eval command export set umask trap ulimit unset type "
    "true false wait test echo printf read return exit".split()
)
PROGRAMS = frozenset(
    "sudo su nice ionice env time timeout flock chronic nohup setsid sh bash dash zsh ksh php python python2 python3 "
    "perl ruby node java curl wget find rsync tar gzip cp mv rm cat date sleep logger mysqldump pg_dump docker "
    "systemctl service certbot run-parts rake bundle npm artisan make".split()
)
AMBIGUOUS_ARGUMENTS = frozenset("test echo read set type true false wait exit command".split())
IN_PROGRAM_FOLDER = re.compile(r"/(\S*/)?(bin|sbin|lib|libexec|games|init\.d|rc\.d)/\S+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


def by_path(name: str) -> Detected | None:
    """What the folder of a crontab says; None when it says nothing."""
    path = PurePath(name)
    if path.parts[-3:-1] == ("etc", "cron.d") or path.parts[-2:] == ("etc", "crontab"):
        return Detected(True, True, "/etc/crontab and the files of /etc/cron.d have a user column")
    if path.parts[-4:-1] == ("spool", "cron", "crontabs") or path.parts[-3:-1] == ("spool", "cron"):
        return Detected(
            False, True, "the crontabs in /var/spool/cron belong to one user and have no user column"
        )
    return None


def by_lines(commands: Iterable[str]) -> Detected:
    """Judge by what follows the time fields of every job line; the majority decides, contradiction is said."""
    verdicts = [verdict(command) for command in commands]
    system, user = verdicts.count("system"), verdicts.count("user")
    if not verdicts:
        return Detected(False, True, "there is no job line, so nothing depends on it")
    sure = (system == 0) != (user == 0)
    if system > user:
        return Detected(True, sure, f"{_of(system, verdicts)} a user name before the command")
    if user > system:
        return Detected(False, sure, f"{_of(user, verdicts)} a command right after the time")
    if system:
        return Detected(False, False, "as many job lines have a user name before the command as have none")
    return Detected(False, False, "the word after the time may be a user name or a command in every job line")


def _of(count: int, verdicts: list[UserColumn]) -> str:
    return f"{count} of {len(verdicts)} job lines {'has' if count == 1 else 'have'}"


def verdict(rest: str) -> UserColumn:
    """Whether the text after the time fields starts with a user name, with a command, or may do either."""
    word, command = first_word(rest)
    if not USER.fullmatch(word) or word in SHELL_WORDS or word in PROGRAMS:
        return "user"
    known = is_user(word)
    if not command:
        return "either" if known else "user"
    if command[0] in "-<>|&;)":
        return "user"
    if not on_path(word):
        return "system" if known or starts_command(command) else "either"
    if known:
        return "system" if starts_command(command) else "either"
    return "user"


def starts_command(text: str) -> bool:
    """Whether a text is far more likely a command of its own than the arguments of one."""
    word, rest = first_word(text)
    if word in AMBIGUOUS_ARGUMENTS:
        return rest.startswith(("-", "! ", "$", '"', "'"))
    return (
        word in SHELL_WORDS
        or word in PROGRAMS
        or bool(IN_PROGRAM_FOLDER.fullmatch(word) or ASSIGNMENT.match(word))
        or word[0] in "({[!"
    )


def is_user(word: str) -> bool:
    """Whether a word is a user here, one that Debian or a well-known package makes, or named like one."""
    if word in PACKAGE_USERS or word.startswith(("_", "Debian-", "systemd-")):
        return True
    try:
        pwd.getpwnam(word)
    except KeyError:
        return False
    return True


def on_path(word: str) -> bool:
    """Whether a word is a program on this machine's PATH."""
    return shutil.which(word) is not None
