"""What the tools that steps call take, as far as it is known before a run: nothing is started, imported or asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metaflow_agents.errors import UsageError
from metaflow_agents.schema.program import Program
from metaflow_agents.tools.arguments import faults_of


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool whose arguments have a schema that is known. Fits `Takes` of `sop check`."""

    parameters: Mapping[str, Any]

    def faults(self, parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
        """See `Takes`."""
        return faults_of(parameters, arguments)


def known_tools(program: Program) -> dict[str, KnownTool]:
    """The built-in tools that steps call themselves, and the operations of the services of which they call any. Of a server
    nobody knows before it runs; a description that can't be read is left out: a run refuses it, and says why.
    """
    called = {step.tool for step in program.sop.steps.values() if step.tool is not None}
    found: dict[str, KnownTool] = {}
    if not called:
        return found
    from metaflow_agents.schema.external_schema import ForeignSchemas
    from metaflow_agents.tools.builtin import parameters_of
    from metaflow_agents.tools.commands import Python
    from metaflow_agents.tools.files import EditArguments, List, Read, Search, Write
    from metaflow_agents.tools.map import MapTool
    from metaflow_agents.tools.openapi_document import Description
    from metaflow_agents.tools.packages import Packages
    from metaflow_agents.tools.web import Fetch

    for tool in (Read, Write, EditArguments, List, Search, MapTool, Python, Fetch, Packages):
        if tool.name in called:
            found[tool.name] = KnownTool(parameters_of(tool.takes))
    for name, spec in program.sop.openapi.items():
        if not any(each.startswith(f"{name}.") for each in called) or name not in program.documents:
            continue
        try:
            operations = Description(name, program.documents[name]).chosen(spec.operations)
        except UsageError:
            continue
        schemas = ForeignSchemas(program.documents[name], hidden="readOnly")
        for each in operations:             # those that nobody calls stand here by their names alone
            operation = f"{name}.{each.name}"
            found[operation] = KnownTool(schemas.widened(each.arguments) if operation in called else {})
    return found
