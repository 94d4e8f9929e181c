"""networkx, loaded when first used: many commands build their graphs from arrays and start without it."""

from __future__ import annotations

from typing import Any


class _Networkx:
    """The names of networkx."""

    def __getattr__(self, name: str) -> Any:
        import networkx

        return getattr(networkx, name)


nx = _Networkx()
