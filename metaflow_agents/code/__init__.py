"""Files of code: a map of a repository within a budget of tokens, and edits of a text by the lines that they look for."""
