"""Notebooks and runbooks: a case to look at, the run of a notebook to one page, and what IPython is taught.

from taskkit.notebook import open_case
case = open_case("incident.zip")
"""

from __future__ import annotations

from taskkit.notebook.case import Case, open_case
from taskkit.notebook.shelf import notebook_of, page_of, reports, rules

__all__ = ["Case", "notebook_of", "open_case", "page_of", "reports", "rules"]
