"""Bytes that somebody else wrote, parsed in processes of their own: bounded in memory and processor time, with a deadline."""
