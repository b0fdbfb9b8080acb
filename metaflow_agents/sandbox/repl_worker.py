"""What runs inside the sandbox to execute one piece of Python after the other: a script of its own, never imported by us.

    python -P -c SCRIPT DESCRIPTOR

Over the socket at that descriptor come frames (four bytes of length, and so many of JSON): `{"id", "code"}`; for each goes one
back: `{"id", "value", "error", "cut"}`. The socket is closed to what the code starts. The code itself could find it, and write
there; but only for the `id` that it was given itself: those are random, and the next one is not known before.
"""

import ast
import builtins
import json
import linecache
import os
import socket
import struct
import sys
import traceback
import types
from typing import Any

VALUE_CHARACTERS = 200_000
_LENGTH = struct.Struct(">I")
_INPUT = "<python {}>"


def main(descriptor: int) -> None:
    """Execute what comes until the other end is closed."""
    os.set_inheritable(descriptor, False)
    sys.path.insert(0, "")
    sys.argv[:] = [""]
    module = sys.modules["__main__"] = types.ModuleType("__main__")        # its names, and none of ours
    names: dict[str, Any] = vars(module)
    names["__builtins__"] = builtins
    with socket.socket(fileno=descriptor) as channel:
        number = 0
        while (request := _frame(channel)) is not None:
            number += 1
            asked = json.loads(request)
            value, error, cut = _executed(asked["code"], _INPUT.format(number), names)
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            answer = json.dumps({"id": asked["id"], "value": value, "error": error, "cut": cut}).encode()
            channel.sendall(_LENGTH.pack(len(answer)) + answer)


def _executed(code: str, name: str, names: dict[str, Any]) -> tuple[str | None, bool, bool]:
    """The value of the last expression, if any; whether an exception went through; whether the value was cut."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        if not isinstance(last, ast.Expr):
            return None, False, False
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is None:
            return None, False, False
        names["_"] = value
        text = repr(value)
        return text[:VALUE_CHARACTERS], False, len(text) > VALUE_CHARACTERS
    except SystemExit as end:                   # of code that ends a script: the interpreter stays
        if sys.stdin.closed:                    # `exit()` does that
            sys.stdin = open(os.devnull)
        if end.code in (None, 0):
            return None, False, False
        _told(f"SystemExit: {end.code}\n")
        return None, True, False
    except BaseException as error:              # it is what the code gave
        _told("".join(traceback.format_exception(_without_us(error))))
        return None, True, False


def _without_us(error: BaseException) -> BaseException:
    """The same error, its traceback beginning in the code."""
    if isinstance(error, SyntaxError):
        return error.with_traceback(None)
    place = error.__traceback__
    while place is not None and place.tb_frame.f_globals is globals():
        place = place.tb_next
    return error.with_traceback(place)


def _told(text: str) -> None:
    try:
        sys.stderr.write(text)
    except (OSError, ValueError, AttributeError):           # the code closed or replaced it
        os.write(2, text.encode(errors="backslashreplace"))


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except (OSError, ValueError, AttributeError):
        return


def _frame(channel: socket.socket) -> bytes | None:
    length = _exactly(channel, _LENGTH.size)
    return None if length is None else _exactly(channel, _LENGTH.unpack(length)[0])


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


if __name__ == "__main__":
    main(int(sys.argv[1]))
