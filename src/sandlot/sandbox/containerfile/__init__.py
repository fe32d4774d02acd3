"""Builds images from Containerfiles (Dockerfiles) without a daemon: parsed here, run in a sandbox, stored as a layer."""
