"""The two environments a template is rendered in: plain, as transformers does, and traced.

Both are sandboxes that hold only what ``rules`` lists. The plain one is otherwise
untouched but for a count of steps: it is what the traced rendering is compared with.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import jinja2
import jinja2.utils
from jinja2 import nodes
from jinja2.compiler import CodeGenerator
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pipeline_lib.tracing.asked_text import plain
from pipeline_lib.tracing.costs import (
    bounded_number,
    paid_filters,
    paid_tests,
    read_deep,
    read_for_member,
)
from pipeline_lib.tracing.rewriting import (
    ASSIGN,
    EMITTED,
    ENTER,
    JOINED,
    LEAVE,
    LOOKED,
    PAID,
    SEARCHED,
    STEP,
    Counting,
    Generation,
    Tracing,
    check_tree,
)
from pipeline_lib.tracing.rules import (
    FILTERS,
    TESTS,
    emitted,
    joined_text,
    traced_filters,
    traced_tests,
)
from pipeline_lib.tracing.segments import KEYWORD, literal_segment
from pipeline_lib.tracing.text_methods import METHODS
from pipeline_lib.tracing.trace import RenderTrace, TemplateRefused, running, traced
from pipeline_lib.tracing.traced_text import TracedText, is_said, literal_text
from pipeline_lib.tracing.traced_values import TracedLength, TracedMapping, json_text

LONGEST_TEMPLATE = 1 << 18
"""Characters. The longest public templates have some 20,000."""


FEW_VALUES = 16
"""So many values of one call are free."""


class CheckedNamespace(jinja2.utils.Namespace):
    """``namespace()`` of a template; names with an underscore at the front reach into Python."""

    def __init__(*given: Any, **named: Any) -> None:
        self, *rest = given
        fields = dict(*rest, **named)
        for name in fields:
            _check_field(name)
        jinja2.utils.Namespace.__init__(self, fields)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_field(name)
        super().__setitem__(plain(name), value)


def _check_field(name: str) -> None:
    if str.startswith(name, "_"):
        raise TemplateRefused("name", plain(name))


class NothingEarly(CodeGenerator):
    """Nothing is computed while a template is compiled: there it would not be counted."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


