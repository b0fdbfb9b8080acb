"""Edits of a text: lines to find, and what stands there instead. Every role's edits go through here, by blocks or by the tool.

Where an edit belongs is looked for in this order, and each step counts only where exactly one place fits:

1. whole lines, to the letter;
2. whole lines that differ in white space, indentation or typographic signs;
3. a part of a line, or of several, to the letter;
4. whole lines of which the first and the last fit, and nearly all between them.

Lines that the edit keeps are taken from the file, byte for byte; new ones get the indentation and the line ends of their place.
What does not fit is told with the nearest lines. The work is linear in the text and the edits: a model's answer decides how many
there are, how long they are, and how often they nearly fit.
"""

from metaflow_agents.code.edits.applying import edited
from metaflow_agents.code.edits.model import FITS, Edit, Edited, EditFault, Hints, whole_lines

__all__ = ["FITS", "Edit", "EditFault", "Edited", "Hints", "edited", "whole_lines"]
