"""Reading SHOW GRANTS of MariaDB and MySQL: whose privileges reach our tables, and whose do not."""

from __future__ import annotations

import pytest

from taskkit.center.grants import read_grants

TO = " TO `app`@`10.%`"


@pytest.mark.parametrize(
    ("line", "privilege", "held"),
    [
        ("GRANT ALL PRIVILEGES ON *.*" + TO + " WITH GRANT OPTION", "DELETE", True),
        ("GRANT SELECT, INSERT ON `shop`.*" + TO, "INSERT", True),
        ("GRANT SELECT, INSERT ON `shop`.*" + TO, "DELETE", False),
        ("GRANT DELETE ON `sh%`.*" + TO, "DELETE", True),
        ("GRANT DELETE ON `sho_`.*" + TO, "DELETE", True),
        (r"GRANT DELETE ON `sho\_`.*" + TO, "DELETE", False),
        ("GRANT DELETE ON `shop2`.*" + TO, "DELETE", False),
        ("GRANT DELETE ON `SHOP`.*" + TO, "DELETE", False),
        ("GRANT DELETE ON `shop`.`task_center`" + TO, "DELETE", True),
        ("GRANT DELETE ON `shop`.`task_run`" + TO, "DELETE", False),
        ("GRANT SELECT (`id`, `status`), DELETE ON `shop`.`task_center`" + TO, "SELECT", False),
        ("GRANT SELECT (`id`, `status`), DELETE ON `shop`.`task_center`" + TO, "DELETE", True),
        (
            "GRANT USAGE ON *.*" + TO + " IDENTIFIED BY PASSWORD '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'",
            "SELECT",
            False,
        ),
        ("GRANT EXECUTE ON PROCEDURE `shop`.`task_center`" + TO, "SELECT", False),
        ("nonsense", "SELECT", False),
    ],
)
def test_a_privilege_on_our_table(line: str, privilege: str, held: bool) -> None:
    assert read_grants([line], "shop").has(privilege, "task_center") is held


def test_privileges_add_up_over_lines() -> None:
    found = read_grants(["GRANT SELECT ON *.*" + TO, "GRANT INSERT ON `shop`.*" + TO], "shop")
    assert found.has("SELECT", "task_run")
    assert found.has("INSERT", "task_run")
    assert not found.has("INSERT"), "not on the server"


def test_process_is_a_privilege_of_the_server() -> None:
    assert read_grants(["GRANT PROCESS, REPLICATION CLIENT ON *.*" + TO], "shop").has("PROCESS")
    assert not read_grants(["GRANT ALL PRIVILEGES ON `shop`.*" + TO], "shop").has("PROCESS")


@pytest.mark.parametrize(
    ("line", "complete"),
    [
        ("GRANT `ops`@`%`" + TO, False),
        ("GRANT ops TO app@localhost", False),
        ("REVOKE DELETE ON `shop`.* FROM `app`@`10.%`", False),
        ("GRANT SELECT ON *.*" + TO, True),
    ],
)
def test_roles_and_partial_revokes_leave_a_doubt(line: str, complete: bool) -> None:
    assert read_grants([line], "shop").complete is complete


def test_a_hash_of_a_password_is_not_kept() -> None:
    line = "GRANT USAGE ON *.*" + TO + " IDENTIFIED BY PASSWORD '*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'"
    assert "2470C0" not in repr(read_grants([line], "shop"))


def test_a_name_with_dots_and_backticks() -> None:
    assert read_grants(["GRANT SELECT ON `a.b``c`.*" + TO], "a.b`c").has("SELECT", "task_run")
