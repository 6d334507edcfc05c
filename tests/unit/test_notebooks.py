"""One name, three places: each rule has its words, its notebook and its page; notebooks hold evidence and no logic."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import dropwhile
from pathlib import Path

import nbformat
import pytest

from taskkit.analytics.names import RULES
from taskkit.analytics.wording import catalogue
from taskkit.errors import NotFound
from taskkit.notebook.shelf import notebook_of, page_of, pages, reports, title_of
from taskkit.watchdog.rules import shipped
from taskkit.watchdog.signals import Rule
from tests.unit.test_project import misnamed, words_of

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted((ROOT / "runbooks").glob("*.md"))
HEADINGS = ["What it means", "Who is hurt", "Look", "Do", "When to call whom"]
MOST_CODE_CELLS = 12
LOGIC = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While, ast.If, ast.Try, ast.With,
    ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp,
)  # fmt: skip


def code_of(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE) + re.findall(r"`([^`\n]+)`", text)


def test_each_rule_has_its_words_its_notebook_and_its_page() -> None:
    for rule in RULES:
        assert rule in catalogue("en")
        assert notebook_of(rule).is_file()
        assert page_of(rule).startswith("# ")
    assert {page.stem.split(".")[0] for page in PAGES} == set(pages())
    assert {path.stem for path in NOTEBOOKS} <= {*RULES, *(f"report-{name}" for name in reports())}
    assert set(reports()) >= {"today", "capacity", "reliability_week", "no_double_run_proof"}


@pytest.mark.parametrize("rule", shipped(), ids=lambda rule: rule.id)
def test_one_name_three_places_a_shipped_rule_has_its_page_and_its_notebook(rule: Rule) -> None:
    assert (ROOT / rule.runbook).is_file()
    assert rule.runbook == f"runbooks/{rule.id}.md"
    assert rule.id in pages()
    assert title_of(rule.id)
    with_notebook = {"backlog", "duplicates", "zombies", "lost", "success_rate", "missed", "slow"}
    assert (rule.id in RULES) == (rule.id in with_notebook)
    assert rule.evidence == (rule.id in with_notebook)
    if rule.id in with_notebook:
        assert notebook_of(rule.id).is_file()


def test_a_runbook_that_does_not_exist_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match=r"did you mean .backlog"):
        notebook_of("backlogs")
    with pytest.raises(NotFound, match="there are backlog"):
        page_of("today")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_of_evidence_without_logic_and_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert "?" in notebook.cells[0].source or path.stem.startswith("report-")
    assert [n for n, cell in enumerate(code) if "parameters" in cell.metadata.get("tags", [])] == [0]
    assert len(code) <= MOST_CODE_CELLS
    assert not [cell for cell in code if cell.outputs or cell.execution_count is not None]
    assert [cell.cell_type for cell in notebook.cells[3:]] == ["markdown", "code"] * (len(code) - 2)
    for cell in code:
        assert not [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, LOGIC)], cell.source
        assert not re.search(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", cell.source), cell.source
    assert re.match(r"(diagnose|survey)\(", code[-1].source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_commands_in_a_notebook_exist(path: Path) -> None:
    text = "".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    found = [words_of(line)[1:] for line in re.findall(r"`(taskkit [^`\n]*)`", text)]
    assert not [words for words in found if misnamed(words)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_page_has_the_five_headings_and_commands_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "." not in page.stem:
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(HEADINGS)
    found = [words_of(line) for line in commands(page)]
    ours = [list(dropwhile(re.compile(r"[A-Z_]+=").match, words)) for words in found]
    assert [words for words in ours if words[:1] == ["taskkit"]]
    assert not [words for words in ours if words[:1] == ["taskkit"] and misnamed(words[1:])]
    modules = {words[2] for words in ours if words[:2] == ["python", "-m"]}
    assert modules <= {"taskkit.worker", "taskkit.scheduler", "taskkit.watchdog"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_runbook_page_can_be_read_on_a_phone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert max(len(line.strip()) for line in text.splitlines() if line.startswith("    ")) <= 64
    assert "|" not in text, "no tables"
    assert len(text) < 4000


@pytest.mark.parametrize("rule", pages())
def test_both_languages_of_a_page_say_the_same_commands_in_as_many_steps(rule: str) -> None:
    english, chinese = page_of(rule), page_of(rule, "zh")
    for pattern in (r"^ {4,}\S.*$", r"^\d+\. ", r"^## ", r"`(taskkit [^`]*)`|`docs"):
        one, other = (re.findall(pattern, text, re.MULTILINE) for text in (english, chinese))
        assert len(one) == len(other)
        assert pattern != r"^ {4,}\S.*$" or one == other


def test_notebooks_and_pages_travel_in_the_wheel() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"][
        "targets"
    ]
    assert build["wheel"]["force-include"] == {
        "notebooks": "taskkit/notebooks",
        "alerting": "taskkit/alerting",
        "runbooks": "taskkit/runbooks",
    }
    assert {"notebooks", "alerting", "runbooks"} <= set(build["sdist"]["include"])
