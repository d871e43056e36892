# SPDX-License-Identifier: Apache-2.0
"""The spin loop: joint states overtake, nobody starves, it ends when it is told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

rclpy = pytest.importorskip('rclpy', reason='rclpy is not installed: no ROS graph to test on')

from rclpy.context import Context  # noqa: E402
from rclpy.node import Node  # noqa: E402
from rclpy.qos import qos_profile_sensor_data  # noqa: E402
from ros_graph import DEADLINE, RELIABLE, Probe  # noqa: E402
from sensor_msgs.msg import JointState  # noqa: E402
from std_msgs.msg import String  # noqa: E402
from std_srvs.srv import Trigger  # noqa: E402

from ros_lagdyn.ros_node.fast_lane import (  # noqa: E402
    spin,
    waiting_messages,
    while_serving,
)

FLOOD = 2000  # joint states in a row, far more than the queue holds


class Served(Node):
    """A node with a fast lane and one of everything else."""

    def __init__(self, context: Context) -> None:
        super().__init__('served', context=context, enable_rosout=False)
        self.seen: list[Any] = []
        self.by_executor: list[JointState] = []
        self.ticks = 0
        self.texts: list[str] = []
        self.on_take: Callable[[], None] = lambda: None
        self.lane = self.create_subscription(
            JointState, 'joint_states', self.by_executor.append, qos_profile_sensor_data)
        self.fast_lane: Any = self.lane
        self.create_timer(0.02, self.tick)
        self.longest_wait = 0.1
        self.create_subscription(
            String, 'text', lambda message: self.texts.append(message.data), RELIABLE)
        self.switch = self.create_service(Trigger, 'trigger', self.serve)

    def tick(self) -> None:
        self.ticks += 1

    def serve(self, _: Any, response: Any) -> Any:
        response.success = True
        return response

    def take_fast_lane(self) -> None:
        self.seen += waiting_messages(self.fast_lane)
        self.on_take()


class Loop:
    """The spin loop in a thread, with a probe on the other side."""

    def __init__(self) -> None:
        self.context = Context()
        rclpy.init(context=self.context)
        self.node = Served(self.context)
        self.stopping = False
        self.thread = threading.Thread(
            target=spin, args=(self.node, lambda: self.stopping), daemon=True)
        self.probe = Probe('/served')

    def end(self) -> None:
        self.stopping = True
        if self.thread.is_alive():
            self.thread.join(DEADLINE)
        self.probe.close()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self.context)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.end()


class Flood:
    """Publishes joint states without a pause, in a thread, while the block lasts."""

    def __init__(self, publisher: Any) -> None:
        self.publisher, self.stopping, self.sent = publisher, False, 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        message = JointState(name=['a', 'b'], position=[0.0, 0.0])
        while not self.stopping:
            self.publisher.publish(message)
            self.sent += 1
            time.sleep(2e-4)  # lets the other threads of this process run

    def __enter__(self) -> Flood:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stopping = True
        self.thread.join(DEADLINE)


def test_everybody_is_served_while_joint_states_flood_in(loop: Loop) -> None:
    """Timers, services and other subscriptions have their turn between joint states."""
    loop.thread.start()
    probe, node = loop.probe, loop.node
    states = probe.publisher(JointState, '/joint_states')
    texts = probe.publisher(String, '/text')
    with Flood(states) as flood:
        probe.wait_for(lambda: len(node.seen) > 50, what='the flood')
        ticks, seen = node.ticks, len(node.seen)
        began = time.monotonic()
        for number in range(5):
            texts.publish(String(data=str(number)))
            assert probe.call(Trigger, '/trigger', Trigger.Request()).success
        probe.wait_for(lambda: len(node.texts) == 5, what='the other subscription')
        probe.wait_for(lambda: node.ticks >= ticks + 20, what='the timer')
        elapsed = time.monotonic() - began
        assert node.texts == list('01234')
        # A timer of 50 Hz is late now and then, but does not wait for the flood to end.
        assert node.ticks - ticks >= 0.3 * elapsed / 0.02
        assert len(node.seen) > seen  # and the joint states were taken meanwhile
        assert flood.thread.is_alive()


def test_most_joint_states_go_through_the_lane(loop: Loop) -> None:
    """The executor gets only what arrives while it serves somebody else."""
    loop.thread.start()
    publisher = loop.probe.publisher(JointState, '/joint_states')
    with Flood(publisher):
        loop.probe.wait_for(lambda: len(loop.node.seen) > 300, what='the flood')
    assert len(loop.node.by_executor) < 0.3 * len(loop.node.seen)


def test_messages_are_taken_oldest_first_until_none_is_left(loop: Loop) -> None:
    """Without the loop: what waits in the queue comes out in order, then nothing."""
    publisher = loop.probe.publisher(JointState, '/joint_states', matched=False)
    loop.probe.wait_for(
        lambda: publisher.get_subscription_count() and loop.node.lane.get_publisher_count(),
        what='the subscription')
    taken: list[str] = []

    def all_taken() -> bool:
        taken.extend(message.name[0] for message in waiting_messages(loop.node.lane))
        return len(taken) >= 4

    for number in range(4):
        publisher.publish(JointState(name=[str(number)]))
    loop.probe.wait_for(all_taken, what='four messages')
    assert taken == ['0', '1', '2', '3']
    assert list(waiting_messages(loop.node.lane)) == []


def test_an_idle_loop_ends_when_it_is_told_to(loop: Loop) -> None:
    """Nothing arrives, and still it looks up."""
    loop.node.destroy_timer(next(iter(loop.node.timers)))
    loop.thread.start()
    loop.stopping = True
    loop.thread.join(2.0)
    assert not loop.thread.is_alive()


def test_a_busy_loop_ends_when_it_is_told_to(loop: Loop) -> None:
    loop.thread.start()
    with Flood(loop.probe.publisher(JointState, '/joint_states')):
        loop.probe.wait_for(lambda: len(loop.node.seen) > 10, what='the flood')
        loop.stopping = True
        loop.thread.join(2.0)
        assert not loop.thread.is_alive()


def test_the_loop_ends_with_its_context(loop: Loop) -> None:
    """As when somebody else calls rclpy.shutdown: no exception, no process that hangs."""
    failures: list[object] = []

    def spin_and_note() -> None:
        try:
            spin(loop.node, lambda: False)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=spin_and_note, daemon=True)
    thread.start()
    loop.probe.wait_for(lambda: loop.node.ticks > 2, what='the loop')
    loop.context.try_shutdown()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert failures == []


def test_a_node_without_a_lane_is_served_and_may_open_one_later(loop: Loop) -> None:
    """As a node that is activated, deactivated and activated again."""
    node, probe = loop.node, loop.probe
    node.fast_lane = None
    loop.thread.start()
    assert probe.call(Trigger, '/trigger', Trigger.Request()).success
    publisher = probe.publisher(JointState, '/joint_states')
    probe.ask(publisher, JointState(name=['x']), lambda: node.by_executor)
    node.fast_lane = node.lane
    probe.ask(publisher, JointState(name=['x']), lambda: node.seen)


def test_what_is_sent_while_the_loop_is_busy_is_answered_once(loop: Loop) -> None:
    """The loop takes all that waits in one go."""
    rounds: list[int] = []
    node = loop.node
    gate = threading.Event()

    def block_once() -> None:
        rounds.append(len(node.seen))
        if len(rounds) == 1:
            assert gate.wait(DEADLINE)

    node.on_take = block_once
    loop.thread.start()
    publisher = loop.probe.publisher(JointState, '/joint_states')
    loop.probe.ask(publisher, JointState(name=['first']), lambda: rounds)
    for number in range(FLOOD):
        publisher.publish(JointState(name=[str(number)]))
    # The middleware has delivered when the last one is what waits at the end of the queue.
    gate.set()
    loop.probe.wait_for(
        lambda: node.seen and node.seen[-1].name == [str(FLOOD - 1)], what='the last one')
    depth = qos_profile_sensor_data.depth
    assert len(node.seen) < FLOOD / 2  # old ones were dropped, not worked through
    assert len(rounds) < len(node.seen) + depth


# -- while something takes long ------------------------------------------------------------------


@pytest.fixture
def waiting(loop: Loop) -> Iterator[Flood]:
    """Let joint states flood in while nobody spins: what they wait for is a callback."""
    with Flood(loop.probe.publisher(JointState, '/joint_states')) as flood:
        yield flood


def test_joint_states_are_taken_while_a_callback_waits_for_its_work(
        loop: Loop, waiting: Flood) -> None:
    """The work ends only because they are; time is looked at, too; its result comes back."""
    node = loop.node

    def work() -> str:
        give_up = time.monotonic() + DEADLINE
        while len(node.seen) < 100 and time.monotonic() < give_up:
            pass  # as busy as the building of a model
        return 'done'

    assert while_serving(node, work, lambda: False, node.switch) == 'done'
    assert len(node.seen) >= 100 and node.ticks > 0


def test_the_switch_is_served_while_a_callback_waits_for_its_work(loop: Loop) -> None:
    """Nobody waits for a model to be built before the motors can be switched off."""
    client = loop.probe.node.create_client(Trigger, '/trigger')
    loop.probe.wait_for(client.service_is_ready)
    future = client.call_async(Trigger.Request())

    def work() -> None:
        loop.probe.wait_for(future.done, what='the answer')

    while_serving(loop.node, work, lambda: False, loop.node.switch)
    assert future.result().success


def test_an_error_of_the_work_reaches_the_callback(loop: Loop) -> None:
    with pytest.raises(ZeroDivisionError):
        while_serving(loop.node, lambda: 1 / 0, lambda: False, loop.node.switch)


def test_work_is_not_waited_for_when_the_process_is_to_end(loop: Loop) -> None:
    """A signal must not wait until a large model has been built."""
    gate = threading.Event()
    try:
        with pytest.raises(InterruptedError):
            while_serving(loop.node, lambda: gate.wait(DEADLINE),
                          lambda: loop.node.ticks > 3, loop.node.switch)
    finally:
        gate.set()


def test_without_a_lane_the_work_is_just_done(loop: Loop) -> None:
    """In the same thread: nobody could be served."""
    loop.node.fast_lane = None
    thread = while_serving(
        loop.node, threading.current_thread, lambda: True, loop.node.switch)
    assert thread is threading.current_thread()
