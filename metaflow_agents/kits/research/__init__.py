"""What the research report's SOP calls: documents read, passages chosen, quotations checked, the report put together and set."""
