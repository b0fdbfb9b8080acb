"""The documents as a site: no broken link, nothing from the network, at two widths, and a search that works from the disk."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from metaflow_agents.kits.company.probing import browser_path

TOP = Path(__file__).resolve().parent.parent


def load_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site_pages", TOP / "docs" / "site_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages(entries: Any) -> list[str]:
    """The files that a navigation names."""
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [page for entry in values for page in pages(entry)]


def nav() -> list[str]:
    class Loader(yaml.SafeLoader):
        """Knows the one tag of mkdocs.yml."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
    return pages(yaml.load((TOP / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"])


def test_every_page_is_in_the_navigation_once() -> None:
    written = [path for path in (TOP / "docs").glob("**/*.md") if path.parent.name != "decisions"]
    assert sorted(nav()) == sorted(path.relative_to(TOP / "docs").as_posix() for path in written)


@pytest.mark.parametrize(("link", "origin", "leads"), [
    ("../../examples/book/README.md", "docs/how-to/index.md", "examples/book/README.md"),
    ("../examples/book", "docs/index.md", "examples/book/README.md"),
    ("../docs/security.md#x", "sops/a.md", "docs/security.md"),
    ("https://example.org/a.md", "docs/index.md", None),
    ("#here", "docs/index.md", None),
    ("../" * 30 + "etc/passwd", "docs/index.md", None),
    ("/etc/passwd", "docs/index.md", None),
    ("nothing.md", "docs/index.md", None),
])
def test_a_link_leads_to_a_file_of_the_repository(link: str, origin: str, leads: str | None) -> None:
    assert load_hook()._target(link, origin) == leads


def test_a_bar_in_code_of_a_table_is_shown_as_a_bar() -> None:
    hook = load_hook()
    assert hook.without_escaped_bars("| `a \\| b` | c \\| d |\n`a \\| b`\n") == "| `a | b` | c \\| d |\n`a \\| b`\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", os.fspath(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.one_in(4)
def test_the_site_has_what_its_pages_link_to(site: Path) -> None:
    assert (site / "repository/examples/book/index.html").is_file() and (site / "repository/sops/minutes.yaml.html").is_file()
    assert "repository/examples/book/index.html" in (site / "how-to/index.html").read_text(encoding="utf-8")
    index = (site / "search/search_index.json").read_text(encoding="utf-8")
    assert not list(site.rglob("*.py")) and "repository/" not in index and "how-to/tool.html" in index


@pytest.mark.one_in(8)
@pytest.mark.skipif(not browser_path(), reason="no browser is installed")
def test_the_site_works_from_the_disk_at_two_widths(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        asked: list[str] = []
        for width in (390, 1280):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("request", lambda request: asked.append(request.url))
            page.goto((site / "explanation/firing.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"the page is wider than {width} pixels"
            assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        page.keyboard.press("/")
        page.keyboard.type("foreach")
        page.wait_for_selector(".md-search-result__item", timeout=60_000)
        assert asked and not [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))]
        browser.close()
