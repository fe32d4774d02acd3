"""Tool calls as models write them: read from text and JSON, and written again. Chat endpoints and renderers share it."""
