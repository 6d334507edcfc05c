"""Every notebook, run by papermill on a healthy and on a broken bundle: its verdict is that of ``taskkit diagnose``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from jupyter_core.utils import run_sync
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from taskkit.analytics import RULES, Bundle, diagnose
from taskkit.analytics.bundle import create
from taskkit.notebook.page import as_page
from taskkit.notebook.running import kernel
from taskkit.notebook.shelf import notebook_of
from tests.cases import broken, healthy
from tests.incidents import given
from tests.unit.test_whatif import random_hour

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
RULE_OF = {
    "report-today": None,
    "report-capacity": "capacity",
    "report-reliability_week": "success_rate",
    "report-no_double_run_proof": "duplicates",
}


class OneKernel(NBClientEngine):
    """papermill's own engine, in one kernel for all notebooks, whose names are forgotten after each."""

    manager: Any = None

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **_: Any) -> None:
        client = PapermillNotebookClient(
            nb_man, km=cls.manager, timeout=60, extra_arguments=["--HistoryManager.enabled=False"]
        )
        try:
            client.execute()
            client.wait_for_reply(client.kc.execute("get_ipython().reset(new_session=True)"))
        finally:
            client.kc.stop_channels()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    OneKernel.manager = kernel(tmp_path_factory.mktemp("k"))
    papermill_engines.register("one-kernel", OneKernel)
    yield "one-kernel"
    run_sync(OneKernel.manager.shutdown_kernel)(now=True)


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    sources = {"healthy": healthy(), "broken": broken()}
    return {name: create(source, folder / f"{name}.zip") for name, source in sources.items()}


@pytest.mark.parametrize("state", ["healthy", "broken"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_ends_in_the_verdict_of_diagnose(
    path: Path, state: str, engine: str, bundles: dict[str, Path], tmp_path: Path
) -> None:
    done = tmp_path / "done.ipynb"
    papermill.execute_notebook(
        path, done, {"bundle": str(bundles[state])}, engine_name=engine, progress_bar=False, log_output=False
    )
    found = nbformat.read(done, as_version=4)
    assert not [
        o for cell in found.cells for o in cell.get("outputs", []) if o.output_type in {"error", "stream"}
    ]
    shown = found.cells[-1].outputs[-1].data["text/html"]
    verdicts = dict(re.findall(r'data-rule="(\w+)" data-verdict="(\w+)"', shown))
    rule = RULE_OF.get(path.stem, path.stem)
    source = Bundle(bundles[state])
    expected = {name: diagnose(name, source) for name in ([rule] if rule else RULES)}
    assert verdicts == {name: one.verdict for name, one in expected.items()}
    assert all(one.healthy for one in expected.values()) or state == "broken"
    page = as_page(found)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)|url\((?!#)|@import|<script""", page)


def test_the_capacity_report_replays_its_window_before_it_says_what_if(engine: str, tmp_path: Path) -> None:
    kept = create(given(**random_hour(5, 0.9)), tmp_path / "hour.zip")
    papermill.execute_notebook(
        notebook_of("capacity"), tmp_path / "done.ipynb", {"bundle": str(kept), "slots": [8]},
        engine_name=engine, progress_bar=False, log_output=False,
    )  # fmt: skip
    cells = [
        cell for cell in nbformat.read(tmp_path / "done.ipynb", as_version=4).cells if cell.get("outputs")
    ]
    tables = [out.data.get("text/html", "") for cell in cells for out in cell.outputs if "data" in out]
    proof, variants = [table for table in tables if "past, replayed" in table]
    rows = [re.findall(r"<td>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", proof)]
    assert [row[0] for row in rows if row] == ["past, measured", "past, replayed", "  error"]
    p95 = next(row for row in rows if row and row[0] == "  error")[3]
    assert abs(float(p95.removesuffix(" %"))) <= 15, "the replay of this hour is near to what was measured"
    assert "8 slots, 2 × the load" in variants


def test_the_broken_case_is_bad_by_most_rules() -> None:
    verdicts = {rule: diagnose(rule, broken()) for rule in RULES}
    assert sum(not one.healthy for one in verdicts.values()) >= 7, {r: d.verdict for r, d in verdicts.items()}
