"""What can be audited: our environments, and graders and environments written for other frameworks."""
