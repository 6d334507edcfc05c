"""The project's pages and shape: what they name exists, what they list is complete, files stay small."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import dropwhile, groupby
from pathlib import Path
from typing import Any

import click
import pytest

import taskkit
from taskkit.center.statements.intake import COLUMNS, INSTANTS, LIMIT_KEY
from taskkit.cli.root import cli
from taskkit.settings import Settings
from taskkit.states import MOVES, Status

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])
MODULES = sorted((ROOT / "taskkit").rglob("*.py"))
LONGEST_FILE = 300
PUBLIC = [
    "Interrupted",
    "NeverRetry",
    "RetryLater",
    "RunContext",
    "Settings",
    "Taskkit",
    "TaskkitError",
    "__version__",
    "current_run",
]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def words_of(line: str) -> list[str]:
    """The words of a shell line up to its comment."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    return list(lexer)


def calls() -> Iterator[tuple[str, list[str]]]:
    """Every call of ``taskkit`` on any page, in blocks and between backticks, with the page's name."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
        lines += re.findall(r"^    (taskkit .*)$", text, re.MULTILINE)
        lines += re.findall(r"`(taskkit [^`\n]*)`", text)
        for line in lines:
            for is_bar, group in groupby(words_of(line.replace("…", "")), "|".__eq__):
                words = list(dropwhile(re.compile(r"[A-Z_]+=").match, [] if is_bar else group))
                if words[:1] == ["taskkit"]:
                    yield name_of(page), words[1:]


def misnamed(words: list[str]) -> str:
    """What in a call of ``taskkit`` the program does not know; empty when it knows all of it."""
    command: click.Command = cli
    context = click.Context(cli, info_name="taskkit")
    for word in words:
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        if word.startswith("--") and word not in known | {"--help"}:
            return word
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            found = command.get_command(context, word)
            if found is None:
                return word
            command = found
    return ""


def names_in(path: Path) -> set[str]:
    """The functions, classes, constants and methods of a module, methods as ``Class.method``."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (
                item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            found |= {f"{node.name}.{method}" for method in methods}
        targets: list[Any] = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AnnAssign) else []
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def table_under(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head."""
    text = page.read_text(encoding="utf-8").split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    first = rows.index(next(row for row in rows if set(row) <= set("| -")))
    end = (
        next((n for n, row in enumerate(rows) if n > first + 1 and set(row) <= set("| -")), len(rows) + 1) - 1
    )
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[first + 1 : end]]


# the pages


def test_every_taskkit_command_on_a_page_exists_with_its_options() -> None:
    found = list(calls())
    assert len(found) > 40
    wrong = [(page, " ".join(words), bad) for page, words in found if (bad := misnamed(words))]
    assert not wrong


def test_every_make_target_and_module_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"\bmake ([a-z]+)\b(?= *$|`)", text, re.MULTILINE)) <= targets, name_of(page)
        for module in re.findall(r"python -m (taskkit[.\w]*)\b(?!<)", text):
            assert find_spec(module.rstrip(".")), (name_of(page), module)


def test_the_two_readmes_show_the_same_commands_and_code() -> None:
    english, chinese = ROOT / "README.md", ROOT / "README.zh-CN.md"
    assert blocks(english, "python") == blocks(chinese, "python")
    shell = [
        [words_of(line) for block in blocks(page, "sh") for line in block.splitlines()]
        for page in (english, chinese)
    ]
    assert shell[0] == shell[1]


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert there.exists(), f"{name_of(page)}: {target}"
            if anchor:
                heads = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
                assert anchor in anchors, f"{name_of(page)}: {target}"


def test_every_name_in_the_architecture_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = re.findall(r"`((?:[\w-]+/)*\w+\.py)(?::([\w.]+))?`", text)
    assert len(found) > 60
    for path, name in found:
        there = next((base / path for base in (ROOT / "taskkit", ROOT) if (base / path).exists()), None)
        assert there, f"there is no {path}"
        assert not name or name in names_in(there), f"{path} has no {name}"
    known = set().union(*map(names_in, MODULES))
    assert set(re.findall(r"`([A-Z]\w*\.\w+|[A-Z]+_[A-Z_]+)`", text)) <= known


def test_every_room_has_its_line_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = {f"{path.name}/" if path.is_dir() else path.name for path in (ROOT / "taskkit").iterdir()}
    rooms -= {"__init__.py", "__pycache__/", "py.typed"}
    assert {room for room in rooms if f"| `{room}` |" not in text} == set()


def test_the_page_about_settings_lists_every_setting_with_its_default() -> None:
    rows = {
        row[0].strip("`"): row[1].strip("`")
        for row in table_under(ROOT / "docs/operations.md", "## Settings")
    }
    defaults = Settings().shown()
    assert list(rows) == list(defaults)
    special = {"home": "./.taskkit", "worker.processes": "CPUs, at most 8"}
    for key, value in defaults.items():
        plain = (
            "none" if value in (None, []) else f"{value:g}" if type(value) is float else str(value).lower()
        )
        assert rows[key] == special.get(key, str(value) if isinstance(value, str) else plain), key


def test_the_page_about_statuses_tells_every_move() -> None:
    rows = table_under(ROOT / "docs/operations.md", "## Statuses and moves")
    assert [(int(row[0]), row[1]) for row in rows] == [(int(s), s.label.replace("_", " ")) for s in Status]
    for status, row in zip(Status, rows, strict=True):
        told = {int(number) for number in re.findall(r"(?:^|· )(\d)", row[3])}
        moves = {int(to) for sources, to in MOVES.values() if status in sources}
        assert told == moves - {int(status)}, status.label


def test_the_page_about_inserts_names_columns_that_exist() -> None:
    rows = table_under(ROOT / "docs/operations.md", "## Insert from any language")
    named = {column.strip("`") for row in rows for column in row[0].split(", ")}
    assert named == {*COLUMNS, *INSTANTS, LIMIT_KEY} - {"task_type", "token", "occurrence_at", "next_fire_at"}


def test_the_changelog_has_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == taskkit.__version__
    assert f"\n## {taskkit.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


# the package


def test_the_public_names_are_these() -> None:
    assert taskkit.__all__ == PUBLIC
    assert all(hasattr(taskkit, name) for name in PUBLIC)
    homes = [name for names in taskkit._HOMES.values() for name in names]
    assert sorted([*homes, "__version__"]) == PUBLIC
    assert not hasattr(taskkit, "Taskit")


def test_no_two_classes_have_the_same_name() -> None:
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in MODULES)
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for_and_stays_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r'r?"""\S', text), "the first line says what the file is for"
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= LONGEST_FILE


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("taskkit", "sqlalchemy alembic pymysql redis croniter httpx click rich"),
        ("taskkit.worker.perform", "sqlalchemy alembic pymysql redis croniter httpx rich"),
        ("taskkit.worker.child", "sqlalchemy alembic pymysql redis croniter httpx rich"),
        ("taskkit.worker.nursery", "sqlalchemy alembic pymysql redis croniter httpx rich"),
        ("taskkit.worker.process", "alembic croniter httpx pandas numpy matplotlib starlette flask django"),
        (
            "taskkit.worker.__main__",
            "sqlalchemy.orm alembic croniter httpx pandas numpy matplotlib starlette flask django",
        ),
    ],
)
def test_importing_a_module_loads_nothing_that_it_should_not(module: str, heavy: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert loaded & set(heavy.split()) == set()
