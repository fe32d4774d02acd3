"""An audit as HTML, Markdown, SARIF, JUnit and JSON."""
