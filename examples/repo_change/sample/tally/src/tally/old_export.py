"""Export to the format of the old till. Nobody uses it since 0.3; kept for one release."""


def export(entries):
    return ";".join(f"{entry.kind}={entry.amount}" for entry in entries)
