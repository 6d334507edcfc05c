"""Whether a crontab has a user column: by its path, by its job lines, by the caller's word."""

from __future__ import annotations

import pytest

from taskkit.crontab import detection, read


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("/etc/crontab", True),
        ("/etc/cron.d/shop", True),
        ("/backup/host1/etc/cron.d/shop", True),
        ("/var/spool/cron/crontabs/alice", False),
        ("/var/spool/cron/alice", False),
    ],
)
def test_a_well_known_path_decides(name: str, system: bool) -> None:
    crontab = read("* * * * * mail x\n", name=name, timezone="UTC")
    assert (crontab.detected.system, crontab.detected.sure) == (system, True)
    assert crontab.detected.reason


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a user ``alice``, and with some programs that are named as users are."""
    users = {*detection.PACKAGE_USERS, "alice", "_apt"}
    monkeypatch.setattr(detection, "is_user", lambda word: word in users)
    monkeypatch.setattr(
        detection, "on_path", lambda word: word in {"mail", "sync", "man", "mysql", "backup-all"}
    )


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("commands", "system", "sure"),
    [
        (["root test -e /x && /x"], True, True),
        (["alice php /srv/x.php"], True, True),
        (["_apt foo"], True, True),
        (["unknown [ -x /usr/bin/x ] && x"], True, True),
        (["unknown /usr/sbin/x"], True, True),
        (["unknown A=1 x"], True, True),
        (["mail if [ -x /x ]; then /x; fi"], True, True),
        (["/usr/bin/x y"], False, True),
        (["cd /srv && x"], False, True),
        (["php /srv/x.php"], False, True),
        (["sudo /usr/bin/x"], False, True),
        (["A=1 x"], False, True),
        (["[ -x /x ] && x"], False, True),
        (["x.sh"], False, True),
        (["backup-all /srv"], False, True),
        (["mysql -e 'select 1'"], False, True),
        (["mail -s hi joe"], False, True),
        (["sync && x", "mail joe"], False, True),
        (["mail joe"], False, False),
        (["unknown thing"], False, False),
        (["mytool test"], False, False),
        (["root /usr/bin/x", "php y"], False, False),
        (["root /usr/bin/x", "root y", "php y"], True, False),
        (["mail joe", "root /usr/bin/x"], True, True),
    ],
)
def test_the_job_lines_decide_otherwise(commands: list[str], system: bool, sure: bool) -> None:
    text = "A=b\n# c\n" + "".join(f"*/5 * * * * {command}\n" for command in commands)
    crontab = read(text, name="shop.cron", timezone="UTC")
    assert (crontab.detected.system, crontab.detected.sure) == (system, sure)
    assert any("not certain" in note for note in crontab.notes) == (not sure)


def test_the_caller_decides_before_all() -> None:
    crontab = read("* * * * * root x\n", name="/etc/cron.d/x", system=False, timezone="UTC")
    assert (crontab.jobs[0].user, crontab.jobs[0].command) == (None, "root x")
    assert (crontab.detected.system, crontab.detected.sure) == (False, True)
