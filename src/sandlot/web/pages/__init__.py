"""What each page shows, read from stored runs. Text is cleaned here, and escaped by the templates."""
