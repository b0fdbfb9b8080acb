"""What people see: read-only folds of programs, reports and journals into text, tables and drawings.

A view returns lines and prints nothing. It is given a `Page`: how wide the reader's window is, and whether it has colour.
"""
