"""Where a document came from: the file and the row of the source, found by reading it again.

A run forgets the place of a row when it enters the shuffle. So a lane is read once more, with rows
that know their place, in the order of the run. This is only done for documents to be shown.
"""

from collections.abc import Collection, Generator
from contextlib import closing

from pipeline_lib.corpus.batches import NOTHING_VISITED
from pipeline_lib.corpus.pinned import Pinned
from pipeline_lib.corpus.reader import AT_THE_START, LaneReader, files_of_lane, reader_metadata
from pipeline_lib.corpus.recipe import lane_bound
from pipeline_lib.records import Cursor
from pipeline_lib.selection import Split
from pipeline_lib.shuffling import Row, RowBlock

NumberedDocument = tuple[Split, int]
"""A document of a lane: its split, and its number there."""


class PlacedText(bytes):
    """A text of the source (UTF-8) that knows its ``file`` and ``row``."""

    file: str
    row: int


class PlacedReader(LaneReader):
    """A lane's reader whose texts know their places."""

    def blocks(self, start: Cursor) -> Generator[RowBlock, None, None]:
        """The blocks of the source, every text with its place."""
        with closing(super().blocks(start)) as found:
            for block in found:
                rows = enumerate(block.rows, block.first)
                placed = [_placed(text, self.files[block.file], row) for row, text in rows]
                yield block._replace(rows=placed)


def _placed(text: Row, file: str, row: int) -> Row:
    if text is None:
        return None
    placed = PlacedText(text)
    placed.file, placed.row = file, row
    return placed


def origins(pinned: Pinned, lane: int, rows: Collection[int]) -> dict[int, PlacedText]:
    """The texts of some visited rows of a lane; a row that the source does not give is left out."""
    recipe = pinned.recipe
    files = files_of_lane(reader_metadata(pinned.source, recipe), lane, recipe.lanes)
    bound = lane_bound(recipe.row_bound, lane, recipe.lanes)
    reader = PlacedReader(pinned.source, recipe, lane, files, bound)
    found: dict[int, PlacedText] = {}
    with closing(reader.batches(AT_THE_START, NOTHING_VISITED, lambda: False)) as batches:
        for batch in batches if rows else ():
            for index, text in enumerate(batch.texts):
                if batch.row_of(index) in rows and isinstance(text, PlacedText):
                    found[batch.row_of(index)] = text
            if len(found) == len(rows):
                break
    return found
