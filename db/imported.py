"""How runs that were measured elsewhere are told from our own."""

from __future__ import annotations

# What started a run that is none of ours, and what its toolchain begins with, before a colon.
IMPORT_TRIGGER = "import"
IMPORTED_TOOLCHAIN = "imported"


def is_imported(toolchain: str) -> bool:
    """Return whether runs in `toolchain` are those of others, which nothing here can repeat."""
    return toolchain.startswith(f"{IMPORTED_TOOLCHAIN}:")
