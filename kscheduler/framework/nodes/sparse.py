"""Images and host ports: sparse facts, looked up by name instead of by column.

A pod names a handful of images and ports and the table has thousands of rows, so both tables return row numbers.
"""

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import ContainerImage
from kscheduler.framework.pods.pod_info import ALL_INTERFACES, HostPort

_NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class ImageState:
    """An image name and the rows that hold it.

    A node holds dozens of images under several names each, so a row takes four bytes here; a dict takes fifteen times
    as much. A row that no longer holds the image is only marked: mostly it is the node's next version that says so.
    """

    __slots__ = ("_array", "_gone", "_rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes, as reported by the first node with the name (upstream records the size once)."""
        self._rows = array("i")
        """In the order in which they reported the image, with those that are gone."""
        self._gone: set[int] | None = None
        self._array: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self._rows) - (0 if self._gone is None else len(self._gone))

    def array(self) -> NDArray[np.intp]:
        """The rows as an intp array, in the order in which they reported the image. Shared: do not write."""
        if self._array is None:
            self._compact()
            self._array = np.array(self._rows, dtype=np.intp)
        return self._array

    def add(self, row: int) -> None:
        """Record that a row, which did not, reports the image."""
        self._array = None
        if self._gone is not None and row in self._gone:
            self._gone.remove(row)
        else:
            self._rows.append(row)

    def remove(self, row: int) -> None:
        """Record that a row, which did, no longer reports the image."""
        self._array = None
        if self._gone is None:
            self._gone = set()
        self._gone.add(row)
        if len(self._gone) > 1 + len(self._rows) // 2:
            self._compact()

    def discard(self, row: int) -> None:
        """The same for a row that may not report it. Looks at every row."""
        if row in self._rows and (self._gone is None or row not in self._gone):
            self.remove(row)

    def _compact(self) -> None:
        gone, self._gone = self._gone, None
        if gone:
            self._rows = array("i", [row for row in self._rows if row not in gone])


class ImageStates:
    """Images by name."""

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        self.changes = 0
        """The number of changes so far: images that a row reports or no longer reports."""

    def get(self, name: str) -> ImageState | None:
        """The state of a (normalised) image name; `None` if no node has it."""
        return self._states.get(name)

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Record that a row's node, which reported none, reports these images."""
        for name, size in _sizes(images).items():
            state = self._states.get(name)
            if state is None:
                state = self._states[name] = ImageState(size)
            state.add(row)
            self.changes += 1

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        """Record that a row's node no longer reports these images, which are all that it has reported."""
        for name in _sizes(images):
            state = self._states.get(name)
            if state is not None:
                state.remove(row)
                self.changes += 1
                if not len(state):
                    del self._states[name]

    def clear(self, row: int) -> None:
        """Remove all images of the row. Looks at every image: for repairs."""
        self.changes += 1
        for name, state in list(self._states.items()):
            state.discard(row)
            if not len(state):
                del self._states[name]


def _sizes(images: Iterable[ContainerImage]) -> dict[str, int]:
    """The size by name; of several images with one name, the first one's."""
    sizes: dict[str, int] = {}
    for image in images:
        for name in image.names:
            sizes.setdefault(name, image.size_bytes)
    return sizes


class PortStates:
    """Host ports in use, by (protocol, port): for each row the addresses and how many pods use them."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[int, dict[str, int]]] = {}
        self.shared_rows: dict[int, None] = {}
        """Rows where a pod was added to a port that was in use there, on whatever address; `take_shared` empties it."""

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Count the ports of a pod on the row."""
        for protocol, port, address in ports:
            rows = self._used.setdefault((protocol, port), {})
            addresses = rows.get(row)
            if addresses is None:
                addresses = rows[row] = {}
            else:
                self.shared_rows[row] = None
            addresses[address] = addresses.get(address, 0) + 1

    def take_shared(self) -> list[int]:
        """The rows of `shared_rows`, then empty: for the search for claims that exclude each other."""
        rows = list(self.shared_rows)
        self.shared_rows.clear()
        return rows

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Stop counting the ports of a pod on the row."""
        for protocol, port, address in ports:
            rows = self._used[protocol, port]
            addresses = rows[row]
            addresses[address] = addresses.get(address, 0) - 1
            if not addresses[address]:
                del addresses[address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._used[protocol, port]

    def discard(self, row: int, ports: Iterable[HostPort]) -> None:
        """Free these ports on the row, however many pods use them: kube-scheduler's dry runs do not count users."""
        for protocol, port, address in ports:
            rows = self._used.get((protocol, port), {})
            addresses = rows.get(row)
            if addresses is not None:
                addresses.pop(address, None)
                if not addresses:
                    del rows[row]

    def clear(self, row: int) -> None:
        """Free all ports on the row. Looks at every port: for repairs."""
        for key, rows in list(self._used.items()):
            rows.pop(row, None)
            if not rows:
                del self._used[key]

    def fork(self, touched: Iterable[HostPort]) -> "PortStates":
        """A copy in which these ports can be added and removed without touching this one; all others are shared."""
        forked = PortStates()
        forked._used = dict(self._used)
        for protocol, port, _ in touched:
            rows = self._used.get((protocol, port))
            if rows is not None:
                forked._used[protocol, port] = {row: dict(addresses) for row, addresses in rows.items()}
        return forked

    def conflicting_rows(self, ports: Iterable[HostPort]) -> set[int]:
        """Rows where a port is in use: same protocol and port, and an equal address or all interfaces."""
        return {
            row
            for protocol, port, address in ports
            for row, addresses in self._used.get((protocol, port), {}).items()
            if address == ALL_INTERFACES or address in addresses or ALL_INTERFACES in addresses
        }
