"""What a product shows when it is handed over: installed from its repository, its README followed, its service asked.

It runs by itself in the product's own environment (`bundle.py` packs it), on Linux, with the standard library, pip and setuptools
alone, and imports nothing of this package but itself. It knows no product: what it tries stands in the README, in the packaging
and in the pages themselves.
"""
