# SPDX-License-Identifier: Apache-2.0
"""Broken and malicious URDF texts, and what may become of them: an arm or a LagdynError."""

from __future__ import annotations

import random
import re
import resource
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fuzz.hostile import Source
from ros_lagdyn.dynamics import ENGINES, load_dynamics
from ros_lagdyn.errors import LagdynError, UnrecognisedMechanismError
from ros_lagdyn.live_model import LiveModel, Settings
from ros_lagdyn.shipped_arms import STEMS, shipped_urdf

QUICK = 2.0  # [s] of processor time, for any text in any engine
LITTLE = 500.0  # [MB] at most, the process as a whole
LONGEST_ERROR = 10_000  # characters: a list of 120 joints may be in it
MOST_KEPT, LONGEST_KEPT = 200, 50_000  # texts, and characters of each
MOST_TESTED = 12  # joints of arms whose self-test is run, too

NUMBERS = (
    '0', '-0', '1', '-1', '2', '1e-320', '1e-300', '1e300', '1e308', '-1e308', '1e309', '1e12',
    '1.1e12', '-1e12', '1e-9', 'nan', 'inf', '-inf', '0x1p3', '1_0', '1,5', '', ' ', '1 2',
    '0 0 0', '0 0 1', '1 1 1', '1e-10 0 0', '1e9 1e9 1e9', '0 0', '9' * 400, '.', '+.5e+2', '٣')
WORDS = (
    '', ' ', 'base_link', 'link1', 'link2', 'tool0', 'joint1', 'joint2', 'universe', 'root_joint',
    'payload', 'revolute', 'continuous', 'prismatic', 'fixed', 'floating', 'planar', 'world',
    '&#10;', '&#0;', '&lt;', 'ä', '\u202e', 'x' * 300, '${1+1}', '$(find x)', '../x',
    'package://x/y.stl', 'file:///etc/passwd', 'http://127.0.0.1:9/x')
PIECES = (
    '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;&b;">]>', '<!DOCTYPE robot SYSTEM "file:///x">',
    '&d;', '<?xml version="1.0"?>', '<?xml version="1.0" encoding="utf-16"?>', '<!-- -->', '<!--',
    '-->', '<![CDATA[', ']]>', '<?a b?>', '</robot>', '<robot name="b">', '<link name="c"/>',
    '<link name="link1"/>', '<mimic joint="joint1"/>', '<mimic joint="joint2" multiplier="1e12"/>',
    '<joint name="c" type="fixed"><parent link="tool0"/><child link="c"/></joint>',
    '<joint name="e" type="revolute"><parent link="c"/><child link="link1"/></joint>',
    '<joint name="f" type="continuous"><parent link="tool0"/><child link="c"/></joint>',
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    '</inertial>', '<xacro:macro/>', '<a xmlns:xacro="http://ros.org/xacro"/>', '\0', '\r', '"',
    '<axis xyz="1 0 0"/>', '<limit lower="-1" upper="1" effort="1" velocity="1"/>', '<origin/>',
    '<visual><geometry><mesh filename="package://x/y.stl"/></geometry></visual>')
