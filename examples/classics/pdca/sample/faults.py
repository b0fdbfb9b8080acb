"""Prints how many cells of people.csv are no date (YYYY-MM-DD) or no code of a country (two letters), and which."""

import csv
import re
import sys

FORMS = {"born": r"\d{4}-\d{2}-\d{2}", "country": r"[A-Z]{2}"}
with open("people.csv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file))
faults = [f"{row['name']}: {column} is {row[column]!r}" for row in rows for column, form in FORMS.items()
          if not re.fullmatch(form, row[column] or "")]
sys.stdout.write("\n".join([*faults, str(len(faults)), ""]))
