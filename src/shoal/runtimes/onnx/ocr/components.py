"""Connected parts of a mask, and the smallest rectangle around each. In numpy.

Parts are found by runs of each row; pixels that touch at a corner are connected. Of a part only the
ends of its runs matter for the rectangle, which lies on an edge of their convex hull (Freeman and
Shapira, 1975).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def parts(mask: NDArray[np.bool_]) -> list[Points]:
    """The ends of the runs of each part, [n, 2] as x and y; parts from the top."""
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1]  # behind the last pixel
    if not len(rows):
        return []
    labels = _joined(rows, starts, ends, mask.shape[1])
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    return [
        np.concatenate(
            [np.stack([starts[own], rows[own]], 1), np.stack([ends[own] - 1, rows[own]], 1)]
        ).astype(np.float64)
        for own in np.split(order, cuts)
    ]


def _joined(
    rows: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64], width: int
) -> NDArray[np.int64]:
    """Of each run, the first run of its part."""
    # As one line of all rows, two apart so that no row touches the next.
    step = width + 2
    first = np.searchsorted(rows * step + ends, (rows - 1) * step + starts, "left")
    last = np.searchsorted(rows * step + starts, (rows - 1) * step + ends, "right")
    counts = np.maximum(last - first, 0)
    lower = np.arange(len(rows)).repeat(counts)
    upper = (
        first.repeat(counts) + np.arange(counts.sum()) - (counts.cumsum() - counts).repeat(counts)
    )
    labels = np.arange(len(rows))
    while True:  # each round at least halves the way to the first run
        least = labels.copy()
        np.minimum.at(least, lower, labels[upper])
        np.minimum.at(least, upper, labels[lower])
        np.minimum.at(least, labels, least)
        least = least[least]
        if np.array_equal(least, labels):
            return labels
        labels = least


def smallest_rectangle(points: Points) -> tuple[Points, float, float]:
    """Corners [4, 2] in turn, the length of the first edge and of the second."""
    hull = _hull(points)
    edges = np.roll(hull, -1, 0) - hull
    lengths = np.hypot(*edges.T)
    along = edges[lengths > 0] / lengths[lengths > 0, None]
    if not len(along):
        return hull[[0, 0, 0, 0]], 0.0, 0.0
    across = np.stack([-along[:, 1], along[:, 0]], 1)
    u, v = hull @ along.T, hull @ across.T
    sizes = np.ptp(u, 0), np.ptp(v, 0)
    best = int((sizes[0] * sizes[1]).argmin())
    u, v = u[:, best], v[:, best]
    corners = np.array(
        [[u.min(), v.min()], [u.max(), v.min()], [u.max(), v.max()], [u.min(), v.max()]]
    )
    return corners @ np.stack([along[best], across[best]]), sizes[0][best], sizes[1][best]


def _hull(points: Points) -> Points:
    """The convex hull in turn (Andrew, 1979)."""
    ordered = sorted(set(map(tuple, points.tolist())))
    if len(ordered) < 3:
        return np.array(ordered)
    halves: list[list[tuple[float, ...]]] = []
    for walk in (ordered, ordered[::-1]):
        half: list[tuple[float, ...]] = []
        for point in walk:
            while len(half) > 1 and _turn(half[-2], half[-1], point) <= 0:
                half.pop()
            half.append(point)
        halves.append(half[:-1])
    return np.array(halves[0] + halves[1])


def _turn(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
