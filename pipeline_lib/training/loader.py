"""Batches of a dataset in a seeded, resumable order, gathered here or by worker processes."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader

from pipeline_lib.training.batch_order import BatchOrder, Pass
from pipeline_lib.training.order_state import OrderState
from pipeline_lib.training.token_dataset import TokenDataset


class BatchLoader(DataLoader[Any]):
    """A ``DataLoader`` that counts the batches that it handed out, and passes each on as gathered.

    ``order``: the ``BatchOrder``, which is its ``batch_sampler``. Without worker processes it does
    not use the general loader, whose bookkeeping would take a third of the time of a batch. It
    leaves torch's random numbers alone.
    """

    order: BatchOrder

    def __init__(self, dataset: TokenDataset, order: BatchOrder, **options: Any) -> None:
        super().__init__(dataset, batch_sampler=order, collate_fn=_as_tensors, **options)
        self.order = order

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]  # a plain iterator is enough
        one_pass = Pass(self.order)
        for batch in self._by_workers(one_pass) if self.num_workers else self._here(one_pass):
            one_pass.handed_out()
            yield batch
        one_pass.end()

    def _here(self, one_pass: Pass) -> Iterator[Any]:
        dataset: Any = self.dataset
        for rows in one_pass.batches():
            yield self.collate_fn(dataset.__getitems__(rows))

    def _by_workers(self, one_pass: Pass) -> Iterator[Any]:
        return iter(
            DataLoader(
                self.dataset,
                batch_sampler=one_pass.batches(),  # type: ignore[arg-type]  # read once is enough
                collate_fn=self.collate_fn,
                num_workers=self.num_workers,
                multiprocessing_context=self.multiprocessing_context,
                generator=torch.Generator(),
            )
        )

    def state_dict(self) -> OrderState:
        """The position behind the last batch that was handed out (``OrderState``)."""
        return self.order.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at a saved position: with any number of workers, batch size and world size.

        ``OrderChanged`` if it belongs to another dataset, seed or shuffle; ``OrderError`` if it is
        not a state.
        """
        self.order.load_state_dict(state)


def loader(
    dataset: TokenDataset,
    batch_size: int,
    *,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    num_workers: int = 0,
    multiprocessing_context: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    world: Literal["group"] | None = None,
) -> BatchLoader:
    """Batches of a dataset in a seeded, resumable order; one pass is one epoch.

    A batch has the form of a sample of the dataset; its tensors have the number of samples as first
    dimension. It is gathered in this process, or by ``num_workers`` others, which are started as
    ``multiprocessing_context`` says ("fork", "spawn", "forkserver"). ``state_dict()`` gives the
    position behind the last batch that was handed out, and ``load_state_dict()`` continues there.

    Each process gets its own samples: with ``world="group"`` by its place in the process group of
    ``torch.distributed``, or by ``rank`` and ``world_size``. ``WorldUnknown`` if there are several
    processes and none of them is given. The other arguments are those of ``BatchOrder``.
    ``ValueError`` for a wrong argument or a dataset without samples.
    """
    if not len(dataset):
        raise ValueError(f"the dataset has no sample{dataset.EMPTY}")
    order = BatchOrder(
        len(dataset),
        batch_size,
        dataset=dataset.fingerprint,
        seed=seed,
        shuffle=shuffle,
        drop_last=drop_last,
        rank=rank,
        world_size=world_size,
        world=world,
    )
    return BatchLoader(
        dataset, order, num_workers=num_workers, multiprocessing_context=multiprocessing_context
    )


def _as_tensors(batch: Any) -> Any:
    return batch.tensors
