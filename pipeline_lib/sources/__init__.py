"""Files of rows: Parquet and JSON Lines, in a folder or on the Hub."""
