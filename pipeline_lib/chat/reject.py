"""The rejection of a row, which every reader and check may raise. Pure."""


class Reject(Exception):
    """A row that is not used, and the ``reason``, which is counted.

    A normalizer may return it or raise it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
