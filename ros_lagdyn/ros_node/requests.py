# SPDX-License-Identifier: Apache-2.0
"""Service requests that rclpy itself cannot digest: refused, where it would end the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

from rclpy.node import Node

PACKAGE = str(Path(__file__).resolve().parents[1])
QUIET = 5.0  # [s] between two warnings


def survive_requests(node: Node) -> None:
    """Let no request to the services that a node has now end the process.

    rclpy raises in its own callbacks for a parameter of a type that there is not, for a lifecycle
    transition that the state does not allow, and perhaps for more. Such a request is answered with
    what the response holds by then: no success. An exception that comes from this package is a
    fault of ours, and goes on.
    """
    for service in node.services:
        service.callback = _refusing(node, service.srv_name, service.callback)


def _refusing(node: Node, name: str, callback: Callable[[Any, Any], Any]
              ) -> Callable[[Any, Any], Any]:
    def answer_or_refuse(request: Any, response: Any) -> Any:
        try:
            return callback(request, response)
        except Exception as error:
            if _is_ours(error.__traceback__):
                raise
            reason = ' '.join(str(error).split())[:200]
            node.get_logger().warning(
                f'a request to {name} is refused, rclpy cannot answer it: {reason}',
                throttle_duration_sec=QUIET)
            return response

    return answer_or_refuse


def _is_ours(traceback: TracebackType | None) -> bool:
    """Say whether an exception went through code of this package, answer_or_refuse aside."""
    return any(frame.f_code.co_filename.startswith(PACKAGE)
               for frame, _ in list(walk_tb(traceback))[1:])
