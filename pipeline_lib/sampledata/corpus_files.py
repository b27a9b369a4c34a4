"""The corpus of the offline sample: a sealed folder of plain-text Parquet files."""

import io
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline_lib.downloads.saved import MANIFEST
from pipeline_lib.errors import DamagedFile
from pipeline_lib.sampledata.documents import texts
from pipeline_lib.sampledata.prose import SAMPLE_VERSION, SEED, Voice, stream_of
from pipeline_lib.storage import atomic, sealed_folder, typed_json
from pipeline_lib.storage.sealed_folder import SealedFile

CORPUS = "corpus"
CORPUS_FILES, CORPUS_ROWS = 6, 600
_MANIFEST_VERSION = 2
_GROUP_ROWS = 150


@dataclass(frozen=True)
class _Versions:
    """The versions that a manifest states; the first form of it had no ``manifest_version``."""

    sample: int
    manifest_version: int = 1


@dataclass(frozen=True)
class CorpusManifest:
    """The record of the corpus: the version of the sample, and its files."""

    manifest_version: int
    sample: int
    files: list[SealedFile]


_CURRENT = _Versions(SAMPLE_VERSION, _MANIFEST_VERSION)


def make_corpus(folder: Path) -> list[Path]:
    """A folder of plain-text Parquet files for shard preparation, made once; the files.

    Some documents are null, blank or repeated, and there are columns other than ``text``. A corpus
    of another version of the sample is made anew. ``DamagedFile`` if the folder holds anything
    else.
    """
    files = [f"part-{number:02d}.parquet" for number in range(CORPUS_FILES)]
    if not is_there(folder):
        with sealed_folder.building(folder) as staging:
            payload, voice = staging / "payload", Voice(SEED, stream_of(CORPUS))
            for name in files:
                _write_part(payload / name, voice)
            sealed = sealed_folder.list_files(payload)
            manifest = CorpusManifest(_MANIFEST_VERSION, SAMPLE_VERSION, sealed)
            is_old = folder.exists()
            sealed_folder.publish(payload, folder, MANIFEST, manifest, replace=is_old)
    return [folder / name for name in files]


def is_there(folder: Path) -> bool:
    """Whether the folder holds the corpus of this version of the sample, checked in full.

    False for a corpus of another version. ``DamagedFile`` if the folder holds anything else.
    """
    if not folder.exists():
        return False
    path, remedy = folder / MANIFEST, f"remove the folder {folder} and make the sample again"
    if not path.is_file():
        raise DamagedFile(f"{folder} has no {MANIFEST}, so it is not the sample's corpus; {remedy}")
    try:
        if typed_json.load_typed(path, _Versions) != _CURRENT:
            return False
        manifest = typed_json.load_typed(path, CorpusManifest)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; {remedy}") from error
    sealed_folder.check_files(folder, manifest.files, remedy, full=True)
    return True


def _write_part(path: Path, voice: Voice) -> None:
    rows = list(islice(texts(voice), CORPUS_ROWS))
    table = pa.table(
        {
            "id": pa.array([f"{path.stem}-{number}" for number in range(len(rows))]),
            "text": pa.array(rows, pa.string()),
            "score": pa.array([voice.between(0, 50) / 10 for _ in rows]),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=_GROUP_ROWS)
    atomic.write_new(path, [sink.getvalue()])
