"""Reports of an audit: HTML, Markdown, SARIF, JUnit and JSON."""
