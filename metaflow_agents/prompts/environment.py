"""The sandbox: Jinja2 with lookups by item only, own filters and tests, no attributes, bounded calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.environment import Template
from jinja2.exceptions import TemplateNotFound, TemplateSyntaxError
from jinja2.lexer import Token, TokenStream
from jinja2.loaders import DictLoader
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from metaflow_agents.errors import ExpressionError, did_you_mean
from metaflow_agents.prompts.filters import FILTERS, INTERNAL
from metaflow_agents.prompts.hardening import harden
from metaflow_agents.prompts.limits import MAX_RANGE, MAX_SOURCE, MAX_TOKENS, spend, spend_text
from metaflow_agents.prompts.operations import as_text, calculate, elements, field, is_number, item, kind, made, sign
from metaflow_agents.prompts.predicates import TESTS
from metaflow_agents.prompts.values import Missing

_ESCAPE = re.compile(r"\\(.)", re.S)


def bounded_range(*bounds: Any) -> list[int]:
    """`range(stop)` or `range(start, stop, step)`, of at most 100,000 numbers."""
    if not 1 <= len(bounds) <= 3 or not all(is_number(bound) and isinstance(bound, int) for bound in bounds):
        raise ExpressionError("`range` takes one to three whole numbers")
    if len(bounds) == 3 and bounds[2] == 0:
        raise ExpressionError("the step of `range` is not 0")
    numbers = range(*bounds)
    # len() of a range beyond the machine word raises OverflowError, so compare by arithmetic
    if (numbers.stop - numbers.start) // numbers.step > MAX_RANGE:
        raise ExpressionError(f"`range` gives at most {MAX_RANGE:,} numbers")
    return list(numbers)


def new_namespace(**values: Any) -> Namespace:
    """`namespace(found=false)`: what a loop may set and what stays after it."""
    return Namespace(**values)


FUNCTIONS: dict[str, Callable[..., Any]] = {"range": bounded_range, "namespace": new_namespace}


@pass_context
def _printed(context: Context, value: Any) -> str:
    """What `{{ value }}` puts out. It takes the context only so that nothing is folded when a template is compiled."""
    text = as_text(value)
    spend_text(len(text))
    return text


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """One set of templates that may include each other."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])
    intercepted_unops = frozenset(["+", "-"])

    def __init__(self, templates: Mapping[str, str]) -> None:
        super().__init__(undefined=Missing, autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
                         optimized=False, finalize=_printed, loader=DictLoader(dict(templates)), auto_reload=False, cache_size=-1)
        self.filters = {**FILTERS, **INTERNAL}
        self.tests = dict(TESTS)
        self.globals = dict(FUNCTIONS)
        self.texts = templates

    def getattr(self, obj: Any, attribute: str) -> Any:
        """`obj.attribute`: item lookup, never a Python attribute."""
        return field(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """`obj[argument]`: item lookup, never a Python attribute."""
        return item(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic on plain values, bounded."""
        return calculate(operator, left, right)

    def call_unop(self, context: Context, operator: str, arg: Any) -> Any:
        """Signs of numbers."""
        return sign(operator, arg)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call what may be called: macros, `range`, `namespace`, functions of the scope, the loop's own."""
        spend(1)
        if isinstance(obj, LoopContext):
            return context.call(obj, elements(args[0] if args else []), **kwargs)
        if not (isinstance(obj, Macro | BlockReference) or (callable(obj) and kind(obj) == "a function")):
            raise ExpressionError(f"{kind(obj)} can't be called; fix: methods are filters here, like `x | items`")
        result = context.call(obj, *args, **kwargs)
        return made(result) if isinstance(result, list | dict) else result

    def get_template(self, name: Any, parent: str | None = None, globals: Any = None) -> Template:
        """An included, imported or extended template; its text counts as work each time."""
        if not isinstance(name, str) or name not in self.texts:
            raise ExpressionError(f"there is no template `{name}`; {did_you_mean(str(name), self.texts)}")
        spend_text(len(self.texts[name]))
        return super().get_template(name, parent, globals)

    def _tokenize(self, source: str, name: str | None, filename: str | None = None, state: str | None = None) -> Any:
        r"""As Jinja2 does, but an unknown escape in a text (`'\d'`) stays as written without a warning of Python."""
        tokens = self.lexer.wrap(self._tokens(source, name, filename, state), name, filename)
        return TokenStream(_bounded(tokens), name, filename)

    def _tokens(self, source: str, name: str | None, filename: str | None, state: str | None) -> Iterator[Any]:
        for line, token, text in self.lexer.tokeniter(source, name, filename, state):
            yield line, token, self.escaped(text) if token == "string" else text

    @staticmethod
    def escaped(literal: str) -> str:
        """A written text whose unknown escapes are doubled, so that they stand for themselves."""
        return _ESCAPE.sub(lambda m: m[0] if m[1] in "\\'\"abfnrtvxuUN01234567\n" else "\\" + m[0], literal)

    def _generate(self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False) -> str:
        harden(source)
        return super()._generate(source, name, filename, defer_init)


@lru_cache(maxsize=64)
def sandbox(templates: frozenset[tuple[str, str]] = frozenset()) -> TemplateSandbox:
    """The sandbox of a set of templates, made once."""
    return TemplateSandbox(dict(templates))


def _bounded(tokens: Iterable[Token]) -> Iterator[Token]:
    """To compile costs so much for each token, and nothing else of the process goes on meanwhile."""
    for number, token in enumerate(tokens):
        if number >= MAX_TOKENS:
            raise TemplateSyntaxError(f"it has more than {MAX_TOKENS:,} names, signs and texts; prepare data in a step, or put "
                                      "parts into templates that it includes", token.lineno)
        yield token


def check_size(text: str, most: int = MAX_SOURCE) -> None:
    """Refuse a source that is too large to be read. Raises TemplateSyntaxError."""
    if len(text) > most:
        raise TemplateSyntaxError(f"the text has {len(text):,} characters; at most {most:,} are read", 1)


__all__ = ["FUNCTIONS", "TemplateNotFound", "TemplateSandbox", "check_size", "sandbox"]
