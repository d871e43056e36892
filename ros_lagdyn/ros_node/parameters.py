# SPDX-License-Identifier: Apache-2.0
"""Parameters as data: each declared with its type, description and range, checked on every set."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterTypeException
from rclpy.node import Node
from rclpy.parameter import Parameter

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

    @property
    def says_off(self) -> bool:
        """Say whether `off` is a choice, which YAML, and so ROS's tools, read as false."""
        return OFF in self.choices

    def read(self, value: Any) -> Any:
        """Return a value as it was meant: arrays as lists, YAML's off as the word."""
        if self.says_off and value is False:
            return OFF
        # rclpy makes several kinds of arrays.
        return list(value) if isinstance(value, (array, tuple)) else value

    def refusal(self, value: Any) -> str | None:
        """Return why a value of the right type cannot be taken, or None if it can."""
        entries = list(value) if self.entries else [value]
        if self.choices and any(entry not in self.choices for entry in entries):
            return f'{self.name} must be {self.allowed}, got "{value}"'
        if self.length is not None and len(entries) != self.length:
            return f'{self.name} must be {self.length} numbers, got {len(entries)}'
        for entry in entries:
            if isinstance(entry, (int, float)) and not isinstance(entry, bool) and not (
                    isfinite(entry) and self.minimum <= entry <= self.maximum):
                return f'{self.name} must be finite {self.allowed}'.rstrip() + f', got {entry}'
        return None

    def descriptor(self) -> ParameterDescriptor:
        """Return what `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(
            description=self.description, read_only=self.read_only,
            additional_constraints=self.allowed, dynamic_typing=self.says_off)
        # Ranges are for single numbers. ROS refuses what is outside, before `refusal` is asked.
        if self.entries is None and (self.minimum, self.maximum) != (-inf, inf):
            if isinstance(self.default, float):
                descriptor.floating_point_range = [FloatingPointRange(
                    from_value=max(self.minimum, -1e308), to_value=min(self.maximum, 1e308))]
            else:
                descriptor.integer_range = [IntegerRange(
                    from_value=int(self.minimum), to_value=int(min(self.maximum, 2**62)))]
        return descriptor


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
        for spec in self._specs.values():
            self._declare(spec)
        self._values = {name: spec.read(node.get_parameter(name).value)
                        for name, spec in self._specs.items()}
        for name, value in self._values.items():
            self._require(self._specs[name].refusal(value))
        self.accept: Callable[[Values], None] = lambda values: None
        node.add_on_set_parameters_callback(self._on_set)
        if hasattr(node, 'add_pre_set_parameters_callback'):  # not in Humble
            node.add_pre_set_parameters_callback(self._as_meant)

    @property
    def values(self) -> Values:
        """The values in force, by name."""
        return self._values

    def _declare(self, spec: ParameterSpec) -> None:
        try:
            declared = self._node.declare_parameter(spec.name, spec.type, spec.descriptor()) \
                if spec.entries else self._node.declare_parameter(
                    spec.name, spec.default, spec.descriptor())
        except InvalidParameterTypeException as error:
            raise InvalidArgumentError(f'parameter {error}') from None
        except Exception as error:  # rclpy raises several kinds for a value out of range
            raise InvalidArgumentError(f'parameter {spec.name}: {error}') from None
        if declared.type_ == Parameter.Type.NOT_SET:
            self._node.set_parameters([Parameter(spec.name, spec.type, list(spec.default))])
        elif spec.says_off:
            self._node.set_parameters(self._as_meant([declared]))

    def _as_meant(self, parameters: list[Parameter]) -> list[Parameter]:
        """Return parameters with YAML's false as the word off, so that it is stored as such."""
        return [
            Parameter(parameter.name, Parameter.Type.STRING, OFF)
            if parameter.value is False and parameter.name in self._specs
            and self._specs[parameter.name].says_off else parameter
            for parameter in parameters]

    @staticmethod
    def _require(refusal: str | None) -> None:
        if refusal is not None:
            raise InvalidArgumentError(f'parameter {refusal}')

    def _on_set(self, parameters: list[Parameter]) -> SetParametersResult:
        ours = {parameter.name: self._specs[parameter.name].read(parameter.value)
                for parameter in parameters
                if parameter.name in self._specs}
        if not ours:
            return SetParametersResult(successful=True)
        try:
            for name, value in ours.items():
                self._require(self._specs[name].refusal(value))
            values = {**self._values, **ours}
            self.accept(values)
        except LagdynError as error:
            return SetParametersResult(successful=False, reason=str(error))
        self._values = values
        return SetParametersResult(successful=True)

