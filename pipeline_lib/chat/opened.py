"""The rows of all sources of a run, opened, and the reasons of those that are missing."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline_lib.chat import missing
from pipeline_lib.chat.rows import SourceRows, open_rows
from pipeline_lib.downloads.outcomes import Outcome
from pipeline_lib.downloads.registry import DatasetSpec
from pipeline_lib.errors import PipelineError
from pipeline_lib.table import Table


@dataclass(frozen=True)
class OpenedSources(Mapping[str, SourceRows]):
    """Name -> rows of every source that is there; ``missing``: name -> reason of the others.

    ``chosen``: the entries of the registry for both.
    """

    rows: Mapping[str, SourceRows]
    chosen: Mapping[str, DatasetSpec]
    missing: Mapping[str, str]

    def __getitem__(self, name: str) -> SourceRows:
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def table(self) -> Table:
        """A table with a row for each source; columns: ``source``, ``rows``, ``columns``."""
        found = (
            (name, len(source.data), ", ".join(self.chosen[name].columns))
            for name, source in self.rows.items()
        )
        table = Table(("source", "rows", "columns"), tuple(found))
        return missing.with_notes(table, missing.as_notes(self.missing))


def open_sources(
    chosen: Mapping[str, DatasetSpec],
    data_dir: Path,
    outcomes: Collection[Outcome] = (),
    *,
    allow_missing: Collection[str] = (),
) -> OpenedSources:
    """Open the saved rows of every chosen source, memory-mapped.

    ``outcomes``: of fetching or making them; one that is not good makes its source missing, as a
    folder that is not there or is damaged does. ``MissingSources`` names everything that is missing
    and is not in ``allow_missing``, with the reasons.
    """
    absent = {o.name: f"{o.status}: {o.detail}" for o in outcomes if not o.status.good}
    rows: dict[str, SourceRows] = {}
    for name, spec in chosen.items():
        if name not in absent:
            try:
                rows[name] = open_rows(data_dir / name, spec)
            except (PipelineError, OSError) as error:
                absent[name] = " ".join(str(error).split())
    accepted = missing.accept(absent, chosen, allow_missing)
    return OpenedSources(rows, chosen, accepted)
