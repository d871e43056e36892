# SPDX-License-Identifier: Apache-2.0
"""Messages prepared once and filled in place: nothing is built per joint state."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header, MultiArrayDimension

from ros_lagdyn.cross_check import Disagreement
from ros_lagdyn.rigid_body import Array
from ros_lagdyn.ros_node.diagnostics import status

# Best effort hears every publisher, reliable ones too.
INPUT_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
TERMS = tuple(field.name for field in fields(Disagreement))
LEVEL_NAMES = {
    DiagnosticStatus.OK: 'OK', DiagnosticStatus.WARN: 'WARN', DiagnosticStatus.ERROR: 'ERROR'}


class JointMessage:
    """A JointState with named joints whose efforts, and states if asked for, are filled in place.

    Attributes:
        message: what to publish.
        effort: view (n,) of its efforts; writing to it changes the message.
        position: view (n,) of its positions, of length 0 where it has none.
        velocity: view (n,) of its velocities, of length 0 where it has none.
    """

    def __init__(self, names: Sequence[str], header: Header, *, with_state: bool = False) -> None:
        """Take the names of the joints and a header that messages share."""
        self.message = JointState(name=list(names), header=header)
        states = len(names) if with_state else 0
        self.message.position = array('d', [0.0]) * states
        self.message.velocity = array('d', [0.0]) * states
        self.message.effort = array('d', [0.0]) * len(names)
        self.position: Array = np.frombuffer(self.message.position) if states else np.empty(0)
        self.velocity: Array = np.frombuffer(self.message.velocity) if states else np.empty(0)
        self.effort: Array = np.frombuffer(self.message.effort) if names else np.empty(0)


class ArrayMessage:
    """A Float64MultiArray that is filled in place, by rows.

    Attributes:
        message: what to publish.
        data: view of its numbers, in the shape that it was made with.
    """

    def __init__(self, **dimensions: Sequence[str]) -> None:
        """Take the names along each dimension, rows first; labels say all names."""
        shape = tuple(len(names) for names in dimensions.values())
        self.message = Float64MultiArray()
        self.message.data = array('d', [0.0]) * int(np.prod(shape))
        self.data: Array = np.frombuffer(self.message.data).reshape(shape)
        self.message.layout.dim = [
            MultiArrayDimension(
                label=f'{label}: {", ".join(names)}', size=len(names),
                stride=int(np.prod(shape[index:])))
            for index, (label, names) in enumerate(dimensions.items())]


class CrossCheckMessage:
    """A DiagnosticArray with the disagreement of each term as numbers.

    Attributes:
        message: what to publish.
    """

    def __init__(self, name: str, hardware_id: str, engines: tuple[str, str],
                 tolerances: tuple[float, float], header: Header) -> None:
        """Prepare the message.

        Args:
            name: of the status.
            hardware_id: name of the robot.
            engines: names of the two that are compared.
            tolerances: relative disagreement above which it is WARN, and above which ERROR.
            header: that messages share.
        """
        self._engines = engines
        self._warn, self._error = tolerances
        self._values = {term: KeyValue(key=term) for term in (*TERMS, 'worst')}
        self._constants = {
            'warn_tolerance': repr(self._warn), 'error_tolerance': repr(self._error),
            'engine': engines[0], 'check_engine': engines[1]}
        self._status = DiagnosticStatus(name=name, hardware_id=hardware_id, values=[
            *self._values.values(),
            *(KeyValue(key=key, value=value) for key, value in self._constants.items())])
        self.message = DiagnosticArray(header=header, status=[self._status])
        self._of_period: Disagreement | None = None
        self._worst_of_period = 0.0

    def fill(self, found: Disagreement) -> None:
        """Write the numbers and the level."""
        worst = found.worst
        for term in TERMS:
            self._values[term].value = repr(getattr(found, term))
        self._values['worst'].value = repr(worst)
        self._status.level, self._status.message = self._judge(worst)
        if self._of_period is None or worst > self._worst_of_period:
            self._of_period, self._worst_of_period = found, worst

    def take_over(self, before: CrossCheckMessage) -> None:
        """Begin with the last judgement of another one about the same engines."""
        self._status.level, self._status.message = before._status.level, before._status.message

    @property
    def is_error(self) -> bool:
        """Say whether the engines disagreed at the last comparison by more than they may."""
        return self._status.level == DiagnosticStatus.ERROR

    def _judge(self, worst: float) -> tuple[bytes, str]:
        both = f'{self._engines[0]} and {self._engines[1]}'
        if worst <= self._warn:
            return DiagnosticStatus.OK, f'{both} agree'
        level = DiagnosticStatus.WARN if worst <= self._error else DiagnosticStatus.ERROR
        return level, f'{both} disagree by {worst:.1e}'

    def report(self) -> DiagnosticStatus:
        """Return the worst since the last report as a status, and start the next period."""
        found, self._of_period = self._of_period, None
        level, text = DiagnosticStatus.OK, 'not compared in this period'
        values = self._constants
        if found is not None:
            level, text = self._judge(found.worst)
            values = {**{term: repr(getattr(found, term)) for term in TERMS}, **values}
        return status(self._status.name, self._status.hardware_id, level, text,
                      {'state': LEVEL_NAMES[level], **values})
