# SPDX-License-Identifier: Apache-2.0
"""Turn a formula into straight-line code, once, when an arm is loaded.

A formula is read for its beauty, but called thousands of times a second. So it is run once on
symbols that write down what is done to them. What was written becomes a function of plain numbers:
parameters are constants in it, equal subexpressions are computed once, and terms that are zero for
this arm are gone. The same code serves one state (with math.cos) and a batch (with numpy.cos).
Only numbers and the names made up here ever enter that code.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np

from ros_lagdyn.closed_form.formula import Column, Matrix, Vector
from ros_lagdyn.closed_form.geometry import Recognised
from ros_lagdyn.dynamics import Terms

_NAME = re.compile(r'\bt\d+\b')


class Recorder:
    """Stands in for the module math: writes down a line for each new operation."""

    def __init__(self) -> None:
        """Start with no line."""
        self._names: dict[str, str] = {}  # by expression, in the order written

    def write(self, expression: str) -> Symbol:
        """Return the symbol of an expression, the same one if it was written before."""
        name = self._names.setdefault(expression, f't{len(self._names)}')
        return Symbol(self, name)

    def lines_for(self, results: str) -> tuple[list[str], str]:
        """Return the lines that lead to `results`, and `results` as they then read.

        What turned out useless is left out; what is used only once stands where it is used.
        """
        expressions = {name: expression for expression, name in self._names.items()}
        uses = Counter(_NAME.findall(results))
        for name, expression in reversed(expressions.items()):
            if uses[name]:
                uses.update(_NAME.findall(expression))

        def written_out(text: str) -> str:
            return _NAME.sub(lambda match: f'({written_out(expressions[match[0]])})'
                             if uses[match[0]] == 1 else match[0], text)

        lines = [f'{name} = {written_out(expression)}'
                 for name, expression in expressions.items() if uses[name] > 1]
        return lines, written_out(results)

    def cos(self, angle: Column) -> Column:
        """Write down a cosine."""
        return self.write(f'cos({angle})') if isinstance(angle, Symbol) else math.cos(angle)

    def sin(self, angle: Column) -> Column:
        """Write down a sine."""
        return self.write(f'sin({angle})') if isinstance(angle, Symbol) else math.sin(angle)


class Symbol:
    """A number that is not known yet; arithmetic with constants 0 and 1 simplifies."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        """Take a name in the recorder's code."""
        self._recorder = recorder
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __neg__(self) -> Symbol:
        return self._recorder.write(f'-{self}')

    def __add__(self, other: Column) -> Column:
        return self if _is(other, 0.0) else self._recorder.write(f'{self} + {_text(other)}')

    def __radd__(self, other: Column) -> Column:
        return self if _is(other, 0.0) else self._recorder.write(f'{_text(other)} + {self}')

    def __sub__(self, other: Column) -> Column:
        return self if _is(other, 0.0) else self._recorder.write(f'{self} - {_text(other)}')

    def __rsub__(self, other: Column) -> Column:
        return -self if _is(other, 0.0) else self._recorder.write(f'{_text(other)} - {self}')

    def __mul__(self, other: Column) -> Column:
        if _is(other, 0.0):
            return 0.0
        if _is(other, 1.0):
            return self
        if _is(other, -1.0):
            return -self
        return self._recorder.write(f'{self} * {_text(other)}')

    def __rmul__(self, other: Column) -> Column:
        return self * other

    def __pow__(self, power: int) -> Column:
        if not isinstance(power, int) or power < 1:
            raise TypeError(f'formulas use powers 1, 2, ... only, got {power!r}')
        product: Column = self
        for _ in range(power - 1):
            product = product * self
        return product


def _is(value: Column, number: float) -> bool:
    return not isinstance(value, Symbol) and float(value) == number


def _text(value: Column) -> str:
    return str(value) if isinstance(value, Symbol) else repr(float(value))


@dataclass(frozen=True, kw_only=True)
class CompiledTerm:
    """One term of the equation of motion as code."""

    # On columns: takes n arrays (N,) per vector, returns the entries as a flat tuple.
    columns: Callable[..., Vector]
    # Makes the function for one state: takes vectors (n,), returns a new array. Anything that is
    # not an array of n finite numbers goes to the general function that it is made with.
    single: Callable[[Callable[..., Any]], Callable[..., Any]]


