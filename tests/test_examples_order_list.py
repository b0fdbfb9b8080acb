"""The order list: fetch, choose, write, with the example's own shop, and without a model."""

from __future__ import annotations

import importlib.util
import shutil
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from metaflow_agents import start
from metaflow_agents.cli import command
from metaflow_agents.schema.event import Decided, Reserved

EXAMPLE = Path(__file__).parent.parent / "examples" / "order_list"


async def test_what_is_short_is_written_down(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("order_list_shop", EXAMPLE / "shop.py")
    assert spec is not None and spec.loader is not None
    shop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shop)
    with ThreadingHTTPServer(("127.0.0.1", 0), shop.Shop) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            path = tmp_path / "order_list.yaml"
            path.write_text((EXAMPLE / "order_list.yaml").read_text().replace(str(shop.PORT), str(server.server_port)))
            async with start(path, workspace=tmp_path / "w", name="today") as going:
                result = await going.result()
                events = [event for _, event in going.journal.events(Decided, Reserved)]
        finally:
            server.shutdown()
            thread.join()
    assert result.ok, result.reason
    assert (tmp_path / "w/today/out/order.md").read_text() == "# Order\n\n- rum\n- tea\n"
    assert [event.action.partition("(")[0] for event in events if isinstance(event, Decided)] == ["fetch", "write"]
    assert not [event for event in events if isinstance(event, Reserved)]


def test_its_own_test_holds(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "order_list")
    assert command(["check", str(tmp_path / "order_list/order_list.yaml")]) == 0
    assert command(["test", str(tmp_path / "order_list/order_list.yaml")]) == 0
