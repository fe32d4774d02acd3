"""Environments of other Python packages. The packages are installed beside Sandlot and imported only where they are used."""
