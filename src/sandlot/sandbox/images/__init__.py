"""Images: the read-only files a sandbox starts from, without a daemon or a registry.

Read `spec.py` first: how images are named. `host.py`, `folder.py`, `archive.py` and `debian.py` are the kinds of images;
`store.py` keeps what they make. `tar.py` and `unpack.py` read archives that may be malicious.
"""