_ELEMENT = re.compile(r'<(\w+)\b[^<>]*(?:/>|>(?:(?!<\1\b).)*?</\1>)', re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_STRUCTURE = ('name', 'link', 'joint', 'type')


class WrongError(AssertionError):
    """The loader did what it must not do."""


def seeds() -> list[str]:
    """Return the texts that everything begins with: the shipped arms, and one with mimic tags."""
    texts = [shipped_urdf(stem).read_text(encoding='utf-8') for stem in STEMS]
    return [re.sub(r'>\s+<', '><', text) for text in texts]


def mutated(text: str, source: Source, others: Sequence[str]) -> str:
    """Return a text with some things changed, as the source says."""
    for _ in range(1 + source.below(4)):
        text = _changed(text, source, others)
    return text


def _changed(text: str, source: Source, others: Sequence[str]) -> str:
    kind = source.below(10)
    if kind < 4 and (attributes := list(_ATTRIBUTE.finditer(text))):
        one = source.pick(attributes)
        is_word = one[1] in _STRUCTURE
        value = source.pick(WORDS if is_word == (source.below(8) > 0) else NUMBERS)
        if source.one_in(4):
            value = source.pick(attributes)[2]
        if not is_word and source.one_in(3) and (numbers := one[2].split()):
            numbers[source.below(len(numbers))] = source.pick(NUMBERS)
            value = ' '.join(numbers)
        return text[:one.start(2)] + value + text[one.end(2):]
    if kind < 7 and (elements := list(_ELEMENT.finditer(text, source.below(len(text) + 1)))[:50]):
        one = source.pick(elements)
        action = source.below(5)
        if action == 0:
            return text[:one.start()] + text[one.end():]
        if action == 1:
            times = 2 if source.below(16) else source.pick((20, 130, 2100))
            return text[:one.end()] + one[0] * (times - 1) + text[one.end():]
        to = source.pick(elements).start()
        if action == 2:
            return text[:to] + one[0] + text[to:]
        other = source.pick(others)
        if (theirs := _ELEMENT.search(other, source.below(len(other) + 1))) is not None:
            return text[:one.start()] + theirs[0] + text[one.end():]
        return text
    at = source.below(len(text) + 1)
    if kind < 9:
        return text[:at] + source.pick(PIECES) + text[at:]
    return text[:at] + chr(source.below(300)) * (1 + source.below(3)) + text[
        at + source.below(6):]


@dataclass
class Loader:
    """Loads texts and judges what becomes of them.

    Attributes:
        counts: of outcomes, by name.
        slowest: most processor time that one text took [s].
    """

    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def load(self, urdf: str | bytes) -> bool:
        """Load a text with every engine; say whether it is an arm.

        Raises:
            WrongError: it is neither an arm nor a LagdynError, or it took too long or too much.
        """
        joints = []
        for engine in ENGINES:
            one = time.process_time()
            joints.append(self._joints(urdf, engine))
            self.slowest = max(self.slowest, time.process_time() - one)
        if joints[1] is None or joints[2] is None:
            self.counts['refused'] += 1
        else:
            self.counts['arms'] += 1
            if joints[1] != joints[2]:
                raise WrongError(f'joints {joints}')
            if isinstance(urdf, str) and len(joints[1]) <= MOST_TESTED:
                self._test(urdf)
        if self.slowest > QUICK:
            raise WrongError(f'{self.slowest:.1f} s')
        if (peak := peak_memory()) > LITTLE:
            raise WrongError(f'{peak:.0f} MB')
        return joints[1] is not None and joints[2] is not None

    def _joints(self, urdf: str | bytes, engine: str) -> tuple[str, ...] | None:
        """Return the joints of the arm, or None where it is refused."""
        try:
            dynamics = load_dynamics(urdf, engine)
        except UnrecognisedMechanismError:
            return None
        except LagdynError as error:
            _judge_error(error)
            return None
        zeros = np.zeros(len(dynamics.joints))
        with np.errstate(all='ignore'):
            if not all(np.isfinite(term).all() for term in dynamics.all_terms(zeros, zeros + 1.0)):
                raise WrongError(f'{engine}: terms are not finite')
        return dynamics.joints

    def _test(self, urdf: str) -> None:
        """Make the model that a node would answer with."""
        try:
            LiveModel(urdf, Settings()).self_test()
            self.counts['live models'] += 1
        except LagdynError as error:
            _judge_error(error)
            self.counts['live models refused'] += 1


def _judge_error(error: LagdynError) -> None:
    text = str(error)
    if not text or len(text) > LONGEST_ERROR or len(text.splitlines()) != 1:
        raise WrongError(f'an error that nobody can read: {text[:300]!r}, {len(text)} characters')


def peak_memory() -> float:
    """Return the most that this process had in memory so far [MB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


class Mutants:
    """Texts by seed alone: mutants of arms, and of their mutants that are arms."""

    def __init__(self, seed: int) -> None:
        """Begin with the shipped arms."""
        self._random = random.Random(seed)
        self._shipped = seeds()
        self._pool = list(self._shipped)

    def next(self) -> str:
        """Return the next text."""
        return mutated(self._random.choice(self._pool), Source(self._random.randbytes(32)),
                       self._pool)

    def keep(self, text: str) -> None:
        """Let a text have mutants, too; in place of another one, once there are many."""
        if len(text) < LONGEST_KEPT and self._random.random() < 0.2:
            if len(self._pool) >= MOST_KEPT:
                del self._pool[self._random.randrange(len(self._shipped), MOST_KEPT)]
            self._pool.append(text)
