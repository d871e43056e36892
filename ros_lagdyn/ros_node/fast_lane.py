# SPDX-License-Identifier: Apache-2.0
"""A spin loop in which one subscription overtakes everything else.

rclpy's executor gathers, guards and sorts all entities of a node anew for each message, which
costs several times what taking and answering a joint state costs. Here a message of the fast lane
is taken directly; timers, services and other subscriptions go to the executor as ever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node
from rclpy.service import Service
from rclpy.subscription import Subscription

Info = Mapping[str, Any]
Result = TypeVar('Result')

LOOK_UP = 0.1  # [s], how often the loop looks whether it is to end, at least
WORK_LOOK_UP = 0.005  # [s], how often a callback that waits for its work looks whether it is done
TURN = 0.0005  # [s] that work in another thread keeps the interpreter while others wait for it


def waiting_with_info(subscription: Subscription) -> Iterable[tuple[Any, Info]]:
    """Yield the messages that wait in a subscription, oldest first, until none is left.

    With each comes what the middleware knows of it: `source_timestamp` and `received_timestamp`
    [ns] of the system clock, 0 where it does not know.
    """
    handle, kind = subscription.handle, subscription.msg_type
    while (taken := handle.take_message(kind, False)) is not None:
        yield taken


def waiting_messages(subscription: Subscription) -> Iterable[Any]:
    """Yield the messages that wait in a subscription, oldest first, until none is left."""
    return (message for message, _ in waiting_with_info(subscription))


def spin(node: Any, until: Callable[[], bool]) -> None:
    """Serve a node until `until` says so, or its context is shut down.

    Args:
        node: its attribute `fast_lane` is the subscription that overtakes, or None. Where there is
            one, its method `take_fast_lane` takes and answers what waits there, and `tick` is
            called at least every `longest_wait` seconds; after what waits has been taken, so that
            a busy loop does not look like a silent robot.
        until: asked at least every LOOK_UP seconds.
    """
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    try:
        with _Waiter(node) as waiter:
            while node.context.ok() and not until():
                if node.fast_lane is None:
                    waiter.forget()
                    executor.spin_once(timeout_sec=LOOK_UP)
                    continue
                lane_is_ready, others_are_ready = waiter.wait(node.fast_lane, node.longest_wait)
                if lane_is_ready:
                    node.take_fast_lane()
                node.tick()
                if others_are_ready:
                    executor.spin_once(timeout_sec=0.0)
    except ExternalShutdownException:
        pass
    finally:
        executor.remove_node(node)
        executor.shutdown(timeout_sec=0.0)


def while_serving(node: Any, work: Callable[[], Result], until: Callable[[], bool],
                  service: Service) -> Result:
    """Return what `work` returns; meanwhile the fast lane and a service of the node are served.

    For callbacks that take longer than an arm can be left alone. The work is done in a thread of
    its own, so it must not touch the node.

    Args:
        node: as for spin(); where it has no fast lane, the work is just done.
        work: what takes long.
        until: asked all the time; once it says so, the work counts no longer.
        service: what cannot wait until the work is done.

    Raises:
        InterruptedError: `until` has said so before the work was done.
    """
    lane = node.fast_lane
    if lane is None:
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:  # the caller shall have it, whatever it is
            errors.append(error)

    # Not waited for at the end of the process: it may be long.
    thread = threading.Thread(target=do, daemon=True)
    with lane.handle, service.handle, node.context.handle, _short_turns():
        wait_set = _rclpy.WaitSet(1, 0, 0, 0, 1, 0, node.context.handle)
        thread.start()
        while thread.is_alive():
            if until() or not node.context.ok():
                raise InterruptedError('the process is to end')
            wait_set.clear_entities()
            wait_set.add_subscription(lane.handle)
            wait_set.add_service(service.handle)
            wait_set.wait(int(1e9 * WORK_LOOK_UP))
            if wait_set.get_ready_entities('subscription'):
                node.take_fast_lane()
            node.tick()
            if wait_set.get_ready_entities('service'):
                _answer(service)
    if errors:
        raise errors[0]
    return results[0]


def _answer(service: Service) -> None:
    """Answer a request that waits, as the executor would."""
    request, header = service.handle.service_take_request(service.srv_type.Request)
    if header is not None:
        service.send_response(service.callback(request, service.srv_type.Response()), header)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take the interpreter from each other in short turns while the block lasts."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Waiter:
    """Waits for what a node serves; gathers it anew only where it has changed."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: tuple[Any, ...] = ()
        self._entries: list[tuple[Callable[[Any], Any], Any]] = []  # what adds a handle, which
        self._held = ExitStack()

    def __enter__(self) -> _Waiter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.forget()

    def forget(self) -> None:
        """Let go of everything: what was destroyed meanwhile goes now."""
        self._known, self._entries = (), []
        self._held.close()

    def wait(self, lane: Subscription, longest: float) -> tuple[bool, bool]:
        """Wait until something is ready; say whether the lane is, and whether others are."""
        node = self._node
        entities = (*node.subscriptions, *node.timers, *node.clients, *node.services)
        if entities != self._known:
            self.forget()
            try:
                self._gather()
            except (_rclpy.InvalidHandle, _rclpy.RCLError):
                if node.context.ok():
                    raise
                return False, False
            self._known = entities
        wait_set = self._wait_set
        wait_set.clear_entities()
        for add, handle in self._entries:
            add(handle)
        wait_set.wait(int(1e9 * longest))
        ready = wait_set.get_ready_entities('subscription')
        lane_is_ready = lane.handle.pointer in ready
        others_are_ready = len(ready) > lane_is_ready or any(
            wait_set.get_ready_entities(kind) for kind in ('timer', 'service', 'client'))
        return lane_is_ready, others_are_ready

    def _gather(self) -> None:
        node = self._node
        subscriptions, timers, clients, services = (
            [entity.handle for entity in entities]
            for entities in (node.subscriptions, node.timers, node.clients, node.services))
        # Held, so that whoever shuts the context down meanwhile cannot take them away.
        for handle in (node.context.handle, *subscriptions, *timers, *clients, *services):
            self._held.enter_context(handle)
        self._wait_set = wait_set = _rclpy.WaitSet(
            len(subscriptions), 0, len(timers), len(clients), len(services), 0,
            node.context.handle)
        self._entries = [
            *((wait_set.add_subscription, handle) for handle in subscriptions),
            *((wait_set.add_timer, handle) for handle in timers),
            *((wait_set.add_client, handle) for handle in clients),
            *((wait_set.add_service, handle) for handle in services)]
