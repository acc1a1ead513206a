"""What a compact machine stores, and how many bytes that takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kernlet.quantization import FORMATS, QuantizedExpansion

#: Formats of centers, coefficients and projection that a name stands for.
STORAGE = {
    "float32": ("float32", "float32", "float32"),
    "float16": ("float16", "float16", "float16"),
    "int8": ("int8", "int8", "int8"),
    "int4": ("int4", "int4", "int4"),
}
_RANKS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128)
_LARGEST_METRIC = 32  # features up to which a square matrix in front is tried
_SHARES = (0.03, 0.65)  # of the bytes that a projection should take
_MOST_RANKS = 5


@dataclass(frozen=True)
class Layout:
    """Sizes and formats of the tables of a compact machine.

    Parameters
    ----------
    n_features, n_outputs : int
    n_centers : int
    rank : int or None
        Of the projection; None without one.
    formats : tuple of str
        Of centers, coefficients and projection.
    width : {"shared", "per_center"}
    intercept_bytes : int
        Of each intercept: 4, or 8 where outputs are numbers that may lie far from 0.
    """

    n_features: int
    n_outputs: int
    n_centers: int
    rank: int | None = None
    formats: tuple[str, str, str] = STORAGE["float32"]
    width: str = "shared"
    intercept_bytes: int = 4

    @property
    def nbytes(self) -> int:
        """Bytes of everything stored.

        Examples
        --------
        >>> from kernlet.compact.plan import Layout
        >>> Layout(n_features=256, n_outputs=10, n_centers=100).nbytes
        106452
        """
        centers, coef, projection = (FORMATS[name] for name in self.formats)
        rank = self.n_features if self.rank is None else self.rank
        tables = centers.n_bytes(self.n_centers * rank) + coef.n_bytes(
            self.n_centers * self.n_outputs
        )
        if self.rank is not None:
            tables += projection.n_bytes(self.rank * self.n_features)
        widths = 4 * self.n_centers if self.width == "per_center" else 4
        return tables + widths + self.intercept_bytes * self.n_outputs + 8

    @property
    def levels(self) -> dict[str, int]:
        """The arrays that are rounded while they are trained, and their levels.

        Eight bits lose nothing when rounded after training.
        """
        names = ("centers", "weights", "projection")[: 2 if self.rank is None else 3]
        levels = {
            name: FORMATS[format].n_levels
            for name, format in zip(names, self.formats, strict=False)
        }
        return {name: n for name, n in levels.items() if n is not None and n < 127}

    def describe(self) -> str:
        """One line for people."""
        centers, coef, projection = self.formats
        front = (
            "no projection" if self.rank is None else f"projection to {self.rank} ({projection})"
        )
        return f"{self.n_centers} centers ({centers}), coefficients ({coef}), {front}"


def layout_of(machine: QuantizedExpansion, intercept_bytes: int = 4) -> Layout:
    """The layout of a machine.

    Parameters
    ----------
    machine : QuantizedExpansion
    intercept_bytes : int

    Returns
    -------
    layout : Layout
    """
    formats = machine.storage
    return Layout(
        machine.n_features,
        machine.n_outputs,
        machine.n_centers,
        machine.rank if "projection" in formats else None,
        (formats["centers"], formats["coef"], formats.get("projection", "float32")),
        "per_center" if len(machine.gamma) > 1 else "shared",
        intercept_bytes,
    )


def fill(layout: Layout, max_bytes: int, most: int) -> Layout | None:
    """The layout with as many centers as fit, at most ``most``; None where none fits.

    Parameters
    ----------
    layout : Layout
    max_bytes : int
    most : int

    Returns
    -------
    layout : Layout or None
    """
    fits, too_many = 0, most + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if replace(layout, n_centers=middle).nbytes <= max_bytes:
            fits = middle
        else:
            too_many = middle
    return replace(layout, n_centers=fits) if fits else None


def candidates(
    layout: Layout, max_bytes: int, most: int, storage: str, projection: object
) -> tuple[list[Layout], list[Layout]]:
    """Layouts that fill a number of bytes.

    Parameters
    ----------
    layout : Layout
        Sizes of the problem.
    max_bytes : int
    most : int
        The largest number of centers.
    storage : str
        A name in ``STORAGE``, or "auto".
    projection : None, int or "auto"

    Returns
    -------
    first : list of Layout
        One for each rank worth trying, without a projection first.
    second : list of Layout
        The same ranks in other formats.
    """
    first: list[Layout] = []
    second: list[Layout] = []
    for rank in _ranks(layout.n_features, max_bytes, projection):
        for number, formats in enumerate(_formats(storage, rank, layout.n_features)):
            filled = fill(replace(layout, rank=rank, formats=formats), max_bytes, most)
            if filled is not None:
                (second if number else first).append(filled)
    return first, second


def _ranks(n_features: int, max_bytes: int, projection: object) -> list[int | None]:
    """No projection, and a few ranks whose matrix takes a fair share of the bytes."""
    if projection != "auto":
        return [projection]  # type: ignore[list-item]
    format = FORMATS[_fronts(n_features)[0]]
    low, high = (share * max_bytes for share in _SHARES)
    ranks = [r for r in _RANKS if r < n_features and format.n_bytes(r * n_features) <= high]
    if n_features <= _LARGEST_METRIC and format.n_bytes(n_features**2) <= high:
        ranks.append(n_features)
    fair = [r for r in ranks if format.n_bytes(r * n_features) >= low] or ranks
    some = fair[-1 :: -max(1, -(-len(fair) // _MOST_RANKS))][::-1]
    return [None, *some]


def _fronts(n_features: int) -> tuple[str, str]:
    """Formats of a projection: three values where it is large, eight bits where it is small."""
    return ("int8", "int4") if n_features <= _LARGEST_METRIC else ("ternary", "int4")


def _formats(storage: str, rank: int | None, n_features: int) -> list[tuple[str, str, str]]:
    if storage != "auto":
        return [STORAGE[storage]]
    if rank is None:
        return [("int4", "int4", "int4"), ("int8", "int8", "int8"), ("int6", "int4", "int4")]
    usual, other = _fronts(n_features)
    return [("int4", "int4", usual), ("int6", "int4", usual), ("int4", "int4", other)]
