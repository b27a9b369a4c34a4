"""Errors are one tree, so that a caller can catch what is wrong with the world in one place."""

import inspect
import pickle

from pipeline_lib import errors
from pipeline_lib.errors import Interrupted, PipelineError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_every_error_is_a_state_of_the_world_and_says_which() -> None:
    assert all(issubclass(kind, PipelineError) and kind.__doc__ for kind in CLASSES)
    assert not any(issubclass(kind, ValueError | OSError) for kind in CLASSES)


def test_the_tree_in_the_documentation_names_every_error() -> None:
    for kind in CLASSES:
        assert kind.__name__ in (errors.__doc__ or "")


def test_an_interruption_carries_its_signal() -> None:
    stopped = Interrupted("stopped", 15)
    assert (str(stopped), stopped.signum) == ("stopped", 15)


def test_errors_survive_the_way_from_another_process() -> None:
    for kind in CLASSES:
        error = kind("text", 15) if kind is Interrupted else kind("text")
        copied = pickle.loads(pickle.dumps(error))
        assert str(copied) == "text" and vars(copied) == vars(error)
