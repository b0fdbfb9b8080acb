"""Takes the pictures of the pages of `sop ui` that README.md and docs/how-to/web-ui.md show.

    python docs/pictures/take_pages.py          # a minute; wants chromium

The run is the recorded one that ships (`sop run software_company.yaml --demo`), in a folder of its own.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
SOP = [sys.executable, "-c", "from metaflow_agents.cli import main; main()"]
RUN = "software_company-1"
PAGES = {                       # picture → where it is, and what has to be on it
    "ui-graph": (f"/run/{RUN}?view=graph", "svg"),
    "ui-time": (f"/run/{RUN}?view=time", "text=Critical path"),
    "ui-conversation": (f"/run/{RUN}?view=conversation&key=build@1~0/revise@1~0", "text=Turn 1"),
    "ui-artifacts": (f"/run/{RUN}?view=artifacts&name=report", "text=What was tried"),
    "ui-sop": ("/sop?file=article.yaml", "svg"),
}
WIDTH, HEIGHT = 1100, 720


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address that opens the pages of a folder's runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([*SOP, "ui", "--no-browser", "--port", str(port)], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


def take(page: Page, address: str, only: list[str]) -> None:
    """All pictures, or those that are named."""
    page.goto(address)
    page.wait_for_selector("h1")
    for name, (where, shows) in PAGES.items():
        if not only or name in only:
            page.goto(f"{address.partition('#')[0]}#{where}")
            page.wait_for_selector(shows, timeout=60_000)
            page.wait_for_timeout(1_500)                    # what moves has come to rest
            page.screenshot(path=HERE / f"{name}.png")


def main() -> None:
    """Into the folder of this file."""
    readme = (HERE.parent.parent / "README.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "project"
        folder.mkdir()
        article = re.search(r"```yaml\n(sop: article\n.*?)```", readme, re.DOTALL)
        assert article is not None, "README.md shows the SOP `article`"
        (folder / "article.yaml").write_text(article[1], encoding="utf-8")
        subprocess.run([*SOP, "run", "software_company.yaml", "--demo", "--name", RUN], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with served(folder) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"),
                                                 args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            take(page, address, sys.argv[1:])
            browser.close()


if __name__ == "__main__":
    main()
