"""A notebook that was run as one page: everything is inside, for a phone and for paper; the code is folded away."""

from __future__ import annotations

import html
from typing import Any

STYLE = """
body{font:16px/1.5 sans-serif;margin:1em auto;max-width:62em;padding:0 1em;color:#1f2328;background:#fff}
h1{font-size:1.5em}h2{font-size:1.2em}table{border-collapse:collapse;font-size:.9em}
.out{overflow-x:auto}th{text-align:left}td,th{padding:.15em .8em .15em 0;border-bottom:1px solid #ddd;vertical-align:top}
code,pre{font:.9em/1.4 monospace;background:#f4f4f4}pre{padding:.6em;overflow-x:auto;white-space:pre-wrap}
details{margin:.2em 0;color:#777}summary{font-size:.75em;cursor:pointer}figure svg{max-width:100%;height:auto}
@media(max-width:40em){figure svg{min-width:40em}}
@media print{details,a{display:none}body{max-width:none;margin:0}figure,tr{break-inside:avoid}}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page may fetch nothing, and a browser sees to it."""
LAST = "diagnosis"
FORMS = ("text/html", "image/svg+xml", "text/plain")


def as_page(notebook: Any) -> str:
    """The page, with the notebook's first heading as its title."""
    cells = [part for cell in notebook.cells for part in _cell(cell)]
    cells.insert(1, f'<p><a href="#{LAST}">To the diagnosis</a></p>')
    cells.insert(-1, f'<a id="{LAST}"></a>')
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(_title(notebook))}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style></head>'
        f"<body>{''.join(cells)}</body></html>\n"
    )


def _title(notebook: Any) -> str:
    first = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), "taskkit")
    return str(first).splitlines()[0].lstrip("# ")


def _cell(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        import mistune

        return [str(mistune.html(cell.source))]
    code = f"<details><summary>code</summary><pre>{html.escape(cell.source)}</pre></details>"
    return [code, *(f'<div class="out">{_output(one)}</div>' for one in cell.outputs)]


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return f"<pre>{html.escape(output.text)}</pre>"
    if output.output_type == "error":
        return f"<pre>{html.escape(f'{output.ename}: {output.evalue}')}</pre>"
    form = next((form for form in FORMS if form in output.data), None)
    if form is None:
        return ""
    text = "".join(output.data[form])
    return f"<pre>{html.escape(text)}</pre>" if form == "text/plain" else text
