"""Batches of a dataset in a seeded, resumable order."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from pipeline_lib.training.batch_order import BatchOrder
from pipeline_lib.training.token_dataset import TokenDataset


class BatchLoader(DataLoader[Any]):
    """A ``DataLoader`` without workers that hands on each batch as it was gathered.

    The bookkeeping of the general one would take a third of the time of a batch.
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # its own class is not needed
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
    """Batches of tensors, each one gather, made in this process; one pass is one epoch.

    Its ``batch_sampler`` is a ``BatchOrder``: ``state_dict()`` is one position and the digest of
    the dataset, ``load_state_dict()`` goes on there, at any ``world_size``.
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
