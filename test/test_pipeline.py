# SPDX-License-Identifier: Apache-2.0
"""The pipeline alone, with a clock that only the test moves and a queue like the middleware's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from shipped import text_of

pytest.importorskip('rclpy', reason='rclpy is not installed: no messages to answer')

from rclpy.clock import ROSClock
from ros_graph import SECOND, joint_state, same, stamp_of, time_of
from sensor_msgs.msg import JointState

from ros_lagdyn.live_model import LiveModel, Settings
from ros_lagdyn.ros_node import pipeline as module
from ros_lagdyn.ros_node.node_parameters import NODE_PARAMETERS
from ros_lagdyn.ros_node.pipeline import QUEUE, Pipeline

JOINTS = ('joint1', 'joint2')
MILLISECOND = SECOND // 1000  # [ns]
START = 1_800_000_000 * SECOND  # [ns], of the system's clock when the steady one is 0
MODEL = LiveModel(text_of('two_link'), Settings())
DEFAULTS = {spec.name: spec.default for spec in NODE_PARAMETERS}
LEARNT = 50  # takes after which it must know its pace; 3 to 6 answers each where it is slow


class Rig:
    """A pipeline whose answers cost what the test says, and the queue before it.

    Attributes:
        now: time [ns] since START, of every clock.
        cost: of an answer [ns].
        answers: to each joint state its stamp, when it was answered [ns], and its velocities.
        commands: the stamp [ns] behind each, and how many joint states were answered before.
    """

    has_markers = False  # of the outputs

    def __init__(self, **values: Any) -> None:
        self.now, self.cost = 0, 0
        self.answers: list[tuple[int, int, np.ndarray]] = []
        self.commands: list[tuple[int, int]] = []
        self.command = SimpleNamespace(may_command=True, mode='gravity', update=self.note_command)
        self.cross_check = SimpleNamespace(is_error=False)
        self.pipeline = Pipeline(
            MODEL, self, {**DEFAULTS, 'cross_check.every': 0, **values},  # type: ignore[arg-type]
            clock=ROSClock(), warn=lambda kind, text: None)
        self.queue: deque[JointState] = deque(maxlen=QUEUE)
        self._next = 0

    def publish(self, stamp: Any, wished: Any, answer: Any) -> None:
        """Note an answer, which takes its time."""
        self.now += self.cost
        self.answers.append((stamp.sec * SECOND + stamp.nanosec - START, self.now,
                             wished.v.copy()))

    def note_command(self, table: Any, *torques: np.ndarray, **how: Any) -> None:
        """Note which joint state a command is backed by."""
        self.commands.append((table.stamps[0] - START, len(self.answers)))

    def waiting(self) -> Iterator[tuple[JointState, dict[str, int]]]:
        """Yield what waits in the queue; each was received at its stamp."""
        while self.queue:
            message = self.queue.popleft()
            yield message, {'received_timestamp': stamp_of(message)}

    def serve(self, interval: int, takes: int) -> list[list[tuple[int, int, np.ndarray]]]:
        """Let joint states come every `interval` [ns]; return the answers of each take."""
        result = []
        for _ in range(takes):
            self.now = max(self.now, self._next)
            self.arrive(interval)
            result.append(self.take())
        return result

    def take(self) -> list[tuple[int, int, np.ndarray]]:
        """Let the pipeline take what waits; return its answers."""
        before = len(self.answers)
        self.pipeline.take(self.waiting())
        return self.answers[before:]

    def arrive(self, interval: int) -> None:
        """Put what has come up to now into the queue; where it is full, the oldest is lost."""
        while self._next <= self.now:
            self.queue.append(joint_state(
                JOINTS, (0.3, 0.5), (0.0, 0.0), stamp=START + self._next))
            self._next += interval


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Return a pipeline in which time passes only where an answer costs some."""
    found: list[Rig] = []
    monkeypatch.setattr(module, 'steady', lambda: found[0].now / SECOND if found else 0.0)
    monkeypatch.setattr(
        module, 'time', SimpleNamespace(time_ns=lambda: START + found[0].now))
    found.append(Rig())
    return found[0]


@pytest.mark.parametrize('cost', [2.2, 3.0, 7.0, 40.0])
def test_a_node_that_is_too_slow_answers_the_newest_joint_state_only(
        rig: Rig, cost: float) -> None:
    """Once it has learnt so, no answer is older than its own cost and one joint state."""
    interval, rig.cost = 2 * MILLISECOND, round(cost * MILLISECOND)
    rig.serve(interval, LEARNT)
    for answers in rig.serve(interval, 200):
        ((stamp, answered, _),) = answers
        assert answered - stamp < rig.cost + interval
    refused = rig.pipeline.table.counts
    assert not any(refused.values())  # the others were entered all the same
    traffic = rig.pipeline.traffic
    assert traffic.answered == len(rig.answers)
    assert traffic.received == traffic.answered + traffic.skipped
    assert traffic.skipped > 0


@pytest.mark.parametrize('learnt', [True, False])
def test_a_node_that_is_quick_answers_all_that_wait_oldest_first(rig: Rig, learnt: bool) -> None:
    """A pause of the machine leaves a full queue; each of it is answered, at once."""
    interval, rig.cost = 2 * MILLISECOND, MILLISECOND // 2
    if learnt:
        assert all(len(answers) == 1 for answers in rig.serve(interval, LEARNT))
    rig.now += SECOND
    rig.arrive(interval)
    stamps = [stamp_of(message) - START for message in rig.queue]
    assert len(stamps) == QUEUE
    assert [stamp for stamp, _, _ in rig.take()] == stamps