class PlainEnvironment(ImmutableSandboxedEnvironment):
    """The environment of transformers' ``apply_chat_template``, without what is not listed."""

    code_generator_class = NothingEarly
    intercepted_binops = frozenset(("+", "*", "%"))

    def __init__(self, today: datetime) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[Generation, loopcontrols],
            optimized=False,
        )
        for kind, known, listed in (
            ("filter", self.filters, FILTERS),
            ("test", self.tests, TESTS),
        ):
            known.update({name: _refusing(kind, name) for name in known if name not in listed})
        self.filters["tojson"] = json_text
        self.globals = {
            "range": self.globals["range"],  # the sandbox's, with a bound
            "dict": lambda *given, **named: dict(*given, **named),
            "namespace": CheckedNamespace,
            "raise_exception": _raise,
            "strftime_now": today.strftime,
        }
        self._offer({STEP: lambda size: running().step(size)})
        self._offer({LOOKED: lambda: running().read(0, 1)})

    def _offer(self, calls: dict[str, Callable[..., Any]]) -> None:
        """What rewritten templates call."""
        for name, function in calls.items():
            setattr(self, name, function)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Sums and products are paid for before they are made."""
        sides = (left, right)
        if operator == "*" and any(isinstance(side, str | list | tuple) for side in sides):
            running().spend(0, _size(left) * _size(right))
        elif operator == "+" and isinstance(left, list | tuple):
            running().spend(0, _size(left) + _size(right))
        elif operator == "+" and isinstance(left, str):
            running().spend(_size(left) + _size(right))
        elif operator == "%" and isinstance(left, str):
            raise TemplateRefused("operation", "formatting with %")
        return bounded_number(super().call_binop(context, operator, left, right))


def _size(value: Any) -> int:
    """Items of a list, characters of a string, or how often something is to be repeated."""
    if isinstance(value, str):
        return str.__len__(value)
    return len(value) if isinstance(value, list | tuple) else max(int(value), 0)


class TracedEnvironment(PlainEnvironment):
    """The same, with strings that remember their origin."""

    concat = staticmethod(joined_text)  # type: ignore[assignment]

    def __init__(self, today: datetime) -> None:
        super().__init__(today)
        self.filters.update(traced_filters)
        self.tests.update(traced_tests)
        self.filters.update(paid_filters({name: self.filters[name] for name in FILTERS}))
        self.tests.update(paid_tests({name: self.tests[name] for name in TESTS}))
        self.globals["strftime_now"] = lambda form: _date(today, form)
        self._offer(
            {
                EMITTED: emitted,
                JOINED: joined_text,
                ENTER: _enter,
                LEAVE: lambda loop: running().leave(loop),
                ASSIGN: _assign,
                PAID: read_deep,
                SEARCHED: read_for_member,
            }
        )

    def call(*given: Any, **named: Any) -> Any:
        """Calls pay for many values: a macro takes any number of them."""
        running().read(0, max(len(given) + len(named) - FEW_VALUES, 0))
        return ImmutableSandboxedEnvironment.call(*given, **named)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A method that would lose the origins is refused by name."""
        name = plain(attribute)
        _check_field(name)
        if isinstance(obj, str) and name not in METHODS and hasattr(str, name):
            raise TemplateRefused("method", name)
        if isinstance(obj, TracedText) and name == "format":
            return obj.format  # the sandbox would put its own in the place
        return super().getattr(obj, name)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Indexing by names and numbers; the characters of a name may be asked for, too."""
        if isinstance(argument, TracedLength):
            argument = int(argument)
        if isinstance(argument, str) and not isinstance(obj, dict):
            return self.getattr(obj, argument)
        if isinstance(argument, str) and argument not in obj:
            _check_field(argument)
        return super().getitem(obj, argument)


def _refusing(kind: str, name: str) -> Callable[..., Any]:
    """In the place of what is not allowed: templates that never use it here are not refused."""

    def refuse(*given: Any, **named: Any) -> Any:
        raise TemplateRefused(kind, name)

    return refuse


def _raise(message: str) -> None:
    raise TemplateRefused("template raises", str(plain(message))[:200])


def _date(today: datetime, form: str) -> TracedText:
    if is_said(form):
        raise TemplateRefused("operation", "a date in a form that the conversation gives")
    return TracedText((literal_segment(today.strftime(plain(form)), KEYWORD),))


def _message(value: Any) -> int | None:
    return value.message if isinstance(value, TracedMapping) else None


def _enter(loop: int, value: Any) -> str:
    running().enter(loop, _message(value))
    return ""


def _assign(loop: int, value: Any) -> str:
    message = _message(value)
    if message is not None:
        running().assign(loop, message)
    return ""


def compiled(environment: PlainEnvironment, source: str) -> jinja2.Template:
    """The template of a source; ``TemplateRefused`` if it uses what is not allowed."""
    if len(source) > LONGEST_TEMPLATE:
        raise TemplateRefused("template is too long", f"{len(source):,} characters")
    change = Tracing() if isinstance(environment, TracedEnvironment) else Counting()
    try:
        tree = environment.parse(source)
        check_tree(tree)
        tree = change.visit(tree)
        _keep_literals(change, environment)
        tree.set_environment(environment)
        code = environment.compile(tree)
    except (SyntaxError, jinja2.TemplateSyntaxError, RecursionError, MemoryError) as error:
        raise TemplateRefused("template can not be read", _first_line(error)) from error
    return jinja2.Template.from_code(environment, code, environment.globals)


def switches_read(source: str) -> set[str]:
    """The names that a template reads although it may not have set them."""
    tree = PlainEnvironment(datetime.min).parse(source)
    names = list(tree.find_all(nodes.Name))
    asked = {
        node.node.name
        for node in tree.find_all((nodes.Test, nodes.Filter))
        if isinstance(node, nodes.Test | nodes.Filter)
        and node.name in ("defined", "undefined", "default", "d")
        and isinstance(node.node, nodes.Name)
    }
    macros = {macro.name for macro in tree.find_all(nodes.Macro)}
    ours = {name.name for name in names if name.ctx != "load"} | macros
    return {name.name for name in names if name.ctx == "load"} - (ours - asked)


def _keep_literals(change: Counting, environment: PlainEnvironment) -> None:
    if isinstance(change, Tracing):
        with traced(RenderTrace()):
            for text, name in change.literals.items():
                setattr(environment, name, literal_text(text))


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def guarded(render: Callable[[], Iterable[Any]]) -> list[Any]:
    """What a rendering gives; errors of the template become refusals."""
    try:
        return list(render())
    except (jinja2.TemplateError, RecursionError) as error:
        raise TemplateRefused("template error", type(error).__name__) from error
    except (TypeError, KeyError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        raise TemplateRefused("template error", type(error).__name__) from error
