# SPDX-License-Identifier: Apache-2.0
"""A bare rclpy node with the topics of dynamics_node: copies numbers and computes nothing.

Once a second it says on /diagnostics how many joint states it has received, as dynamics_node does.
Its messages are prepared once, as those of dynamics_node are, and received arrays are passed on
as they are: nobody could relay with less in rclpy.
Arguments: the names of the joints, separated by commas; then those of ROS.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header, MultiArrayDimension

from ros_lagdyn.ros_node.outputs import Outlets

NUMBERS = ('mass_matrix', 'coriolis', 'gravity', 'torque', 'worst')  # of a cross-check
CONSTANTS = {'warn_tolerance': '1e-09', 'error_tolerance': '1e-06',
             'engine': 'closed_form', 'check_engine': 'pinocchio'}


class RelayNode(Node):
    """Answers each joint state with as many messages as dynamics_node, in the same order."""

    def __init__(self, joints: list[str]) -> None:
        super().__init__('lagdyn')
        self._header = Header(frame_id='base_link')
        self._inverse_dynamics, self._gravity, self._coriolis, self._residual = (
            JointState(name=joints, header=self._header) for _ in range(4))
        n = self._n = len(joints)
        label = ', '.join(joints)
        self._command = Float64MultiArray()
        self._command.layout.dim = [
            MultiArrayDimension(label=f'joints: {label}', size=n, stride=n)]
        self._mass_matrix = Float64MultiArray(data=[0.0] * n * n)
        self._mass_matrix.layout.dim = [
            MultiArrayDimension(label=f'rows: {label}', size=n, stride=n * n),
            MultiArrayDimension(label=f'columns: {label}', size=n, stride=n)]
        self._entries = [KeyValue(key=key) for key in NUMBERS]
        self._status = DiagnosticStatus(
            name='relay', message='closed_form and pinocchio agree', values=[
                *self._entries,
                *(KeyValue(key=key, value=value) for key, value in CONSTANTS.items())])
        self._cross_check = DiagnosticArray(header=self._header, status=[self._status])
        self._publish = {
            topic: publisher.publish for topic, publisher in Outlets(self).items()}
        self._received = KeyValue(key='received')
        self._count = 0
        name = self.get_fully_qualified_name().removeprefix('/')
        self._report = DiagnosticArray(status=[
            DiagnosticStatus(name=f'{name}: joint states', values=[self._received])])
        self._diagnostics = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self.create_timer(1.0, self._on_timer)
        self.create_subscription(
            JointState, 'joint_states', self._on_joint_state, qos_profile_sensor_data)

    def _on_timer(self) -> None:
        self._received.value = str(self._count)
        self._diagnostics.publish(self._report)

    def _on_joint_state(self, message: JointState) -> None:
        self._count += 1
        publish = self._publish
        effort = message.effort
        self._header.stamp = message.header.stamp
        self._command.data = effort
        publish['~/command'](self._command)
        self._inverse_dynamics.position = message.position
        self._inverse_dynamics.velocity = message.velocity
        self._inverse_dynamics.effort = effort
        publish['~/inverse_dynamics'](self._inverse_dynamics)
        self._gravity.effort = effort
        publish['~/gravity_compensation'](self._gravity)
        self._coriolis.effort = effort
        publish['~/coriolis'](self._coriolis)
        for row in range(self._n):
            self._mass_matrix.data[row * self._n:(row + 1) * self._n] = effort
        publish['~/mass_matrix'](self._mass_matrix)
        self._residual.effort = effort
        publish['~/residual'](self._residual)
        number = effort[0]
        for entry in self._entries:
            entry.value = repr(number)
        publish['~/cross_check'](self._cross_check)


def main() -> None:
    rclpy.init(args=sys.argv)
    node = RelayNode(sys.argv[1].split(','))
    gc.collect()
    gc.freeze()  # as dynamics_node does when it has its model
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)
    node.destroy_node()  # says goodbye: others would wait for a lost participant
    rclpy.try_shutdown()


if __name__ == '__main__':
    main()
