"""Files behind URLs: through fsspec where it is installed, else HTTP's ranges. Only what is asked for is fetched."""

from __future__ import annotations

import importlib
import io
import urllib.request
from typing import Any

_BLOCK = 1 << 20
_MOST_BLOCKS = 64


def open_url(url: str) -> Any:
    """A file object that can seek."""
    if url.startswith("file://"):
        return open(urllib.request.url2pathname(url[len("file://") :]), "rb")
    if url.startswith(("http://", "https://")):
        return io.BufferedReader(HttpFile(url), _BLOCK)
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        raise OSError(f"{url}: install fsspec to open URLs of this kind") from None
    return fsspec.open(url, "rb").open()


class HttpFile(io.RawIOBase):
    """Reads a URL in blocks, of which the latest are kept. A server that has no ranges is read once, as a whole."""

    def __init__(self, url: str, timeout: float = 60) -> None:
        super().__init__()
        self.name = url
        self._url = url
        self._timeout = timeout
        self._position = 0
        self._blocks: dict[int, bytes] = {}
        self._whole: bytes | None = None
        self._size = self._find_size()

    def _request(self, first: int, last: int) -> Any:
        request = urllib.request.Request(self._url, headers={"Range": f"bytes={first}-{last}"})
        return urllib.request.urlopen(request, timeout=self._timeout)

    def _find_size(self) -> int:
        with self._request(0, _BLOCK - 1) as answer:
            data: bytes = answer.read()
            where: str | None = answer.headers.get("Content-Range")
        if where is None or answer.status != 206:
            self._whole = data
            return len(data)
        self._blocks[0] = data
        size = where.rpartition("/")[2]
        if not size.isdigit():
            raise OSError(f"{self._url}: the server does not say how large the file is")
        return int(size)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * _BLOCK
            last = min(first + _BLOCK, self._size) - 1
            with self._request(first, last) as answer:
                data: bytes = answer.read()
            if len(data) != last - first + 1:
                raise OSError(f"{self._url}: the server gave {len(data)} bytes instead of {last - first + 1}")
            while len(self._blocks) >= _MOST_BLOCKS:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[number] = data
        return self._blocks[number]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._position, self._size)[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._position >= self._size:
            return 0
        if self._whole is not None:
            data = self._whole[self._position : self._position + len(view)]
        else:
            number, begin = divmod(self._position, _BLOCK)
            data = self._block(number)[begin : begin + len(view)]
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
