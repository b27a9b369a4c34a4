"""The methods of ``str`` that a template may call: those that keep or tell every origin."""

import operator

QUESTIONS = ("startswith", "endswith", "find", "rfind", "count", "isdigit", "isspace", "isalpha")
"""Methods that tell something of a string: the answer is recorded."""

CHANGES = ("upper", "lower", "capitalize", "title", "swapcase")
"""Methods that write each character anew."""

PARTS = ("strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition")
"""Methods that give parts of a string."""

ORDERS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}

METHODS = frozenset(
    (*QUESTIONS, *CHANGES, *PARTS, "replace", "join", "removeprefix", "removesuffix", "format")
)
"""The methods of ``str`` that a template may call."""
