"""The model of `letters.yaml`; `sop check` reads this file and never imports it."""

raise RuntimeError("sop check imported a user's module")


def answer(request):
    return "Dear sender"
