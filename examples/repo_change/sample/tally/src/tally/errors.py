"""What a user is told in one line."""


class TallyError(Exception):
    """Ends the program with status 2."""
