"""OneStream: a host whose launches go into one stream, so that no host lies between two ops."""

from __future__ import annotations

from typing import Any, cast

from kb_engine import Host


class OneStream:
    """Stands for *host* where ops launch kernels: each launch is a call of one stream. `n_launches` counts them."""

    def __init__(self, host: Host) -> None:
        self.n_launches = 0
        self._host = host
        self._stream = host.stream()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def launch(self, *arguments: Any, **options: Any) -> None:
        """Launches as `Host.launch` does, and returns at once."""
        self.n_launches += 1
        self._host.launch(*arguments, **options, stream=self._stream)

    @property
    def as_host(self) -> Host:
        """The object by the type that ops take. Ops use no other call whose order matters."""
        return cast(Host, self)
