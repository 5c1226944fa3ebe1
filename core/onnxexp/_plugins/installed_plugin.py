"""An installed plugin, as the metadata of its distribution describes it."""

from __future__ import annotations

import dataclasses
from typing import Any

from importlib_metadata import EntryPoint

from onnxexp._request.config import TARGETS


@dataclasses.dataclass(frozen=True)
class InstalledPlugin:
    """An installed plugin, with the place and version of its distribution.

    Attributes:
        own: Whether it is this project's; that does not depend on names alone.
        twins: The folders with the metadata of other distributions of the same name.
    """

    name: str
    value: str
    distribution: str
    version: str
    location: str
    point: EntryPoint = dataclasses.field(repr=False, compare=False)
    own: bool = False
    twins: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        return f"{self.distribution} {self.version}"

    @property
    def is_target(self) -> bool:
        return self.name.partition("-")[0] in TARGETS

    @property
    def metadata(self) -> Any:
        """The plugin's distribution, as importlib_metadata found it."""
        return self.point.dist
