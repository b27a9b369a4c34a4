"""Batches of a dataset in a seeded, resumable order."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from pipeline_lib.training.batch_order import BatchOrder
from pipeline_lib.training.token_dataset import TokenDataset


class BatchLoader(DataLoader[Any]):
    """A ``DataLoader`` without worker processes that passes on each batch as it was gathered.

    The bookkeeping of the general loader would take a third of the time of a batch.
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # a plain iterator is enough
        dataset: Any = self.dataset
        for rows in self.batch_sampler or ():
            yield self.collate_fn(dataset.__getitems__(rows))


def loader(
    dataset: TokenDataset,
    batch_size: int,
    *,
    shuffle: bool = True,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
) -> BatchLoader:
    """Batches of a dataset in a seeded, resumable order; one pass is one epoch.

    A batch has the form of a sample of the dataset; its tensors have the number of samples as first
    dimension. It is gathered in this process. The arguments are those of ``BatchOrder``, which is
    the ``batch_sampler`` of the loader: its ``state_dict()`` gives the next position, and its
    ``load_state_dict()`` continues there, with any ``world_size``. ``ValueError`` for a wrong
    argument or a dataset without samples.
    """
    if not len(dataset):
        raise ValueError(f"the dataset has no sample{dataset.EMPTY}")
    order = BatchOrder(
        len(dataset),
        batch_size,
        dataset=dataset.fingerprint,
        seed=seed,
        shuffle=shuffle,
        rank=rank,
        world_size=world_size,
    )
    return BatchLoader(dataset, batch_sampler=order, collate_fn=_as_tensors)


def _as_tensors(batch: Any) -> Any:
    return batch.tensors
