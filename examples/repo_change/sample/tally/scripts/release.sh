#!/bin/sh
set -e
python -m build
