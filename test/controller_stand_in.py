# SPDX-License-Identifier: Apache-2.0
"""What stands on the motors' side: it writes down each command, and what /diagnostics says.

    python controller_stand_in.py <record> <topic of commands> [--ros-args ...]

A line of the record is a JSON object, of one of two kinds:

    {"at": ..., "sent": ..., "torque": [...]}            a command
    {"at": ..., "status": ..., "level": ..., "message": ..., "values": {...}}  of /diagnostics

`at` is when the middleware received it, `sent` is when it was sent; both [s] by CLOCK_MONOTONIC,
which all processes of a host share. Not a number is written as NaN, as Python reads it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from std_msgs.msg import Float64MultiArray

# [s]; when something came is known by the middleware, not by when it is looked at.
POLL = 0.005
QOS = QoSProfile(depth=2000)  # reliable; a busy machine must not make it lose a command


def waiting(subscription: Subscription) -> Iterator[tuple[float, float, Any]]:
    """Yield when each message that waits was received and sent, and the message."""
    while (taken := subscription.handle.take_message(subscription.msg_type, False)) is not None:
        message, info = taken
        to_monotonic = time.monotonic() - 1e-9 * time.time_ns()
        yield (to_monotonic + 1e-9 * info['received_timestamp'],
               to_monotonic + 1e-9 * info['source_timestamp'], message)


def main() -> None:
    """Write until the process that started this one has ended."""
    parent = os.getppid()
    path, topic = Path(sys.argv[1]), sys.argv[2]
    rclpy.init()
    node = rclpy.create_node('controller', start_parameter_services=False, enable_rosout=False)
    commands = node.create_subscription(Float64MultiArray, topic, lambda _: None, QOS)
    diagnostics = node.create_subscription(DiagnosticArray, '/diagnostics', lambda _: None, QOS)
    with path.open('w', encoding='utf-8') as record:
        while os.getppid() == parent:
            for at, sent, message in waiting(commands):
                record.write(json.dumps(
                    {'at': at, 'sent': sent, 'torque': list(message.data)}) + '\n')
            for at, _, message in waiting(diagnostics):
                for status in message.status:
                    record.write(json.dumps({
                        'at': at, 'status': status.name, 'level': status.level[0],
                        'message': status.message,
                        'values': {entry.key: entry.value for entry in status.values}}) + '\n')
            record.flush()
            time.sleep(POLL)


if __name__ == '__main__':
    main()
