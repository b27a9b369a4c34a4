"""``datasets.map(num_proc=2)`` with ``apply_chat_template`` and assistant masks, as TRL prepares.

Prints JSON with the seconds from the stored data set to the mapped one on disk.
"""

import json
import time
from typing import Any

import datasets
from sft_arguments import given
from transformers import PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '<|im_sep|>' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}"
    "{% endfor %}"
)


def main() -> None:
    options = given()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(options.tokenizer / "tokenizer.json"), chat_template=TEMPLATE
    )

    def rendered(row: dict[str, Any]) -> dict[str, list[int]]:
        both = tokenizer.apply_chat_template(
            row["messages"], return_dict=True, return_assistant_tokens_mask=True
        )
        return {name: both[name] for name in ("input_ids", "assistant_masks")}

    options.output.mkdir(parents=True)
    started = time.perf_counter()
    chats = datasets.load_from_disk(str(options.chats / "dataset"))
    mapped = chats.map(
        rendered,
        num_proc=2,
        remove_columns=chats.column_names,
        load_from_cache_file=False,
        cache_file_name=str(options.output / "mapped.arrow"),
    )
    seconds = time.perf_counter() - started
    mapped.to_parquet(str(options.output / "rows.parquet"))  # to be compared, not timed
    print(json.dumps({"seconds": seconds, "rows": len(mapped)}))


if __name__ == "__main__":
    main()
