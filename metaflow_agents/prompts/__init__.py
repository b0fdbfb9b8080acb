"""Strict, sandboxed Jinja2: expressions and templates, rendered purely and analysed without running them.

The semantics, in short (`docs` of the language say more):

- values are plain JSON data, `FilesView` and `CollectionView`; `a.b` and `a['b']` read an item of a mapping, never an
  attribute or a method of Python;
- what is missing is `MISSING`: falsy, and so is any field of it; printing it, ordering by it or calculating with it
  raises ExpressionError; a name that is not in scope at all raises too, naming the nearest;
- text prints as it is, everything else as JSON (`true`, `null`, `{"a": 1}`); a set of files prints as blocks;
- sizes and steps are bounded; a value is rendered once, never again.
"""

from __future__ import annotations

from metaflow_agents.prompts.analysis import Analysis, Finding, analyse_expression, analyse_template, includes
from metaflow_agents.prompts.certainty import never_holds
from metaflow_agents.prompts.claims import Claim, claims
from metaflow_agents.prompts.expressions import evaluate
from metaflow_agents.prompts.package import from_package, from_text, headings, package_template, tags
from metaflow_agents.prompts.rendering import render, render_args, render_pattern
from metaflow_agents.prompts.values import MISSING, CollectionView, FilesView, truthy

__all__ = [
    "MISSING",
    "Analysis",
    "Claim",
    "CollectionView",
    "FilesView",
    "Finding",
    "analyse_expression",
    "analyse_template",
    "claims",
    "evaluate",
    "from_package",
    "from_text",
    "headings",
    "includes",
    "never_holds",
    "package_template",
    "render",
    "render_args",
    "render_pattern",
    "tags",
    "truthy",
]
