"""datatrove's own pipeline: ``ParquetReader`` to ``DocumentTokenizer``, two workers, its defaults.

It shuffles the documents of each worker; merging the workers' files is left out.
"""

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.tokens import DocumentTokenizer
from given import given


def main() -> None:
    options = given()
    LocalPipelineExecutor(
        pipeline=[
            ParquetReader(str(options.corpus), text_key=options.column, read_metadata=True),
            DocumentTokenizer(
                output_folder=str(options.output / "tokens"),
                tokenizer_name_or_path=str(options.tokenizer / "tokenizer.json"),
                eos_token="<|endoftext|>",
                seed=1337,
            ),
        ],
        tasks=2,
        workers=2,
        logging_dir=str(options.output / "logs"),
    ).run()


if __name__ == "__main__":
    main()
