"""Languages that the map reads: which grammar parses a file, and which of its nodes define and use names.

The queries are tree-sitter's (https://tree-sitter.github.io/tree-sitter/using-parsers/queries). Each definition is captured as
`definition.KIND` with its `name`; each use of a name as `use`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Language:
    """A grammar: `package` has the function `function`, which gives it; `query` captures definitions and uses."""

    name: str
    package: str
    function: str
    query: str


_PYTHON = """
(class_definition name: (identifier) @name) @definition.class
(function_definition name: (identifier) @name) @definition.function
(module (expression_statement (assignment left: (identifier) @name) @definition.value))
(identifier) @use
"""
_JAVASCRIPT = """
(class_declaration name: (_) @name) @definition.class
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: (_) @name) @definition.function
(program (lexical_declaration (variable_declarator name: (identifier) @name) @definition.value))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @definition.value)))
[(identifier) (property_identifier) (shorthand_property_identifier)] @use
"""
_TYPESCRIPT = _JAVASCRIPT + """
(abstract_class_declaration name: (_) @name) @definition.class
(interface_declaration name: (_) @name) @definition.class
(type_alias_declaration name: (_) @name) @definition.class
(enum_declaration name: (_) @name) @definition.class
(function_signature name: (_) @name) @definition.function
(method_signature name: (_) @name) @definition.function
(type_identifier) @use
"""
_GO = """
(function_declaration name: (identifier) @name) @definition.function
(method_declaration name: (field_identifier) @name) @definition.function
(type_spec name: (type_identifier) @name) @definition.class
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.value))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition.value))
[(identifier) (field_identifier) (type_identifier)] @use
"""
_JAVA = """
(class_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.class
(enum_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(method_declaration name: (identifier) @name) @definition.function
(constructor_declaration name: (identifier) @name) @definition.function
[(identifier) (type_identifier)] @use
"""
_RUST = """
[(struct_item name: (_) @name) (enum_item name: (_) @name) (union_item name: (_) @name) (trait_item name: (_) @name)
 (type_item name: (_) @name)] @definition.class
(impl_item type: (_) @name) @definition.class
(function_item name: (identifier) @name) @definition.function
(function_signature_item name: (identifier) @name) @definition.function
(macro_definition name: (identifier) @name) @definition.function
(const_item name: (identifier) @name) @definition.value
(static_item name: (identifier) @name) @definition.value
[(identifier) (field_identifier) (type_identifier)] @use
"""
_C = """
(struct_specifier name: (type_identifier) @name body: (_)) @definition.class
(union_specifier name: (type_identifier) @name body: (_)) @definition.class
(enum_specifier name: (type_identifier) @name body: (_)) @definition.class
(type_definition declarator: (type_identifier) @name) @definition.class
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @definition.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))
  @definition.function
(declaration declarator: (function_declarator declarator: (identifier) @name)) @definition.function
(preproc_def name: (identifier) @name) @definition.value
(preproc_function_def name: (identifier) @name) @definition.function
[(identifier) (field_identifier) (type_identifier)] @use
"""

LANGUAGES = {language.name: language for language in (
    Language("python", "tree_sitter_python", "language", _PYTHON),
    Language("javascript", "tree_sitter_javascript", "language", _JAVASCRIPT),
    Language("typescript", "tree_sitter_typescript", "language_typescript", _TYPESCRIPT),
    Language("tsx", "tree_sitter_typescript", "language_tsx", _TYPESCRIPT),
    Language("go", "tree_sitter_go", "language", _GO),
    Language("java", "tree_sitter_java", "language", _JAVA),
    Language("rust", "tree_sitter_rust", "language", _RUST),
    Language("c", "tree_sitter_c", "language", _C),
)}

_ENDINGS: Mapping[str, str] = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".jsx": "javascript",
    ".ts": "typescript", ".mts": "typescript", ".cts": "typescript", ".tsx": "tsx", ".go": "go", ".java": "java", ".rs": "rust",
    ".c": "c", ".h": "c"}


def language_of(path: str) -> str:
    """The language of a file by its name's ending; empty where the map parses no such file."""
    return _ENDINGS.get(PurePosixPath(path).suffix.lower(), "")
