"""Begin, stop, resume and fork runs; uploads; the workspace. Each does what the command of that name does."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from metaflow_agents.journal.places import journal_path
from metaflow_agents.journal.store import unknown_run
from metaflow_agents.settings import Settings
from metaflow_agents.web.asked import Asked, answered, get, post
from metaflow_agents.web.beginning import fork_words, resume_words, run_words
from metaflow_agents.web.launching import forked, launch
from metaflow_agents.web.places import sops
from metaflow_agents.web.replies import refusal
from metaflow_agents.web.security import UPLOAD
from metaflow_agents.web.stopping import stop


def workspace(asked: Asked) -> dict[str, Any]:
    """Where this server works, and what can be run there."""
    site, model = asked.site, Settings.read().sop_model
    return {"workspace": str(site.workspace), "folder": str(site.folder), "version": _version(), "sops": sops(site.folder),
            "models": [*([model] if model else []), "dry"], "origin": site.origin}


@cache
def _version() -> str:
    return version("metaflow-agents")


def begin(asked: Asked) -> dict[str, str]:
    """`sop run`."""
    site = asked.site
    name, words = run_words(asked.body, site.folder, site.workspace, site.uploads, site.names)
    launch(site.workspace, site.folder, name, words)
    return {"run": name}


def resume(asked: Asked) -> dict[str, str]:
    """`sop resume`."""
    name, words = resume_words(asked.body, asked.site.workspace)
    _known(asked, name)
    launch(asked.site.workspace, asked.site.folder, name, words)
    return {"run": name}


def fork(asked: Asked) -> dict[str, str]:
    """`sop fork`."""
    words = fork_words(asked.body)
    _known(asked, words[0])
    return {"run": forked(asked.site.workspace, asked.site.folder, words)}


def stop_run(asked: Asked) -> dict[str, Any]:
    """Ctrl-C in its terminal."""
    stop(_known(asked, asked.text("run")))
    return {}


def _known(asked: Asked, name: str) -> Any:
    path = journal_path(asked.site.workspace, name)
    if not path.is_file():
        raise unknown_run(path)
    return path


async def upload(request: Request) -> Response:
    """A file, or one of a folder (`batch`): the answer says where it lies, and in which folder."""
    try:
        data = await request.body()
    except ClientDisconnect:
        return refusal("a file that is uploaded has 64 MB at most", 413)

    def put(asked: Asked) -> dict[str, str]:
        file, folder = asked.site.uploads.put(asked.text("name"), data, asked.text("batch", ""))
        return {"path": str(file.resolve()), "folder": str(folder.resolve())}

    return await run_in_threadpool(answered, put, Asked(request.app.state.site, request.query_params))


routes = [get("/api/workspace", workspace), post("/api/runs", begin), post("/api/run/resume", resume),
          post("/api/run/fork", fork), post("/api/run/stop", stop_run), Route(UPLOAD, upload, methods=["POST"])]
