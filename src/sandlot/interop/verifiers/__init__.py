"""Environments of the package `verifiers`: theirs played here, and ours written as one of theirs."""
