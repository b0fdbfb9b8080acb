"""Compiled templates run with bounds, and every failure told as ExpressionError with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from jinja2 import nodes
from jinja2.environment import Template
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.parser import Parser

from metaflow_agents.errors import ExpressionError, MetaflowError, did_you_mean
from metaflow_agents.prompts.environment import FUNCTIONS, TemplateSandbox, check_size, sandbox
from metaflow_agents.prompts.limits import MAX_EXPRESSION, metered
from metaflow_agents.prompts.values import UnknownName

RESULT = "the_result"
Templates = frozenset[tuple[str, str]]
_LONGEST = 1_000                    # of a line that is shown: what a person writes is shown whole
UNREADABLE = (TemplateSyntaxError, RecursionError, SyntaxError, ValueError, MemoryError)
"""What reading a hostile text may raise: Jinja2's own, nesting beyond Python, numbers of thousands of digits."""


def plainly(error: BaseException) -> str:
    """A failure of reading in a sentence, without Python's or Jinja2's own words where they say nothing to a person."""
    if isinstance(error, TemplateSyntaxError):
        return error.message or "it can't be read"
    if isinstance(error, RecursionError | SyntaxError | MemoryError):
        return "it is nested too deeply"
    return "a number in it has too many digits" if "digits" in str(error) else str(error)


def parse_expression(text: str) -> nodes.Expr:
    """The tree of an expression, not yet hardened. Raises one of UNREADABLE."""
    check_size(text, MAX_EXPRESSION)
    parser = Parser(sandbox(), text, state="variable")
    tree = parser.parse_expression()
    if not parser.stream.eos:
        raise TemplateSyntaxError(f"the expression ends before `{parser.stream.current.value}`", parser.stream.current.lineno)
    return tree


def parse_template(text: str) -> nodes.Template:
    """The tree of a template, not yet hardened. Raises one of UNREADABLE."""
    check_size(text)
    return sandbox()._parse(text, None, None)


@lru_cache(maxsize=4096)
def compiled_expression(text: str) -> Template:
    """An expression made ready to run. Raises one of UNREADABLE."""
    tree = parse_expression(text)
    body = [nodes.Assign(nodes.Name(RESULT, "store", lineno=1), tree, lineno=1)]
    whole = nodes.Template(body, lineno=1)
    whole.set_environment(sandbox())
    return _made(sandbox(), whole)


@lru_cache(maxsize=512)
def compiled_template(text: str, templates: Templates = frozenset()) -> Template:
    """A template made ready to run beside those that it may include. Raises one of UNREADABLE."""
    check_size(text)
    environment = sandbox(templates)
    return _made(environment, environment._parse(text, None, None))


def _made(environment: TemplateSandbox, tree: nodes.Template) -> Template:
    code = environment.compile(tree)
    return Template.from_code(environment, code, dict(environment.globals), None)


def _line(error: BaseException) -> int:
    """The line of the outermost template that was being rendered."""
    trace = error.__traceback__
    while trace is not None:
        template = trace.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template):
            return template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return 1


def _told(text: str, line: int, name: str) -> str:
    lines = text.splitlines() or [""]
    source = lines[min(line, len(lines)) - 1].strip()
    where = f"line {line} of {name or 'the template'}: " if len(lines) > 1 or name else ""
    return f"{where}`{source[:_LONGEST]}{'…' if len(source) > _LONGEST else ''}`"


@contextmanager
def told(text: str, scope: Mapping[str, Any], name: str = "") -> Iterator[None]:
    """Bounds and messages around one evaluation or rendering of `text`."""
    try:
        with metered():
            yield
    except UnknownName as error:
        known = [*scope, *FUNCTIONS]
        raise ExpressionError(f"{_told(text, _line(error), name)}: there is no `{error.name}` here; "
                              f"{did_you_mean(error.name, known)}") from None
    except ExpressionError as error:
        raise ExpressionError(f"{_told(text, _line(error), name)}: {error}") from None
    except MetaflowError:
        raise
    except (TemplateSyntaxError, SyntaxError) as error:
        raise ExpressionError(f"{_told(text, getattr(error, 'lineno', 1) or 1, name)}: {plainly(error)}") from None
    except (RecursionError, MemoryError) as error:
        message = "it is nested too deeply, or calls itself without end"
        raise ExpressionError(f"{_told(text, _line(error), name)}: {message}") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise ExpressionError(f"{_told(text, _line(error), name)}: {plainly(error)}") from error
