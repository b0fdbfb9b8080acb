"""A source of tools: the stock of a shop, whose shelf is given with the SOP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metaflow_agents.schema.model import Value
from metaflow_agents.tools.plugin_source import Described, ToolSource


class Shelf(Value):
    """What `with` holds."""

    stock: dict[str, int]
    key: str = ""
    hold: str = ""


class Shop(ToolSource[Shelf]):
    """Fits the port: what there is, and what a call gives."""

    SPEC = Shelf

    def tools(self) -> list[Described]:
        one = {"type": "object", "properties": {"ware": {"type": "string"}}, "required": ["ware"], "additionalProperties": False}
        return [Described("count", "How many there are.", one, effect="none"), Described("order", "Orders one more.", one)]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        ware = arguments["ware"]
        if self.given.hold:
            with Path(f"{self.given.hold}.log").open("a", encoding="utf-8") as log:
                log.write(f"{tool}\n")
            while Path(self.given.hold).exists():
                await asyncio.sleep(0.01)
        if ware not in self.given.stock:
            raise KeyError(f"no {ware} on the shelf of {self.given.key}")
        return {"ware": ware, "count": self.given.stock[ware] + (tool == "order")}
