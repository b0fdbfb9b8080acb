"""A line of `sop doctor`."""


def checkup():
    return "ok", "the drawing board is flat"
