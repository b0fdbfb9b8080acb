"""What a run leaves on the disk: its folder of files, and that folder's git history."""