def test_a_node_that_just_keeps_up_answers_all_that_the_queue_kept(rig: Rig) -> None:
    """Answers take 90 % of the time, and the machine pauses for 12 ms every 0.4 s."""
    interval, rig.cost = 2 * MILLISECOND, round(1.8 * MILLISECOND)
    kept: list[int] = []
    for _ in range(20):
        rig.now += 12 * MILLISECOND
        for _ in range(200):
            rig.now = max(rig.now, rig._next)
            rig.arrive(interval)
            kept += [stamp_of(message) - START for message in rig.queue]
            rig.take()
    assert [stamp for stamp, _, _ in rig.answers] == kept
    traffic = rig.pipeline.traffic
    assert traffic.received == traffic.answered == len(kept)


def test_a_node_that_has_become_quick_answers_all_that_wait_again(rig: Rig) -> None:
    """As after a change of the model or of cross_check.every."""
    interval, rig.cost = 2 * MILLISECOND, 3 * MILLISECOND
    rig.serve(interval, LEARNT)
    rig.cost = MILLISECOND // 2
    rig.serve(interval, LEARNT)
    rig.now += SECOND
    rig.arrive(interval)
    assert len(rig.take()) == QUEUE


def test_a_command_is_of_the_newest_joint_state_and_comes_before_its_answer(rig: Rig) -> None:
    """A torque for where the arm was is worse than none."""
    rig.serve(2 * MILLISECOND, 3)
    assert rig.commands == [(stamp, number) for number, (stamp, _, _) in enumerate(rig.answers)]
    rig.commands.clear()
    rig.now += SECOND
    rig.arrive(2 * MILLISECOND)
    answers = rig.take()
    assert len(answers) == QUEUE
    assert rig.commands == [(answers[-1][0], len(rig.answers) - 1)]


def test_a_newest_joint_state_that_is_refused_leaves_the_command_to_the_one_before(
        rig: Rig) -> None:
    """As where a publisher swaps two of them, again and again."""
    for stamp in (3, 5, 4):
        rig.queue.append(joint_state(
            JOINTS, (0.3, 0.5), (0.0, 0.0), stamp=START + stamp * MILLISECOND))
    assert len(rig.take()) == 2
    assert rig.commands == [(5 * MILLISECOND, 2)]


def test_a_node_that_is_too_slow_commands_as_often_as_it_answers(rig: Rig) -> None:
    interval, rig.cost = 2 * MILLISECOND, 7 * MILLISECOND
    rig.serve(interval, LEARNT)
    rig.commands.clear()
    answers = [one for take in rig.serve(interval, 20) for one in take]
    assert [stamp for stamp, _ in rig.commands] == [stamp for stamp, _, _ in answers]


def test_latency_counts_from_receipt_by_the_middleware(rig: Rig) -> None:
    """Joint states that waited 3, 2 and 1 ms, each for the answers before it, too."""
    rig.cost, rig.now = MILLISECOND // 2, 10 * MILLISECOND
    for stamp in (7, 8, 9):
        rig.queue.append(joint_state(
            JOINTS, (0.3, 0.5), (0.0, 0.0), stamp=START + stamp * MILLISECOND))
    assert len(rig.take()) == 3
    # Times of 0.01 s as floats: 1e-9 is far above their rounding.
    np.testing.assert_allclose(
        rig.pipeline.traffic.latencies, [3.5e-3, 3e-3, 2.5e-3], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize('received', [0, START - 3600 * SECOND, START + 3600 * SECOND],
                         ids=['unknown', 'an hour ago', 'in an hour'])
def test_a_time_of_receipt_that_cannot_be_is_now(rig: Rig, received: int) -> None:
    """The middleware does not know it, or the system's clock was set meanwhile."""
    rig.cost = MILLISECOND
    rig.pipeline.take([(joint_state(JOINTS, (0.3, 0.5), stamp=START),
                        {'received_timestamp': received})])
    assert rig.pipeline.traffic.latencies == [pytest.approx(1e-3, abs=1e-9)]


def test_derivatives_of_unstamped_joint_states_are_by_the_time_they_were_sent(rig: Rig) -> None:
    """Positions that move at 2 and -1 rad/s, sent every 4 ms, taken all at once."""
    speed = np.array([2.0, -1.0])
    rig.pipeline.take([
        (joint_state(JOINTS, 0.004 * number * speed), {
            'source_timestamp': START + 4 * number * MILLISECOND,
            'received_timestamp': START})  # as if the middleware had been held up, too
        for number in range(QUEUE)])
    first, *others = [v for _, _, v in rig.answers]
    assert first.tolist() == [0.0, 0.0]  # of one position nothing can be derived
    assert len(others) == QUEUE - 1
    for v in others:
        same(v, speed)


def test_answers_to_unstamped_joint_states_have_the_time_of_receipt(rig: Rig) -> None:
    """By the node's clock, which is not the one that this test moves: within a second of it."""
    message = joint_state(JOINTS, (0.3, 0.5))
    begin = rig.pipeline._clock.now().nanoseconds
    rig.now = 5 * MILLISECOND
    rig.pipeline.take([(message, {'received_timestamp': START + 2 * MILLISECOND})])
    after = rig.pipeline._clock.now().nanoseconds
    assert begin <= stamp_of(message) + 3 * MILLISECOND <= after
    assert message.header.stamp != time_of(0)
