"""Types that several modules name."""

from __future__ import annotations

import os
from typing import IO, Union

# What ``ballast.open`` takes.
Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, IO[bytes]]
