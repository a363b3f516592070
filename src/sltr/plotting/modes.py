"""What every picture of a coefficient needs to know of it and its modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sltr.thumbnail import coef_array

__all__ = ["Modes", "coef_to_draw", "strongest_slice"]


@dataclass(frozen=True)
class Modes:
    """The names and units of a tensor's modes."""

    names: tuple[str, ...]
    units: tuple[str, ...]

    @classmethod
    def of(
        cls,
        order: int,
        names: Sequence[str] | None = None,
        units: Sequence[str | None] | None = None,
    ) -> Modes:
        """Check names and units for a tensor of `order`, or make plain ones.

        Examples
        --------
        >>> modes = Modes.of(2, ("channel", "time"), (None, "ms"))
        >>> modes.label(0), modes.label(1), modes.at(1, 3)
        ('channel', 'time (ms)', 'time 3')
        """
        for given, what in ((names, "mode_names"), (units, "units")):
            if given is not None and (isinstance(given, str) or len(given) != order):
                msg = f"{what}={given!r} was given; expected one for each of {order} "
                raise ValueError(msg + "modes.")
        return cls(
            tuple(map(str, names or [f"mode {m}" for m in range(order)])),
            tuple("" if unit is None else str(unit) for unit in units or [""] * order),
        )

    def label(self, mode: int) -> str:
        """Return the axis label of a mode."""
        unit = f" ({self.units[mode]})" if self.units[mode] else ""
        return self.names[mode] + unit

    def at(self, mode: int, index: int) -> str:
        """Return the title of a slice."""
        plain = self.names[mode] == f"mode {mode}"
        return f"{self.names[mode]}{':' if plain else ''} {index}"

    def index(self, mode: int | str) -> int:
        """Return the number of a mode given by number or name."""
        order = len(self.names)
        if isinstance(mode, str) and mode in self.names:
            return self.names.index(mode)
        if not isinstance(mode, str) and -order <= int(mode) < order:
            return int(mode) % order
        msg = f"mode {mode!r} was given; expected one of {', '.join(self.names)}, or "
        raise ValueError(msg + f"a number below {order}.")

    def indices(self, chosen: Mapping | None, shape: Sequence[int]) -> dict[int, Any]:
        """Return the chosen slices by mode number, checked against `shape`."""
        found = {}
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
            found[number] = [int(value) % size for value in values]
        return found


def coef_to_draw(coef: Any, target: int | None = None) -> np.ndarray:
    """Return an array, or the coefficient of a model, which has to be fitted."""
    if hasattr(coef, "fit") and not hasattr(coef, "coef_"):
        msg = (
            f"{type(coef).__name__} has no coef_; expected an array or a fitted linear "
            "model. Call fit first, or give the last step of a pipeline."
        )
        raise ValueError(msg)
    return coef_array(coef, target)


def strongest_slice(coef: np.ndarray, mode: int) -> int:
    """Return the slice of `mode` that holds the most of ‖coef‖²."""
    rest = tuple(m for m in range(coef.ndim) if m != mode)
    return int(np.argmax(np.sum(coef**2, axis=rest)))
