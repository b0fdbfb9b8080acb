"""The tool search, which is an API among the others: it finds APIs by keywords, and gives their documentation."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, get_args

import accounts  # noqa: F401
import clinic  # noqa: F401
import diary  # noqa: F401
import home  # noqa: F401
import lookups  # noqa: F401
import money  # noqa: F401
from pydantic import Field
from records import CATALOGUE, Base, api

from metaflow_agents.tools.retrieval import ToolIndex

TOP = 5
TOKEN, GIVES_IT = "token", "GetUserToken"


def documentation(name: str) -> dict[str, Any]:
    """What a role reads of an API before it calls it. Raises KeyError."""
    function = CATALOGUE[name]
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {"name": name, "description": inspect.getdoc(function),
            "input_parameters": {one.name: {"type": str(get_args(one.annotation)[0]).removeprefix("<class '").removesuffix("'>"),
                                            "description": get_args(one.annotation)[1].description,
                                            "required": one.default is one.empty} for one in parameters}}


def _told(name: str) -> dict[str, Any]:
    page = documentation(name)
    return {"name": name, "description": page["description"], "parameters": {"properties": page["input_parameters"]}}


@api("ToolSearcher", logged=False)
def tool_searcher(base: Base,
                  keywords: Annotated[str, Field(description="what the API should do, in a few words")]) -> list[Any]:
    """Search for APIs by keywords: gives the documentation of the best, and of the one that gives the token they ask for."""
    index = ToolIndex([_told(name) for name in CATALOGUE if name != "ToolSearcher"])
    found = index.search(keywords, TOP)
    if GIVES_IT not in found and any(TOKEN in documentation(name)["input_parameters"] for name in found):
        found.append(GIVES_IT)
    return [documentation(name) for name in found]
