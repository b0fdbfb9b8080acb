"""Who may use the server: whoever has the token that the command printed gets a session, kept in a cookie of the browser."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest

_BYTES = 32
_MOST = 32                          # sessions at once; the oldest ends


class Sessions:
    """Tokens that work once, and sessions. Both are random, and held as digests: nothing here can be replayed.

    `announce` is told each new token: the first by `issue`, the next as soon as one was used, for another browser.
    """

    def __init__(self) -> None:
        self.announce: Callable[[str], None] = lambda _: None
        self._token = ""
        self._open: deque[str] = deque(maxlen=_MOST)

    def issue(self) -> str:
        """A new token; the one before it no longer works."""
        token = secrets.token_urlsafe(_BYTES)
        self._token = _digest(token)
        return token

    def begin(self, token: str) -> str | None:
        """A session for whoever has the token, which is used up by it; None where it is another one."""
        if not self._token or not compare_digest(_digest(token), self._token):
            return None
        session = secrets.token_urlsafe(_BYTES)
        self._open.append(_digest(session))
        self.announce(self.issue())
        return session

    def holds(self, session: str) -> bool:
        """Whether it is one of its sessions."""
        found = _digest(session)
        return any([compare_digest(found, one) for one in self._open])


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
