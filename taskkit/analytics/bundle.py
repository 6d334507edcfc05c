"""An incident window as one file: a zip of Parquet files and manifest.json; opens anywhere, without a database."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from taskkit import __version__
from taskkit.analytics.frames import FRAMES
from taskkit.analytics.source import Source, declared
from taskkit.analytics.window import Window
from taskkit.clock import iso, parse_instant
from taskkit.errors import AnalyticsMissing, InputError

FORMAT = 1
MANIFEST = "manifest.json"
FIXED_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of each entry, so that the same data make the same file."""


def create(
    source: Source,
    path: Path | str,
    *,
    schema: str | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write all frames of ``source`` to ``path`` at once or not at all; ``told`` hears the name of each."""
    need_parquet()
    target = Path(path)
    unfinished = target.with_name(target.name + ".part")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as file:
            rows = {}
            for name in FRAMES:
                told(name)
                frame = source.frame(name)
                rows[name] = len(frame)
                buffer = BytesIO()
                frame.to_parquet(buffer, engine="pyarrow", compression="zstd", index=False)
                file.writestr(zipfile.ZipInfo(f"{name}.parquet", FIXED_DATE), buffer.getvalue())
            manifest = json.dumps(_manifest(source, schema, rows), indent=2, ensure_ascii=False)
            file.writestr(zipfile.ZipInfo(MANIFEST, FIXED_DATE), manifest)
        unfinished.replace(target)
    except OSError as error:
        raise InputError("bundle", f"cannot write {target}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return target


def _manifest(source: Source, schema: str | None, rows: dict[str, int]) -> dict[str, Any]:
    facts = dict(source.frame("facts").itertuples(index=False, name=None))
    window = source.window
    return {
        "format": FORMAT,
        "taskkit": __version__,
        "schema": schema,
        "database": {"kind": facts.get("database_kind"), "version": facts.get("database_version")},
        "since": iso(window.since),
        "until": iso(window.until),
        "now": iso(source.now),
        "clock": "the database's",
        "zone": window.zone,
        "bucket_s": window.bucket_s,
        "rows": rows,
    }


class Bundle:
    """A bundle that was opened: the same frames as those of the live database it was made of."""

    def __init__(self, path: Path | str) -> None:
        need_parquet()
        self.path = Path(path)
        self.manifest = self._manifest()
        since, until, self.now = (
            parse_instant(str(self.manifest[name])) for name in ("since", "until", "now")
        )
        self.window = Window(since, until, str(self.manifest["zone"]))
        self._read: dict[str, pd.DataFrame] = {}

    now: datetime

    def frame(self, name: str) -> pd.DataFrame:
        """The frame of this name; one that an older taskkit did not know is empty."""
        if declared(name) not in self._read:
            kept = f"{name}.parquet" if name in self.manifest["rows"] else None
            self._read[name] = FRAMES[name].empty() if kept is None else self._frame(name, kept)
        return self._read[name]

    def _frame(self, name: str, kept: str) -> pd.DataFrame:
        with zipfile.ZipFile(self.path) as file:
            return FRAMES[name].restored(pd.read_parquet(BytesIO(file.read(kept)), engine="pyarrow"))

    def _manifest(self) -> dict[str, Any]:
        try:
            with zipfile.ZipFile(self.path) as file:
                found: dict[str, Any] = json.loads(file.read(MANIFEST))
        except OSError as error:
            raise InputError("bundle", f"cannot open {self.path}: {error.strerror or error}") from error
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise InputError(
                "bundle", f"{self.path} is no bundle: `taskkit bundle create` makes one"
            ) from error
        if found.get("format") != FORMAT:
            raise InputError(
                "bundle",
                f"{self.path} has format {found.get('format')}, this taskkit reads {FORMAT}; "
                f"open it with taskkit {found.get('taskkit')}",
            )
        return found


def need_parquet() -> None:
    """Raise AnalyticsMissing when Parquet cannot be read here."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise AnalyticsMissing("bundles need pyarrow: pip install 'taskkit[analytics]'") from error
