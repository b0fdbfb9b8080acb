"""python no_namespaces.py PROGRAM …: becomes the program, where nobody can make namespaces, as in many containers."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

ARM = platform.machine() == "aarch64"
UNSHARE, CLONE, CLONE3 = (97, 220, 435) if ARM else (272, 56, 435)
SPACES = 0x7E020080
EPERM, ENOSYS, ALLOW = 0x00050001, 0x00050026, 0x7FFF0000
FILTER = [
    (0x20, 0, 0, 0), (0x15, 0, 1, UNSHARE), (0x06, 0, 0, EPERM), (0x15, 0, 1, CLONE3), (0x06, 0, 0, ENOSYS),
    (0x15, 0, 3, CLONE), (0x20, 0, 0, 16), (0x45, 0, 1, SPACES), (0x06, 0, 0, EPERM), (0x06, 0, 0, ALLOW)]


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def closed() -> None:
    """From now on, for this process and all that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    made = Program(len(FILTER), b"".join(struct.pack("=HBBI", *one) for one in FILTER))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(made)):
        raise OSError(ctypes.get_errno(), "the filter can't be loaded")


if __name__ == "__main__":
    closed()
    os.execv(sys.argv[1], sys.argv[1:])
