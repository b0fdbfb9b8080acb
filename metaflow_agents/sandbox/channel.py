"""A socket between us and a process inside: frames of a length and so many bytes, in both directions.

Not its standard input and outputs, so that nothing it prints is taken for an answer.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from metaflow_agents.sandbox.output import Output

FRAME_BYTES = 4 << 20               # of one frame; a longer one is no frame of ours
_LENGTH = struct.Struct(">I")
_PIECE = 1 << 16


class Channel:
    """`ours` stays here, `theirs` goes to the process. `answered`: called in the watching thread with each answer, and what the
    process had written to its outputs before it.
    """

    def __init__(self, answered: Callable[[bytes, Output, Output], None]) -> None:
        self.answered = answered
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self._heard = bytearray()

    def close(self) -> None:
        """Release both ends."""
        self.ours.close()
        self.theirs.close()

    def heard(self) -> tuple[bool, list[bytes]]:
        """Whether there may be more, and the whole answers that came. A frame that is too long ends the talk, and counts as an
        empty one.
        """
        try:
            data = self.ours.recv(_PIECE)
        except BlockingIOError:
            return True, []
        except OSError:                         # it ended with our words unread
            return False, []
        answers = self.parsed(data)
        return bool(data) and answers[-1:] != [b""], answers

    def parsed(self, data: bytes) -> list[bytes]:
        """The whole answers, with this piece of them. One that is too long counts as an empty one, and is the last."""
        self._heard += data
        answers: list[bytes] = []
        while len(self._heard) >= _LENGTH.size:
            length, = _LENGTH.unpack_from(self._heard)
            if length > FRAME_BYTES:
                return [*answers, b""]
            if len(self._heard) < _LENGTH.size + length:
                break
            answers.append(bytes(self._heard[_LENGTH.size:_LENGTH.size + length]))
            del self._heard[:_LENGTH.size + length]
        return answers


def framed(data: bytes) -> bytes:
    """A frame of these bytes."""
    return _LENGTH.pack(len(data)) + data
