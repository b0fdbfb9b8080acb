"""Templates walked statement by statement: what each name means where it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import nodes

from metaflow_agents.errors import did_you_mean
from metaflow_agents.prompts.filter_shapes import ANY, SCALARS, TEXT, item_of, value_of
from metaflow_agents.prompts.inference import LOOP, Inference
from metaflow_agents.prompts.positions import read_template, syntax_fault
from metaflow_agents.prompts.running import UNREADABLE
from metaflow_agents.prompts.scopes import Bound, Function, MacroModule, TemplateScopes
from metaflow_agents.schema.shape import Shape

RESERVED = ("loop", "range", "namespace", "history", "self", "super", "caller", "varargs", "kwargs")


class Walker:
    """Walks a template's statements; expressions go to `inference`."""

    def __init__(
        self, text: str, scopes: TemplateScopes, templates: Mapping[str, str], parent: Walker | None = None, name: str = "",
    ) -> None:
        self.scopes, self.templates = scopes, templates
        self.open: tuple[str, ...] = (*parent.open, name) if parent else ()
        # what was walked already, by template and the names that it saw: includes of includes would multiply
        self.walked: dict[tuple[object, ...], Walker | None] = parent.walked if parent else {}
        self.inference = Inference(text, scopes)
        self.walking: dict[type[nodes.Node], Callable[[Any], None]] = {
            nodes.Output: self._output, nodes.For: self._for, nodes.If: self._if, nodes.Macro: self._macro,
            nodes.CallBlock: self._call_block, nodes.FilterBlock: self._filter_block, nodes.With: self._with,
            nodes.Block: self._block, nodes.Include: self._include, nodes.Extends: self._include, nodes.Import: self._import,
            nodes.FromImport: self._from_import, nodes.Assign: self._assign, nodes.AssignBlock: self._assign_block}

    def walk(self, body: Sequence[nodes.Node]) -> None:
        """Each statement in its order."""
        for node in body:
            walk = self.walking.get(type(node))
            if walk is not None:
                walk(node)
            else:
                name = "autoescape" if isinstance(node, nodes.Scope | nodes.EvalContextModifier) else type(node).__name__.lower()
                mend = "escape where it is needed: `x | escape`" if name == "autoescape" else "leave it out"
                self.inference.report("refused-feature", f"`{name}` is not known here", mend, node)

    def _output(self, node: nodes.Output) -> None:
        for part in node.nodes:
            if not isinstance(part, nodes.TemplateData):
                bound = self.inference.bound(part)
                if isinstance(bound, Function | MacroModule):
                    self.inference.report("call-of-value", "a function can't be printed", "call it, or leave it out", part)

    # --- names

    def _bind(self, target: nodes.Node, shape: Bound) -> None:
        if isinstance(target, nodes.Name):
            if target.name in RESERVED:
                self.inference.report("reserved-name", f"`{target.name}` is reserved and can't be set",
                                      "choose another name", target)
            self.scopes.bind(target.name, shape)
        elif isinstance(target, nodes.Tuple):
            inner = item_of(shape) if isinstance(shape, Shape) and shape.kind == "list" else ANY
            for part in target.items:
                self._bind(part, inner)
        elif isinstance(target, nodes.NSRef) and self.scopes.local(target.name) is None:
            self.inference.report("unknown-name", f"there is no namespace `{target.name}` here",
                                  f"write {{% set {target.name} = namespace() %}} before", target)

    def _assign(self, node: nodes.Assign) -> None:
        self._bind(node.target, self.inference.bound(node.node))

    def _assign_block(self, node: nodes.AssignBlock) -> None:
        with self.scopes.inner():
            self.walk(node.body)
        if node.filter is not None:
            self.inference.shape(node.filter)
        self._bind(node.target, TEXT)

    def _with(self, node: nodes.With) -> None:
        found = [self.inference.bound(value) for value in node.values]
        with self.scopes.inner():
            for target, shape in zip(node.targets, found, strict=True):
                self._bind(target, shape)
            self.walk(node.body)

    # --- branches and loops

    def _if(self, node: nodes.If) -> None:
        branches: list[dict[str, Bound]] = []
        for test, body in [(node.test, node.body), *((other.test, other.body) for other in node.elif_)]:
            self.inference.shape(test)
            branches.append(self._branch(body))
        branches.append(self._branch(node.else_))
        self.scopes.merge(branches, complete=True)

    def _branch(self, body: Sequence[nodes.Node]) -> dict[str, Bound]:
        names: dict[str, Bound] = {}
        self.scopes.locals.append(names)
        self.walk(body)
        self.scopes.locals.pop()
        return names

    def _for(self, node: nodes.For) -> None:
        shape = self.inference.shape(node.iter)
        if shape.kinds <= SCALARS:
            mend = "`| lines` or `| list` make a list of a text" if "string" in shape.kinds else "loop over a list"
            self.inference.report("not-a-list", f"the loop is over {shape.describe()}, which is no list", mend, node.iter)
        with self.scopes.inner():
            mapping = node.iter.node if isinstance(node.iter, nodes.Filter) and node.iter.name in ("items", "dictsort") else None
            if mapping is not None and isinstance(node.target, nodes.Tuple) and len(node.target.items) == 2:
                silent = Inference("", self.scopes)                  # walked already: this only asks for the shape
                self._bind(node.target.items[0], TEXT)
                self._bind(node.target.items[1], value_of(silent.shape(mapping)))
            else:
                self._bind(node.target, item_of(shape))
            self.scopes.bind("loop", LOOP)
            if node.test is not None:
                self.inference.shape(node.test)
            self.walk(node.body)
        with self.scopes.inner():
            self.walk(node.else_)

    # --- macros and blocks

    def _macro(self, node: nodes.Macro) -> None:
        names = tuple(argument.name for argument in node.args)
        for default in node.defaults:
            self.inference.shape(default)
        self._bind(nodes.Name(node.name, "store", lineno=node.lineno), Function(TEXT, names, _takes_more(node)))
        self._body(node)

    def _body(self, node: nodes.Macro | nodes.CallBlock) -> None:
        with self.scopes.inner():
            for argument in node.args:
                self._bind(argument, ANY)
            self.scopes.locals[-1].update(caller=Function(TEXT), varargs=ANY, kwargs=ANY)
            self.walk(node.body)

    def _call_block(self, node: nodes.CallBlock) -> None:
        self.inference.shape(node.call)
        self._body(node)

    def _filter_block(self, node: nodes.FilterBlock) -> None:
        with self.scopes.inner():
            self.walk(node.body)
        self.inference.shape(node.filter)

    def _block(self, node: nodes.Block) -> None:
        if node.scoped:
            with self.scopes.inner(super=Function(TEXT)):
                self.walk(node.body)
            return
        with self.scopes.top_level():
            self.scopes.bind("super", Function(TEXT))
            self.walk(node.body)

    # --- other templates

    def _constant(self, node: nodes.Include | nodes.Extends | nodes.Import | nodes.FromImport) -> str | None:
        name = node.template.value if isinstance(node.template, nodes.Const) else None
        if not isinstance(name, str):
            self.inference.report("refused-feature", "the name of a template must stand there as a text",
                                  "write the name in quotes; choose with `{% if %}`", node.template)
            return None
        if name not in self.templates:
            mend = did_you_mean(name, self.templates)
            self.inference.report("unknown-include", f"there is no template `{name}`", mend, node.template)
            return None
        if name in self.open:
            self.inference.report("unknown-include", f"`{name}` includes itself", "break the circle", node.template)
            return None
        return name

    def _enter(self, name: str, node: nodes.Node, with_context: bool) -> Walker | None:
        """Walk another template in the scope that it will see; its findings are told at the line that names it."""
        given: dict[str, Bound] = dict(self.scopes.given) if with_context else {}
        scopes = TemplateScopes(given)
        if with_context:
            scopes.locals = [{key: bound for names in self.scopes.locals for key, bound in names.items()}]
        seen = (name, with_context, frozenset(scopes.locals[0]))
        if seen in self.walked:
            return self.walked[seen]
        other = Walker(self.templates[name], scopes, self.templates, self, name)
        self.walked[seen] = None
        try:
            other.walk(read_template(self.templates[name]).body)
        except UNREADABLE as error:
            message, mend, line, column = syntax_fault(error, self.templates[name])
            self.inference.report("template-syntax", f"in `{name}`, {line}:{column}: {message}", mend, node)
            return None
        for finding in other.inference.findings:
            where = f"in `{name}`, {finding.line}:{finding.column}"
            self.inference.report(finding.code, f"{where}: {finding.message}", finding.mend, node)
        self.inference.names |= other.inference.names
        self.inference.paths |= other.inference.paths
        self.inference.histories |= other.inference.histories
        self.walked[seen] = other
        return other

    def _include(self, node: nodes.Include | nodes.Extends) -> None:
        name = self._constant(node)
        if name is None:
            return
        with_context = node.with_context if isinstance(node, nodes.Include) else True
        other = self._enter(name, node, with_context)
        if other is not None and isinstance(node, nodes.Extends):
            self.scopes.locals[0].update(other.scopes.locals[0])

    def _module(self, node: nodes.Import | nodes.FromImport) -> MacroModule | None:
        name = self._constant(node)
        other = self._enter(name, node, node.with_context) if name is not None else None
        return MacroModule(dict(other.scopes.locals[0])) if other is not None else None

    def _import(self, node: nodes.Import) -> None:
        module = self._module(node)
        self._bind(nodes.Name(node.target, "store", lineno=node.lineno), module if module is not None else ANY)

    def _from_import(self, node: nodes.FromImport) -> None:
        module = self._module(node)
        for written in node.names:
            name, alias = written if isinstance(written, tuple) else (written, written)
            bound: Bound = ANY
            if module is not None and name in module.members:
                bound = module.members[name]
            elif module is not None:
                mend = did_you_mean(name, module.members)
                self.inference.report("unknown-name", f"the template exports no `{name}`", mend, node, name)
            self._bind(nodes.Name(alias, "store", lineno=node.lineno), bound if module is not None else Function(ANY))


def _takes_more(node: nodes.Macro) -> bool:
    used = {name.name for name in node.find_all(nodes.Name)}
    return bool(used & {"varargs", "kwargs"})

