"""The edge of the process: exit statuses, and errors in one clear line instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from metaflow_agents.cli.output import complain, flush, page, prepare_streams, say
from metaflow_agents.errors import MetaflowError, SOPInvalid, failure_of
from metaflow_agents.settings import leave_current_directory
from metaflow_agents.threads.collector import seldom_collected

INTERRUPTED = 130


def main() -> None:
    """The command `sop`."""
    leave_current_directory()
    with seldom_collected():        # a fifth of `sop check` went into looking for garbage among modules and trees that stay
        sys.exit(command(sys.argv[1:]))


def command(words: Sequence[str]) -> int:
    """Carries out one command line and returns its exit status. What nobody foresaw is told in a line too, with its place;
    Python's development mode (`PYTHONDEVMODE=1`) shows its traceback.
    """
    prepare_streams()
    import typer

    from metaflow_agents.cli.app import app
    from metaflow_agents.cli.options import with_values

    out = sys.stdout
    try:
        status = typer.main.get_command(app).main(args=with_values(words), prog_name="sop", standalone_mode=False)
    except typer.TyperException as error:       # wrong usage: it knows which option or word it is about
        status = complain(_one_line(error.format_message()), 2)
    except MetaflowError as error:
        status = _failed(error)
    except (KeyboardInterrupt, typer.Abort):
        status = complain("interrupted", INTERRUPTED)
    except SystemExit:
        if sys.stdout is out:
            raise
        status = 0                              # how typer leaves when the reader of its help has gone
    except OSError as error:                    # the system refused: a file, a folder, the terminal
        where = f"{error.filename}: " if error.filename else ""
        status = complain(f"{where}{(error.strerror or str(error))}", 1)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        from metaflow_agents.views.page import safe

        told = safe(str(failure_of(error)))
        status = complain(f"a fault of this program: {told}; `PYTHONDEVMODE=1 sop …` shows the traceback", 1)
    flush()
    return status if isinstance(status, int) else 0


def _failed(error: MetaflowError) -> int:
    if isinstance(error, SOPInvalid):
        from metaflow_agents.views.checked import problem_lines
        from metaflow_agents.views.wording import amount

        say(problem_lines(error.problems, page(sys.stderr)), sys.stderr)
        return complain(f"{error.what} has {amount(len(error.problems), 'error')}: nothing was run", error.exit_status)
    return complain(str(error), error.exit_status)


def _one_line(message: str) -> str:
    return " ".join(message.split()).removesuffix(".")
