"""Files that act later: programs obey them when a folder is opened, listed, built, tested or lived in, without being asked to.

Every way in which a role's bytes come into a run's folder asks this one list. Pure: names only, no disk, no content. Names are
compared as the most forgiving file system would: in any case and Unicode form, without what is invisible, without the dots and
spaces at the end of a part and the streams behind a colon that Windows drops.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

Verdict = Literal["refused", "asked", "reported"]
"""`refused`: whatever a rule says. `asked`: unless a rule or the SOP names the place, or a person allows it. `reported`: said in
the run's summary, since a person who builds or tests the product starts it themselves.
"""


@dataclass(frozen=True, slots=True)
class ActingFile:
    """One row: file names (globs of one part of a path; with `/` at the end a folder and all below it), and who obeys them."""

    names: tuple[str, ...]
    verdict: Verdict
    why: str
    unless_in: tuple[str, ...] = ()
    """Folders in which such a file is an ordinary part of a product."""


def _row(names: str, verdict: Verdict, why: str, unless_in: tuple[str, ...] = ()) -> ActingFile:
    return ActingFile(tuple(names.split()), verdict, why, unless_in)


TABLE = (
    _row(
        ".hg/ .jj/ .svn/ .bzr/",
        "refused", "a repository's own folder, whose settings and hooks run programs"),
    _row(
        ".ssh/ .gnupg/ .aws/ .kube/ .docker/",
        "refused", "keys, and settings that name programs to start"),
    _row(
        "HEAD", "asked",
        "with `objects` and `refs` beside it git takes the folder for a bare repository, and runs what its `config` names"),
    _row(
        ".gitmodules .gitattributes .gitconfig .lfsconfig",
        "asked", "git fetches, filters or runs what it names"),
    _row(
        ".githooks/ .husky/ .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.y*ml "
        ".lefthook.y*ml lefthook-local.y*ml .overcommit.yml .lintstagedrc*",
        "asked", "runs at a commit"),
    _row(
        ".mcp.json .claude/ .claude.json .cursor/ .cursorrules .windsurf/ .windsurfrules .aider* .continue/ .codex/ "
        ".gemini/ .roo* .kiro/ .cline* .amazonq/ .opencode* opencode.json .junie/ .augment* agents.md agent.md claude.md "
        "claude.local.md gemini.md copilot-instructions.md *.prompt.md *.instructions.md",
        "asked", "other agents read it as instructions, or start the servers that it names"),
    _row(
        ".vscode/ .idea/ .zed/ .fleet/ .vs/ .nova/ *.code-workspace *.sublime-project .project .settings/ .exrc .nvimrc "
        ".nvim.lua .vimrc .gvimrc _vimrc .lvimrc .local.vimrc .dir-locals*.el .emacs .emacs.d/ .devcontainer/ "
        ".devcontainer.json .gitpod.yml devfile.yaml",
        "asked", "an editor runs it when the folder is opened"),
    _row(
        ".envrc .env .env.* .autoenv* .mise* mise.toml mise.local.toml .rtx.toml .tool-versions .direnv/ devbox.json "
        "flake.nix",
        "asked", "a shell or a program takes variables, or a program, from it"),
    _row(
        ".bashrc .bash_* .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout "
        ".inputrc .xinitrc .xprofile .xsession .xsessionrc .config/ .local/ .tmux.conf .screenrc .pam_environment",
        "asked", "a login or a shell runs it, where the folder is a home"),
    _row(
        ".netrc _netrc .npmrc .yarnrc* .yarn/ .pnpmfile.cjs .pnp.*js .bunfig.toml bunfig.toml .pypirc pip.conf pip.ini "
        ".pip/ .condarc .cargo/ .bundle/ .gemrc .mvn/ .m2/ .bazelrc .sbtopts .jvmopts uv.toml .wgetrc .curlrc _curlrc "
        ".hgrc .my.cnf .psqlrc .sqliterc",
        "asked", "a tool takes its servers, its keys or a program to start from it"),
    _row(
        "*.pth *.egg-link sitecustomize.py usercustomize.py sitecustomize/ usercustomize/ .pdbrc .pdbrc.py .pythonrc* "
        ".pythonstartup* .ipython/ .jupyter/ pyvenv.cfg *._pth",
        "asked", "Python runs it as it starts"),
    _row(
        ".irbrc .pryrc .rprofile .renviron .gdbinit .lldbinit .lldbinit-* .ghci .iex.exs .perldb .ocamlinit .rspec "
        ".rdebugrc .mocharc.*js .noderc",
        "asked", "an interpreter or a debugger runs it as it starts"),
    _row(
        "conftest.py",
        "asked", "pytest runs it, whichever tests are asked for", unless_in=("tests", "test")),
    _row(
        ".github/ .gitlab/ .gitlab-ci.y*ml .circleci/ .travis.yml azure-pipelines*.y*ml .azure-pipelines/ .azuredevops/ "
        "jenkinsfile* .drone.y*ml .drone.star .woodpecker/ .woodpecker*.y*ml bitbucket-pipelines.yml .buildkite/ "
        "appveyor.yml .appveyor.yml .cirrus.* .teamcity/ .semaphore/ cloudbuild.* buildspec.y*ml .forgejo/ .gitea/ "
        ".builds/ .build.yml .ci/ wercker.yml codemagic.yaml .tekton/ netlify.toml vercel.json .readthedocs.y*ml "
        "renovate.json* .renovaterc*",
        "asked", "a server runs it, with its keys, once the folder is pushed"),
    _row(
        "desktop.ini autorun.inf *.lnk *.url *.scf *.desktop .directory *.library-ms *.search-ms *.searchconnector-ms "
        "*.settingcontent-ms *.webloc *.inetloc *.fileloc .ds_store *.command *.workflow/ *.app/",
        "asked", "a file manager obeys it when the folder is shown"),
    _row(
        ".htaccess .user.ini web.config",
        "asked", "a web server obeys it, where the folder is served"),
    _row(
        "pyproject.toml setup.py setup.cfg tox.ini pytest.ini .pytest.ini pytest.toml noxfile.py .coveragerc makefile "
        "gnumakefile *.mk package.json cargo.toml build.rs cmakelists.txt meson.build pom.xml build.gradle* "
        "settings.gradle* gradle.properties rakefile gemfile *.gemspec justfile .justfile taskfile.y*ml dockerfile* "
        "containerfile* docker-compose*.y*ml compose*.y*ml vagrantfile mix.exs *.config.js *.config.cjs *.config.mjs "
        "*.config.ts .eslintrc* .prettierrc* .babelrc* gulpfile.* gruntfile.* dodo.py fabfile.py sconstruct build.xml "
        "composer.json conanfile.py go.work .python-version .node-version .nvmrc .ruby-version",
        "reported", "building or testing the product runs it"),
)

SHORT = ActingFile(("NAME~1.EXT",), "asked", "it may be the short name that Windows gives any other file of this list")
_SHORT = re.compile(r"[^.~]{1,8}~[0-9]{1,6}(\.[^.]{0,3})?")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}


@dataclass(frozen=True, slots=True)
class FoundActing:
    """A path on the list. `name`: the glob that it fits."""

    row: ActingFile
    name: str

    def named_by(self, pattern: str) -> bool:
        """Whether a path pattern says this very name, and does not just happen to reach it: `.github/**` does, `**` does not."""
        glob = self.name.removesuffix("/").casefold()
        return any(fnmatchcase(folded(part), glob) for part in pattern.split("/") if part.strip("*?"))


@lru_cache(maxsize=4096)
def find(path: str) -> FoundActing | None:
    """What the list says of a path of a run's folder: the strictest row, or None."""
    parts = [folded(part) for part in path.split("/")]
    found = next((FoundActing(row, name) for row in _ROWS for name in row.names if _fits(name, parts, row)), None)
    short = next((part for part in parts if _SHORT.fullmatch(part)), None)
    if short is not None and (found is None or found.row.verdict == "reported"):
        return FoundActing(SHORT, short)
    return found


def told(path_list: Iterable[str]) -> dict[str, str]:
    """Path → who obeys it, of the paths that are on the list."""
    return {path: found.row.why for path in path_list if (found := find(path)) is not None}


def folded(part: str) -> str:
    """A part of a path as the most forgiving file system has it."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold())
    seen = "".join(char for char in plain if char not in _INVISIBLE and unicodedata.category(char) != "Cf")
    return seen.partition(":")[0].rstrip(". ") or seen


def _fits(name: str, parts: list[str], row: ActingFile) -> bool:
    if name.endswith("/"):
        return any(fnmatchcase(part, name[:-1]) for part in parts)
    return fnmatchcase(parts[-1], name.casefold()) and not set(parts[:-1]) & set(row.unless_in) and not _sample(parts[-1])


def _sample(name: str) -> bool:
    return name.endswith((".example", ".sample", ".template"))


_ROWS = sorted(TABLE, key=lambda row: ("refused", "asked", "reported").index(row.verdict))
