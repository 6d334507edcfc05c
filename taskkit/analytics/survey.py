"""All rules at once: what is wrong comes first."""

from __future__ import annotations

import html
from dataclasses import dataclass

from taskkit.analytics.diagnosis import SEVERITIES, Diagnosis
from taskkit.analytics.names import RULES
from taskkit.analytics.rendering import HTML_COLOURS
from taskkit.analytics.source import Source
from taskkit.analytics.wording import catalogue, sentences, word


@dataclass(frozen=True, slots=True)
class Survey:
    """The diagnoses of all rules, the worst first."""

    diagnoses: tuple[Diagnosis, ...]

    def rows(self, language: str = "en") -> list[tuple[str, str, str]]:
        """Of each: severity, rule and what it found, in words."""
        return [
            (
                word("severities", d.severity, language),
                str(catalogue(language)[d.rule]["title"]),
                sentences(d, "title", language),
            )
            for d in self.diagnoses
        ]

    def __str__(self) -> str:
        return "\n".join(": ".join(row) for row in self.rows())

    def _repr_html_(self) -> str:
        rows = (
            f'<tr data-rule="{d.rule}" data-verdict="{d.verdict}"><td style="color:{HTML_COLOURS[d.severity]};text-align:left">'
            f"<b>{html.escape(severity)}</b></td><td style='text-align:left'>{html.escape(rule)}</td>"
            f"<td style='text-align:left'>{html.escape(title)}</td></tr>"
            for d, (severity, rule, title) in zip(self.diagnoses, self.rows(), strict=True)
        )
        return f"<table>{''.join(rows)}</table>"


def survey(source: Source) -> Survey:
    """Every rule's diagnosis of the window."""
    from taskkit.analytics import diagnose

    found = [diagnose(rule, source) for rule in RULES]
    return Survey(tuple(sorted(found, key=lambda d: (-SEVERITIES.index(d.severity), RULES.index(d.rule)))))
