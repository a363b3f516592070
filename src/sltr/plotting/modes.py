"""What every picture of a coefficient needs to know of it and its modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sltr.coefficients import coef_array, target_name
from sltr.parameters import printable
from sltr.samples.labelled import Coords, labels_of, make_labels, mode_number


@dataclass(frozen=True, eq=False)
class Modes:
    """The names and units of a tensor's modes, and the coordinates of their slices."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    coords: tuple[np.ndarray | None, ...]  # of shape (p_m,); None: indices are shown

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        names: Sequence[str] | None = None,
        units: Sequence[str | None] | None = None,
        coords: Coords | None = None,
        model: Any = None,
    ) -> Modes:
        """Return what was said of the modes of a tensor, else what a model knows."""
        known = labels_of(model)
        if known is not None and len(known.names) == len(shape):
            names = known.names if names is None else names
            units = known.units if units is None else units
            coords = known.coords if coords is None else coords
        labels = make_labels(shape, names, units, coords)
        return cls(labels.names, labels.units, labels.coords)

    def label(self, mode: int) -> str:
        """Return the axis label of a mode; indices have no unit."""
        measured = self.units[mode] and self.coords[mode] is not None
        unit = f" ({self.units[mode]})" if measured else ""
        return plain(self.names[mode] + unit)

    def is_nominal(self, mode: int) -> bool:
        """Say whether the slices of a mode are named, and so have no order."""
        values = self.coords[mode]
        return values is not None and values.dtype.kind not in "iuf"

    def points_up(self, mode: int) -> bool:
        """Say whether a mode is a direction of space that grows upwards in pictures."""
        values = self.coords[mode]
        if values is None or self.is_nominal(mode) or self.names[mode] not in "yz":
            return False
        return bool(values[-1] > values[0])

    def at(self, mode: int, index: int) -> str:
        """Return the title of a slice: its coordinate, or its index if it has none."""
        colon = ":" if self.names[mode] == f"mode {mode}" else ""
        values = self.coords[mode]
        if values is None:
            return plain(f"{self.names[mode]}{colon} {index}")
        unit = f" {self.units[mode]}" if self.units[mode] else ""
        return plain(f"{self.names[mode]}{colon} {_text(values[index])}{unit}")

    def tick(self, axis: Any, mode: int, most: int = 6) -> None:
        """Show a mode's coordinates along a matplotlib axis that counts its slices.

        Round numbers lie where they belong among many slices that are evenly
        spaced; other numbers, and names, are those of slices.
        """
        values = self.coords[mode]
        if values is None:
            return
        # Names cannot be guessed from their neighbours.
        named = self.is_nominal(mode) and values.size <= 40
        places, shown = _ticks(values, values.size if named else most)
        texts = [plain(_text(value)) for value in shown]
        axis.set_ticks(places, labels=texts)
        if named and len(texts) > most + 2:
            axis.set_tick_params(
                labelsize=7, rotation=90 if axis.axis_name == "x" else 0
            )
        elif axis.axis_name == "x" and sum(map(len, texts)) > 30:
            axis.set_tick_params(rotation=45)

    def index(self, mode: int | str) -> int:
        """Return the number of a mode given by number or name."""
        return mode_number(mode, self.names)

    def indices(self, chosen: Mapping | None, shape: Sequence[int]) -> dict[int, Any]:
        """Return the chosen slices by mode number, checked against `shape`."""
        checked = {}
        for mode, index in (chosen or {}).items():
            number = self.index(mode)
            values = np.atleast_1d(np.asarray(index))
            size = shape[number]
            if values.dtype.kind not in "iu" or np.any(
                (values < -size) | (values >= size)
            ):
                msg = (
                    f"slices {index!r} of {self.names[number]} were given; expected "
                    f"whole numbers below {size}."
                )
                raise ValueError(msg)
            checked[number] = [int(value) % size for value in values]
        return checked


def drawn_coef(
    model: Any,
    target: Any = None,
    names: Sequence[str] | None = None,
    units: Sequence[str | None] | None = None,
    coords: Coords | None = None,
) -> tuple[np.ndarray, Modes, str]:
    """Return the coefficient of a model or array, its modes, and whose it is."""
    whose, coef = plain(target_name(model, target)), coef_array(model, target)
    return coef, Modes.of(coef.shape, names, units, coords, model), whose


def plain(name: str) -> str:
    r"""Return a name as matplotlib draws it letter by letter: no formulas, no controls.

    Examples
    --------
    >>> print(plain("US$ and $"))
    US\$ and \$
    """
    return printable(name).replace("$", r"\$")


def _text(value: Any) -> str:
    number = isinstance(value, int | float | np.number)
    return f"{value:.6g}".replace("-", "−") if number else str(value)


def _ticks(values: np.ndarray, most: int) -> tuple[Any, Any]:
    """Return where to write what: places among the slices, and values."""
    index = np.arange(values.size)
    if values.size <= most + 2:
        return index, values
    if is_even(values):
        from matplotlib.ticker import MaxNLocator

        order = np.argsort(values)
        low, high = values[order[0]], values[order[-1]]
        shown = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        # Adding zero makes −0 zero.
        shown = shown[(shown >= low) & (shown <= high)] + 0.0
        if shown.size > 1:
            return np.interp(shown, values[order], index[order]), shown
    some = index[:: -(-values.size // most)]
    return some, values[some]


def is_even(values: np.ndarray) -> bool:
    """Say whether coordinates are numbers in steps of about the same size."""
    if values.dtype.kind not in "iuf" or values.size < 2:
        return False
    steps = np.diff(values.astype(float)) * np.sign(
        float(values[-1]) - float(values[0])
    )
    return bool(np.min(steps) > 0.5 * np.max(steps))


def strongest_slice(coef: np.ndarray, mode: int) -> int:
    """Return the slice of `mode` that holds the most of ‖coef‖²."""
    rest = tuple(m for m in range(coef.ndim) if m != mode)
    return int(np.argmax(np.nansum(coef**2, axis=rest)))


def even_slices(coef: np.ndarray, mode: int, most: int) -> list[int]:
    """Return evenly spaced slices of a mode, the strongest in the nearest's place.

    Slices of nothing but NaN, outside a mask, are left out.
    """
    rest = tuple(m for m in range(coef.ndim) if m != mode)
    inside = np.flatnonzero(np.isfinite(coef).any(axis=rest))
    even = np.linspace(0, len(inside) - 1, min(len(inside), most)).round().astype(int)
    even = inside[even]
    strongest = strongest_slice(coef, mode)
    even[np.argmin(np.abs(even - strongest))] = strongest
    return even.tolist()
