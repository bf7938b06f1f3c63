"""The compiled part of ballast."""

__version__: str

class FormatError(ValueError):
    code: str

class CancelledError(RuntimeError):
    code: str

class Buffer:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    @property
    def readonly(self) -> bool: ...
