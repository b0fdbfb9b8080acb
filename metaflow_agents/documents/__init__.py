"""Documents of several kinds, turned into text: plain text, Markdown, HTML, PDF. What can't be read is told by name."""
