"""What of a folder that is given to a run is left out: what its `.gitignore` files name, and what holds secrets. Pure.

The patterns of https://git-scm.com/docs/gitignore, matched by the automata of `paths.py`: a `.gitignore` is somebody else's text,
and regular expressions that are made from it can take forever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from metaflow_agents.schema import paths

PATTERNS = 2000                     # in all `.gitignore` files of a folder
_SECRET_FOLDERS = frozenset((
    ".ssh .gnupg .aws .azure .kube .docker .gcloud .password-store .hg .svn .jj .journals .memory").split())
_SECRET_FILES = tuple((
    ".env .env.* *.env .envrc .netrc _netrc .npmrc .yarnrc.yml .pypirc .pgpass .my.cnf .htpasswd .git-credentials .dockercfg "
    ".boto .s3cfg .vault-token id_rsa* id_dsa* id_ecdsa* id_ed25519* *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk "
    ".*_history credentials.json service-account*.json *.tfstate *.tfstate.backup *.tfvars").split())
_PUBLIC = (".example", ".sample", ".template", ".pub", ".pub.asc")


def holds_secrets(name: str, *, folder: bool) -> bool:
    """Whether a file or a folder of that name holds keys, or what runs wrote down, by its name alone."""
    plain = name.casefold()
    if folder:
        return plain in _SECRET_FOLDERS
    return not plain.endswith(_PUBLIC) and any(fnmatchcase(plain, secret) for secret in _SECRET_FILES)


class TooMany(ValueError):
    """More patterns than are looked at."""


@dataclass(frozen=True, slots=True)
class _Rule:
    below: str              # the folder of its file, with `/` behind it; empty: the top
    pattern: str
    negated: bool
    folders: bool
    anywhere: bool          # it has no slash: names in any folder below are meant


class Ignored:
    """The rules of the `.gitignore` files that lie on the way to a path; of those that match the last one decides."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []

    def add(self, text: str, below: str = "") -> None:
        """The `.gitignore` of a folder (its path from the top; empty: the top's own). Outer ones have to be added first.

        Raises TooMany.
        """
        prefix = f"{below}/" if below else ""
        self._rules += _rules(text, prefix)
        if len(self._rules) > PATTERNS:
            raise TooMany(f"its .gitignore files have more than {PATTERNS:,} patterns")

    def leaves_out(self, path: str, *, folder: bool) -> bool:
        """Whether a path is left out by itself; what lies in a folder that is left out is not asked about."""
        name = path.rpartition("/")[2]
        for rule in reversed(self._rules):
            if path.startswith(rule.below) and (folder or not rule.folders) and paths.fits(
                    rule.pattern, name if rule.anywhere else path[len(rule.below):]):
                return not rule.negated
        return False


def _rules(text: str, below: str) -> Iterator[_Rule]:
    for line in text.removeprefix("\ufeff").split("\n"):
        written = _without_spaces(line.removesuffix("\r"))
        if not written or written.startswith("#"):
            continue
        negated = written.startswith("!")
        plain = _unescaped(written.removeprefix("!"))
        folders = plain.endswith("/")
        bare = plain.removesuffix("/")              # one alone: `x//` is a path below `x`, which nothing fits
        pattern = bare.removeprefix("/")
        if pattern and not paths.pattern_refusal(pattern):
            yield _Rule(below, pattern, negated, folders, "/" not in bare)


def _without_spaces(line: str) -> str:
    """The line without the spaces at its end, but for one that stands behind a backslash."""
    bare = line.rstrip(" ")
    return line[:len(bare) + (len(bare) - len(bare.rstrip("\\"))) % 2]


def _unescaped(pattern: str) -> str:
    """Backslashes resolved: what follows one is the sign itself."""
    return re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], pattern)
