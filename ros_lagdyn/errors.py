# SPDX-License-Identifier: Apache-2.0
"""Every error that ros_lagdyn raises on purpose: catching LagdynError catches them all."""

from __future__ import annotations

MOST_SHOWN = 200  # characters of a text from outside


def shown(text: str) -> str:
    """Return a text from outside as one short line that can be printed."""
    short = text[:MOST_SHOWN]
    return short if short.isprintable() else short.encode('unicode_escape').decode('ascii')


class LagdynError(Exception):
    """Base of the package's own errors; its text is one sentence fit for a user."""


class UrdfError(LagdynError):
    """The URDF cannot be read, or what it says is not a possible mechanism."""


class UnsupportedJointError(UrdfError):
    """The URDF is valid, but has a joint type that no engine here computes."""

    def __init__(self, joint: str, kind: str, supported: tuple[str, ...]) -> None:
        """Name the joint, its type and the types that would be right."""
        self.joint = joint
        self.kind = kind
        super().__init__(
            f'joint "{joint}": type "{kind}" is not supported, use one of {", ".join(supported)}'
        )


class UnrecognisedMechanismError(LagdynError):
    """No textbook formula fits the joints of this arm."""


class AssumptionError(UnrecognisedMechanismError):
    """The arm looks like a textbook mechanism, but breaks an assumption of its formula."""

    def __init__(self, *, mechanism: str, part: str, assumption: str, found: str) -> None:
        """Name the formula, the link or joint, what it must satisfy and the number found."""
        self.mechanism = mechanism
        self.part = part
        self.assumption = assumption
        self.found = found
        super().__init__(f'{part}: the formula "{mechanism}" assumes {assumption}, got {found}')


class InvalidArgumentError(LagdynError, ValueError):
    """A function was called with a value it cannot take, such as a vector of wrong length."""


class UnknownNameError(LagdynError, LookupError):
    """A joint, frame, engine or shipped arm was asked for that does not exist."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        """Say what was asked for and what there is."""
        self.kind = kind
        self.name = name
        self.known = known
        super().__init__(f'unknown {kind} "{shown(name)}", known are: {", ".join(known)}')


class SingularCoordinatesError(LagdynError):
    """J of dp = J dq has lost rank: the coordinates p do not determine the motion there."""

    def __init__(self, *, state: int, reciprocal_condition: float) -> None:
        """Say at which state of the batch, and how singular J is there."""
        self.state = state
        self.reciprocal_condition = reciprocal_condition
        super().__init__(
            f'coordinates: J is singular at state {state}: its smallest singular value is '
            f'{reciprocal_condition:.1e} times its largest')


class SingularMassMatrixError(LagdynError):
    """The mass matrix has lost rank: no finite torque gives an acceleration there."""

    def __init__(self, *, state: int | None, reciprocal_condition: float, least: float) -> None:
        """Say which state of a batch it was, and how singular M is there."""
        self.state = state
        self.reciprocal_condition = reciprocal_condition
        where = '' if state is None else f' at state {state} of the batch'
        super().__init__(
            f'forward dynamics: the mass matrix is singular{where}: its reciprocal condition is '
            f'{reciprocal_condition:.1e}, at least {least:.0e} is needed'
        )
