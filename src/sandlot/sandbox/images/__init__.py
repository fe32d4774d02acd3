"""Images: the read-only files a sandbox starts from, without a daemon or a registry.

Read `spec.py` first: how an image is named, and which kind answers. `host.py`, `folder.py`, `archive.py` and `debian.py` are the
kinds; `store.py` keeps what they make, by content. `tar.py` and `unpack.py` read archives as if an enemy had written them.
"""
