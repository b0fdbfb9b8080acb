"""One run as one file for a browser: the pages of the web UI, with what they would ask a server for beside them."""
