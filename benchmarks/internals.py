"""Every name from the inside of ``pipeline_lib`` that a benchmark needs.

``save`` saves rows as a download does (sft, flat); ``TEMPLATE`` is the chat template that the
other way gets (sft); calls of ``checkpoint`` and ``ShardWriter`` are timed (commits, resume);
``train_bpe`` is the trainer alone, ``train_reference`` that of ``tokenizers``, which is given
``CONTROL_TOKENS`` and texts after ``cut_runs`` (bpe).
"""

from pipeline_lib.corpus import checkpoint as checkpoint
from pipeline_lib.corpus.shard_writer import ShardWriter as ShardWriter
from pipeline_lib.downloads.saved import save as save
from pipeline_lib.templates.chatml import TEMPLATE as TEMPLATE
from pipeline_lib.tokenization.bpe_training import train_bpe as train_bpe
from pipeline_lib.tokenization.bpe_training import train_reference as train_reference
from pipeline_lib.tokenization.control_tokens import CONTROL_TOKENS as CONTROL_TOKENS
from pipeline_lib.tokenization.training_texts import cut_runs as cut_runs