class CompiledFormula:
    """A recognised formula in joint positions, velocities and accelerations."""

    def __init__(self, recognised: Recognised) -> None:
        """Run the formula on symbols."""
        self._recognised = recognised
        n = self._n = len(recognised.sign)
        M, C, g = self._M, self._C, self._g
        self.mass_matrix = self._compile('q', (n, n), lambda q, trig: _flat(M(q, trig)))
        self.coriolis_matrix = self._compile(
            'qv', (n, n), lambda q, v, trig: _flat(C(q, v, trig)))
        self.gravity = self._compile('q', (n,), g)
        self.potential_energy = self._compile('q', (1,), lambda q, trig: (self._U(q, trig),))
        self.inverse_dynamics = self._compile('qva', (n,), lambda q, v, a, trig: tuple(
            sum(m * x for m, x in zip(M_row, a, strict=True))
            + sum(c * x for c, x in zip(C_row, v, strict=True)) + g_i
            for M_row, C_row, g_i in zip(M(q, trig), C(q, v, trig), g(q, trig), strict=True)))
        # M, C and g behind each other in one array; the rest of its third matrix stays unused.
        self.terms = self._compile(
            'qv', (3, n, n),
            lambda q, v, trig: _flat(M(q, trig)) + _flat(C(q, v, trig)) + g(q, trig),
            result='new(Terms, (result[0], result[1], result[2, 0]))')

    # The formula's own coordinates are sign * q + phase, so the signs come back with each result.

    def _position(self, q: Sequence[Column]) -> Vector:
        found = self._recognised
        return tuple(x * sign + phase
                     for x, sign, phase in zip(q, found.sign, found.phase, strict=True))

    def _signed(self, vector: Sequence[Column]) -> Vector:
        return tuple(x * sign for x, sign in zip(vector, self._recognised.sign, strict=True))

    def _signed_matrix(self, rows: Matrix) -> Matrix:
        return tuple(tuple(x * sign for x in self._signed(row))
                     for row, sign in zip(rows, self._recognised.sign, strict=True))

    def _M(self, q: Vector, trig: Any) -> Matrix:
        return self._signed_matrix(self._recognised.formula.mass_matrix(self._position(q), trig))

    def _C(self, q: Vector, v: Vector, trig: Any) -> Matrix:
        return self._signed_matrix(self._recognised.formula.coriolis_matrix(
            self._position(q), self._signed(v), trig))

    def _g(self, q: Vector, trig: Any) -> Vector:
        return self._signed(self._recognised.formula.gravity(self._position(q), trig))

    def _U(self, q: Vector, trig: Any) -> Column:
        return self._recognised.formula.potential_energy(self._position(q), trig)

    def _compile(self, vectors: str, shape: tuple[int, ...], formula: Callable[..., Vector],
                 result: str = 'result') -> CompiledTerm:
        recorder = Recorder()
        names = {vector: [f'{vector}{i}' for i in range(self._n)] for vector in vectors}
        numbers = [name for group in names.values() for name in group]
        entries = formula(
            *(tuple(Symbol(recorder, name) for name in group) for group in names.values()),
            recorder)
        listed = ', '.join(_text(entry) for entry in entries)
        lines, listed = recorder.lines_for(listed)
        columns = [f'def function({", ".join(numbers)}):', *lines, f'return ({listed},)']
        single = [
            f'def function({", ".join(vectors)}):',
            'try:',
            '    if q.ndim != 1: raise ValueError',  # a batch would be long to turn into a list
            *(f'    {", ".join(group)}, = {vector}.tolist()' for vector, group in names.items()),
            f'    if not isfinite({" + ".join(numbers)}): raise ValueError',
            'except (AttributeError, TypeError, ValueError):',
            f'    return general({", ".join(vectors)})',
            *lines, 'result = empty(shape)', f'pack(result, 0, {listed})',
            f'return {result}']
        namespace = {
            'cos': math.cos, 'sin': math.sin, 'isfinite': math.isfinite, 'empty': np.empty,
            'shape': shape, 'pack': Struct(f'{len(entries)}d').pack_into, 'new': tuple.__new__,
            'Terms': Terms}
        return CompiledTerm(
            columns=self._function(columns, {'cos': np.cos, 'sin': np.sin}),
            single=lambda general: self._function(single, {**namespace, 'general': general}))

    def _function(self, lines: list[str], namespace: dict[str, Any]) -> Callable[..., Any]:
        source = '\n    '.join(lines)
        exec(compile(source, f'<{self._recognised.formula.stem}>', 'exec'), namespace)
        function: Callable[..., Any] = namespace['function']
        return function


def _flat(rows: Matrix) -> Vector:
    return tuple(entry for row in rows for entry in row)
