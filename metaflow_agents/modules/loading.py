"""Functions that a SOP names, imported.

The modules of a SOP's folders are loaded below a package of their own, one for each list of folders, so that two SOPs with a
`helper.py` each have their own. `sys.path` stays as it is. An `import` statement in such a module is answered by `Home.imported`:
what is installed as ever, and then what lies in the SOP's folders, also when it is carried out long after the module was loaded.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from metaflow_agents.errors import UsageError, did_you_mean
from metaflow_agents.modules.finding import Shadowed, file_places, installed_finder, is_own, locate, locate_file, offered

_PREFIX = "_sop_"
_LOADING = threading.RLock()
_FOR_SOP = threading.local()
_HOMES: dict[str, Home] = {}


def load_function(spec: str, folders: Sequence[Path]) -> Callable[..., Any]:
    """The function that `module:function` or `FILE.py:function` names.

    A module is what is installed under that name, else what lies in `folders`: the SOP's own, then its project's. A file is
    looked for in `folders` alone, and loaded once while its text stays the same. Raises UsageError, in one line: no such
    module or file, two of one name, an error at import with its place, no such function, not callable.
    """
    where, _, name = spec.rpartition(":")
    if not where or not name or not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"`{spec}` names no function: write `package.module:function` or `FILE.py:function`")
    with _for_sop():
        module = _from_file(where, folders) if where.endswith(".py") else _from_module(where, folders)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [each for each in vars(found) if not each.startswith("_") and callable(getattr(found, each))]
            raise UsageError(f"`{where}` has no `{name}`: {did_you_mean(part, public)}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"`{spec}` is {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function


def loaded_text(name: str, folders: Sequence[Path]) -> bytes | None:
    """The bytes of a module's file as this process has loaded it for a SOP of these folders; None where it has not."""
    home = _HOMES.get(_home_name([folder.resolve() for folder in folders]))
    return None if home is None else home.texts.get(name)


def _home_name(folders: Sequence[Path]) -> str:
    return _PREFIX + hashlib.sha256("\0".join(map(str, folders)).encode()).hexdigest()[:16]


class Home:
    """The modules of one list of folders, as submodules of a package that only this process knows."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folders)
        self.name = _home_name(self.folders)
        self.builtins = {**vars(builtins), "__import__": self.imported}
        self.texts: dict[str, bytes] = {}               # module → its file when it was loaded

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Home:
        """The one home of these folders, made where there is none."""
        home = cls([folder.resolve() for folder in folders])
        with _LOADING:
            if home.name not in _HOMES:
                if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
                    sys.meta_path.insert(0, _Finder())
                package = ModuleType(home.name)
                package.__path__ = [str(folder) for folder in home.folders]
                package.__spec__ = ModuleSpec(home.name, None, is_package=True)
                sys.modules[home.name] = package
                _HOMES[home.name] = home
            return _HOMES[home.name]

    def imported(self, name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
                 fromlist: Sequence[str] | None = (), level: int = 0) -> ModuleType:
        """`__import__` of the modules in here (https://docs.python.org/3/library/functions.html#import__)."""
        with _for_sop():
            if level or not is_own(name, self.folders):
                return builtins.__import__(name, globals, locals, fromlist or (), level)
            try:
                module = builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
            except ModuleNotFoundError as error:
                if error.name is None or not error.name.startswith(f"{self.name}."):
                    raise
                plain = error.name.removeprefix(f"{self.name}.")
                raise ModuleNotFoundError(f"No module named {plain!r}", name=plain) from None
            return module if fromlist else sys.modules[f"{self.name}.{name.partition('.')[0]}"]


class _Finder(MetaPathFinder):
    """Finds modules of homes; and, for an import on behalf of a SOP, keeps what `sys.path` has relative (`""`) out."""

    of_sops = True

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        home = _HOMES.get(fullname.partition(".")[0])
        if home is not None:
            spec = PathFinder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, home)
            return spec
        if path is None and _depth() and not all(map(os.path.isabs, sys.path)):
            spec = installed_finder(fullname)
            if spec is None:
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
            return spec
        return None


class _Loader(Loader):
    """Another loader, with the home's builtins for what it executes."""

    def __init__(self, inner: Loader, home: Home) -> None:
        self._inner, self._home = inner, home

    def __getattr__(self, name: str) -> Any:            # `get_source` and the like, for tracebacks
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._home.builtins
        origin = None if module.__spec__ is None else module.__spec__.origin
        if origin is not None and os.path.isfile(origin):
            self._home.texts[module.__name__.removeprefix(f"{self._home.name}.")] = Path(origin).read_bytes()
        self._inner.exec_module(module)


@contextmanager
def _for_sop() -> Iterator[None]:
    """What is imported meanwhile, by this thread, is imported for a SOP."""
    _FOR_SOP.depth = _depth() + 1
    try:
        yield
    finally:
        _FOR_SOP.depth -= 1


def _depth() -> int:
    depth: int = getattr(_FOR_SOP, "depth", 0)
    return depth


def _from_module(name: str, folders: Sequence[Path]) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"`{name}` is not a module's name: write `package.module:function` or `FILE.py:function`")
    folders = [folder.resolve() for folder in folders]
    try:
        found = locate(name, folders)
    except Shadowed as error:
        raise UsageError(str(error)) from error
    home = Home.of(folders)                             # its finder keeps relative entries of the path out
    full = f"{home.name}.{name}" if found is not None and found.own else offered(name)
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name and (full == error.name or full.startswith(f"{error.name}.")):
            looked = ", ".join(f"`{folder}`" for folder in folders)
            raise UsageError(f"there is no module `{name}`: looked in what is installed{' and in ' + looked if looked else ''}; "
                             "the current directory is not searched") from error
        raise _import_failed(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failed(name, error) from error


def _from_file(written: str, folders: Sequence[Path]) -> ModuleType:
    path = locate_file(written, folders)
    if path is None:
        places = ", ".join(f"`{place}`" for place in file_places(written, folders)) or "none: a SOP of the package has no folder"
        raise UsageError(f"there is no file `{written}`: looked for {places}")
    path = path.resolve()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read `{path}`: {error.strerror}") from error
    home = Home.of(list(dict.fromkeys([path.parent, *(folder.resolve() for folder in folders)])))
    name = f"{home.name}.file_{hashlib.sha256(str(path).encode() + bytes(1) + text).hexdigest()[:32]}"
    with _LOADING:
        return sys.modules[name] if name in sys.modules else _executed(name, path, home, written)


def _executed(name: str, path: Path, home: Home, written: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"`{path}` can't be loaded as Python")
    spec.loader = loader = _Loader(spec.loader, home)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module              # before it runs: what it defines looks its module up here
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(written, error) from error
    return module


def _import_failed(what: str, error: BaseException) -> UsageError:
    """One line with the innermost place outside of the import machinery."""
    place = ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    else:
        trace = error.__traceback__
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not file.startswith("<frozen") and file not in (__file__, importlib.__file__, locate.__code__.co_filename):
                place = f"{file}:{trace.tb_lineno}: "
            trace = trace.tb_next
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    reason = " ".join(f"{type(error).__name__}: {said}".split())
    for home in _HOMES:
        reason = reason.replace(f"{home}.", "")
    return UsageError(f"can't import `{what}`: {place}{reason}")
