"""One file per command: options, one library call, one view."""
