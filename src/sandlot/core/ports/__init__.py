"""The Protocols between parts, one file per part."""
