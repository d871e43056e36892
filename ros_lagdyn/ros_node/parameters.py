# SPDX-License-Identifier: Apache-2.0
"""Parameters as data: each declared with its type, description and range, checked on every set."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from ros_lagdyn.dynamics import in_one_line
from ros_lagdyn.errors import InvalidArgumentError, LagdynError

Values = Mapping[str, Any]  # by parameter name
OFF = 'off'

_TYPES = {
    bool: Parameter.Type.BOOL,
    int: Parameter.Type.INTEGER,
    float: Parameter.Type.DOUBLE,
    str: Parameter.Type.STRING,
}
# Arrays are declared by the type of their entries: an empty default has none to look at.
_ARRAY_TYPES = {float: Parameter.Type.DOUBLE_ARRAY, str: Parameter.Type.STRING_ARRAY}


@dataclass(frozen=True, kw_only=True)
class ParameterSpec:
    """One parameter: what it means and which values it takes."""

    name: str
    default: Any
    description: str
    entries: type | None = None  # of an array: float or str
    minimum: float = -inf
    maximum: float = inf
    choices: tuple[str, ...] = ()
    length: int | None = None  # of an array; None for any
    read_only: bool = False  # cannot change after the start

    @property
    def type(self) -> Parameter.Type:
        """ROS's type of the parameter."""
        return _ARRAY_TYPES[self.entries] if self.entries else _TYPES[type(self.default)]

    @property
    def allowed(self) -> str:
        """Which values it takes, in words; empty where its type says it all."""
        if self.choices:
            return 'one of ' + ', '.join(self.choices)
        bounds = []
        if self.minimum != -inf:
            bounds.append(f'at least {self.minimum:g}')
        if self.maximum != inf:
            bounds.append(f'at most {self.maximum:g}')
        if self.length is not None:
            bounds.insert(0, f'{self.length} numbers')
        return ', '.join(bounds)

    def read(self, value: Any) -> Any:
        """Return a value as it was meant, in the type of the parameter; arrays as lists.

        ROS's tools guess types from YAML, which reads 1 as an integer, off as false, 1e-9 as text
        and has one empty list for all types.

        Raises:
            InvalidArgumentError: it is of another type.
        """
        if self.entries:
            if isinstance(value, str):  # as ROS's tools hand on [0, 0, 9.81]: mixed types
                with suppress(ValueError):
                    value = json.loads(value)
            if isinstance(value, (array, list, tuple)):
                entries = [_as(self.entries, entry) for entry in value]
                if None not in entries:
                    return entries
        elif OFF in self.choices and value is False:
            return OFF
        elif (meant := _as(type(self.default), value)) is not None:
            return meant
        kind = self.type.name.lower().replace('_array', '[]')
        raise InvalidArgumentError(
            f'parameter {self.name} must be of type {kind}, got {in_one_line(value)}')

    def refusal(self, value: Any) -> str | None:
        """Return why a value of the right type cannot be taken, or None if it can."""
        entries = list(value) if self.entries else [value]
        if self.choices and any(entry not in self.choices for entry in entries):
            return f'{self.name} must be {self.allowed}, got {in_one_line(value)}'
        if self.length is not None and len(entries) != self.length:
            return f'{self.name} must be {self.length} numbers, got {len(entries)}'
        for entry in entries:
            if isinstance(entry, (int, float)) and not isinstance(entry, bool) and not (
                    isfinite(entry) and self.minimum <= entry <= self.maximum):
                return f'{self.name} must be finite, {self.allowed}, got {entry}'
        return None

    def descriptor(self) -> ParameterDescriptor:
        """Return what `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(
            description=self.description, read_only=self.read_only,
            additional_constraints=self.allowed,
            dynamic_typing=True)  # read() decides about types
        # Ranges are for single numbers. ROS refuses what is outside, before `refusal` is asked.
        if self.entries is None and (self.minimum, self.maximum) != (-inf, inf):
            if isinstance(self.default, float):
                descriptor.floating_point_range = [FloatingPointRange(
                    from_value=max(self.minimum, -1e308), to_value=min(self.maximum, 1e308))]
            else:
                descriptor.integer_range = [IntegerRange(
                    from_value=int(self.minimum), to_value=int(min(self.maximum, 2**62)))]
        return descriptor


def _as(kind: type, value: Any) -> Any:
    """Return a value as bool, int, float or str; None where it is something else."""
    if kind is float and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    return value if type(value) is kind else None


class Parameters:
    """The parameters of a node, declared and kept valid.

    `accept` is called with the full set of values whenever some of them are to change. It raises
    a LagdynError to refuse the change; then every old value stays in force.
    """

    def __init__(self, node: Node, specs: Iterable[ParameterSpec]) -> None:
        """Declare all parameters on a node.

        Raises:
            InvalidArgumentError: a value given at the start has the wrong type or is refused.
        """
        self._node = node
        self._specs = {spec.name: spec for spec in specs}
        self._values = {name: self._declare(spec) for name, spec in self._specs.items()}
        self.accept: Callable[[Values], None] = lambda values: None
        node.add_on_set_parameters_callback(self._on_set)
        if hasattr(node, 'add_pre_set_parameters_callback'):  # not in Humble
            node.add_pre_set_parameters_callback(self._as_meant)

    @property
    def values(self) -> Values:
        """The values in force, by name."""
        return self._values

    def _declare(self, spec: ParameterSpec) -> Any:
        """Declare one parameter and return the value in force."""
        try:
            # The type of an empty array could not be seen: such a default is set afterwards.
            declared = self._node.declare_parameter(
                spec.name, None if spec.entries else spec.default, spec.descriptor())
        except Exception as error:  # rclpy raises several kinds for a value out of range
            raise InvalidArgumentError(f'parameter {spec.name}: {error}') from None
        value = spec.default
        if declared.type_ != Parameter.Type.NOT_SET:
            value = spec.read(declared.value)
        self._require(spec.refusal(value))
        if declared.type_ != spec.type:
            self._node.set_parameters([Parameter(spec.name, spec.type, value)])
        return value

    def _as_meant(self, parameters: list[Parameter]) -> list[Parameter]:
        """Return parameters in their types, so that they are stored as such."""
        return [self._converted(parameter) for parameter in parameters]

    def _converted(self, parameter: Parameter) -> Parameter:
        spec = self._specs.get(parameter.name)
        if spec is None or spec.type == parameter.type_:
            return parameter
        try:
            return Parameter(spec.name, spec.type, spec.read(parameter.value))
        except InvalidArgumentError:
            return parameter  # refused when it is set

    @staticmethod
    def _require(refusal: str | None) -> None:
        if refusal is not None:
            raise InvalidArgumentError(f'parameter {refusal}')

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        ours = {parameter.name: parameter.value for parameter in parameters
                if parameter.name in self._specs}
        if not ours:
            return SetParametersResult(successful=True)
        try:
            ours = {name: self._specs[name].read(value) for name, value in ours.items()}
            for name, value in ours.items():
                self._require(self._specs[name].refusal(value))
            values = {**self._values, **ours}
            self.accept(values)
        except LagdynError as error:
            for name in ours:  # rclpy has noted the type of what is refused now
                if not self._specs[name].read_only:
                    self._node.set_descriptor(name, self._specs[name].descriptor())
            return SetParametersResult(successful=False, reason=str(error))
        self._values = values
        return SetParametersResult(successful=True)

