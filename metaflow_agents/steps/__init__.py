"""Who does the work of a step that is no role: commands, functions, expressions; and what any answer must fit."""
