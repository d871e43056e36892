# SPDX-License-Identifier: Apache-2.0
"""What a closed form is: textbook expressions, written once for numbers, arrays and symbols.

A formula computes with whatever it is given. Floats with `math` give one state in microseconds,
columns of N numbers with `numpy` give a batch, SymPy symbols with `sympy` give the expression
itself, which is how the tests prove it.
"""

from __future__ import annotations

from typing import Any, Protocol

Column = Any  # a float, an array of shape (N,), or a SymPy expression
Vector = tuple[Column, ...]
Matrix = tuple[Vector, ...]


class Trig(Protocol):
    """The modules math, numpy or sympy."""

    @property
    def cos(self) -> Any:
        """Cosine of an angle in rad."""

    @property
    def sin(self) -> Any:
        """Sine of an angle in rad."""


class Formula(Protocol):
    """The terms of one mechanism, in the coordinates and symbols of its document."""

    @property
    def stem(self) -> str:
        """Name of the mechanism, as in urdf/<stem>.urdf."""

    def mass_matrix(self, q: Vector, trig: Trig) -> Matrix:
        """Return the rows of M."""

    def coriolis_matrix(self, q: Vector, v: Vector, trig: Trig) -> Matrix:
        """Return the rows of C, from Christoffel symbols."""

    def gravity(self, q: Vector, trig: Trig) -> Vector:
        """Return g."""

    def potential_energy(self, q: Vector, trig: Trig) -> Column:
        """Return U, up to a constant."""
