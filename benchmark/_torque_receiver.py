# SPDX-License-Identifier: Apache-2.0
"""Note when torques arrive, as told by lines of JSON.

Arguments: namespaces whose ~/inverse_dynamics of a node `lagdyn` are heard.
{"collect": namespace} forgets what came so far; answers when the next line has come and nothing
has arrived for a while: pairs of stamp and arrival [ns, CLOCK_MONOTONIC].
{"wait_for": namespace} answers when somebody publishes there.
"""

from __future__ import annotations

import gc
import json
import select
import signal
import sys
import time
from typing import Any

import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

QUIET = 200_000_000  # [ns]; when nothing has come for so long, nothing more will


class Ear:
    """Takes messages of one topic without an executor, which would itself take time."""

    def __init__(self, node: Node, namespace: str) -> None:
        self.topic = f'/{namespace}/lagdyn/inverse_dynamics'
        self._subscription: Subscription = node.create_subscription(
            JointState, self.topic, lambda message: None, QoSProfile(depth=10_000))
        # Somebody must hear the commands, else there is no torque in them. Nobody reads them.
        node.create_subscription(
            Float64MultiArray, f'/{namespace}/lagdyn/command', lambda message: None, 1)
        self._wait_set = _rclpy.WaitSet(1, 0, 0, 0, 0, 0, node.context.handle)

    def arrivals(self, timeout: int) -> list[tuple[int, int]]:
        """Wait up to so long [ns]; return stamp and arrival [ns] of what came."""
        self._wait_set.clear_entities()
        self._wait_set.add_subscription(self._subscription.handle)
        self._wait_set.wait(timeout)
        found = []
        while True:
            now = time.monotonic_ns()
            with self._subscription.handle:
                taken = self._subscription.handle.take_message(JointState, False)
            if taken is None:
                return found
            stamp = taken[0].header.stamp
            found.append((stamp.sec * 1_000_000_000 + stamp.nanosec, now))

    def collect(self) -> list[tuple[int, int]]:
        """Return what arrives until the next order and a quiet time after it."""
        self.arrivals(0)
        found = []
        while not select.select([sys.stdin], [], [], 0.0)[0]:
            found += self.arrivals(QUIET)
        while late := self.arrivals(QUIET):
            found += late
        return found


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    node = Node('torque_receiver')
    ears = {namespace: Ear(node, namespace) for namespace in sys.argv[1:]}
    gc.disable()
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any = None
        if 'collect' in order:
            answer = ears[order['collect']].collect()
        elif 'wait_for' in order:
            while not node.count_publishers(ears[order['wait_for']].topic):
                time.sleep(0.01)
        else:
            continue  # a line that only ends a collection
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
