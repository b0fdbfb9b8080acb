"""Quotations and citations in a report, checked word for word against their sources. Pure: text in, findings out."""
