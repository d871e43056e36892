# SPDX-License-Identifier: Apache-2.0
"""What the demo has seen: judged, and shown as a table, a line or a summary. Needs no ROS."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import TextIO

import numpy as np

from ros_lagdyn.rigid_body import Array

HELD = 1e-3  # [rad] or [m], how far the arm may move from its pose
SILENCE = 3.0  # [s] without an answer, after which the node does not count as running
WIDTH = 79  # of the table: an 80-column terminal without its last column
TERMS = {'mass_matrix': 'M', 'coriolis': 'C', 'gravity': 'g', 'torque': 'tau'}
LEVELS = ('OK', 'WARN', 'ERROR')
COLOURS = {'OK': '32', 'WARN': '33', 'ERROR': '1;31'}
HIDE_CURSOR, SHOW_CURSOR = '\x1b[?25l', '\x1b[?25h'
NO_WRAP, WRAP = '\x1b[?7l', '\x1b[?7h'  # a narrow terminal cuts lines instead of breaking them


# -- what is seen, and the judgement ---------------------------------------------------------


@dataclass(kw_only=True)
class Seen:
    """All that the demo has seen so far; arrays are None, numbers NaN, before they are known."""

    stem: str
    title: str
    joints: tuple[str, ...]
    turns: tuple[bool, ...]  # whether a joint turns [rad, Nm] or slides [m, N]
    pose: Array  # (n,)
    position: Array | None = None  # (n,)
    velocity: Array | None = None  # (n,)
    gravity: Array | None = None  # (n,)
    torque: Array | None = None  # (n,)
    mass_matrix: Array | None = None  # (n, n)
    engines: tuple[str, str] = ('', '')
    disagreement: dict[str, float] = field(default_factory=dict)  # of each term
    worst: dict[str, float] = field(default_factory=dict)  # the largest of each term
    tolerances: tuple[float, float] = (math.nan, math.nan)  # above which WARN, ERROR
    level: int = 0  # the worst of all cross-checks, index of LEVELS
    states: int = 0
    checks: int = 0
    moved: Array = field(default_factory=lambda: np.zeros(0))  # (n,), farthest from the pose
    opened: float | None = None  # [s], time at which the brakes opened
    last_check: float = math.nan  # [s], time
    silence: float = 0.0  # [s], longest time without a cross-check since the brakes opened
    rates: tuple[float, float] = (math.nan, math.nan)  # [Hz] in, out
    latencies: list[tuple[float, float]] = field(default_factory=list)  # [ms] p50, p99

    def see_state(self, position: Array, velocity: Array) -> None:
        """Take a joint state (n,), (n,)."""
        self.states += 1
        self.position, self.velocity = position, velocity
        away = abs(position - self.pose)
        # Once NaN, NaN for ever: a position that is no number is not the pose.
        self.moved = np.maximum(self.moved, away) if len(self.moved) else away

    def see_check(self, values: Mapping[str, str], level: int, now: float) -> None:
        """Take the values of a cross-check and its level, an index of LEVELS."""
        self.checks += 1
        self.level = max(self.level, min(level, 2))
        self.disagreement = {term: float(values[term]) for term in TERMS}
        for term, value in self.disagreement.items():
            value = math.inf if math.isnan(value) else value
            self.worst[term] = max(self.worst.get(term, 0.0), value)
        self.tolerances = float(values['warn_tolerance']), float(values['error_tolerance'])
        self.engines = values['engine'], values['check_engine']
        self._measure_silence(now)
        self.last_check = now

    def see_traffic(self, values: Mapping[str, str]) -> None:
        """Take what the node says about its rates and latencies."""
        self.rates = float(values['rate in [Hz]']), float(values['rate out [Hz]'])
        latency = float(values['latency p50 [ms]']), float(values['latency p99 [ms]'])
        if self.opened is not None and not math.isnan(latency[0]):
            self.latencies.append(latency)

    def end(self, now: float) -> None:
        """Look no longer."""
        self._measure_silence(now)

    def _measure_silence(self, now: float) -> None:
        if self.opened is not None and not math.isnan(self.last_check):
            self.silence = max(self.silence, now - max(self.last_check, self.opened))

    @property
    def latency(self) -> tuple[float, float]:
        """The usual median and the largest 99th percentile [ms]."""
        if not self.latencies:
            return math.nan, math.nan
        return median(p50 for p50, _ in self.latencies), max(p99 for _, p99 in self.latencies)


def judge(seen: Seen) -> list[str]:
    """Return what was wrong, a sentence each; nothing when the demo has shown what it is to."""
    if not seen.states:
        return ['no joint states were seen: the simulator does not answer']
    if not seen.checks:
        return ['no cross-check was seen: the node does not answer']
    faults = []
    if seen.level:
        term = max(seen.worst, key=lambda term: seen.worst[term])
        faults.append(
            f'the engines disagree: {TERMS[term]} by {seen.worst[term]:.1e}, '
            f'the tolerance is {seen.tolerances[0]:.0e}')
    if seen.opened is None:
        faults.append('the brakes never opened: no torque came to the simulator')
    for joint, turns, moved in zip(seen.joints, seen.turns, seen.moved, strict=True):
        if not moved <= HELD:
            faults.append(f'{joint} did not hold its pose: it moved by {moved:.1e} '
                          f'{"rad" if turns else "m"}, the tolerance is {HELD:g}')
    if seen.silence > SILENCE:
        faults.append(f'the node was silent for {seen.silence:.1f} s')
    return faults


# -- how it looks ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Style:
    """What the terminal can show."""

    colour: bool = False
    unicode: bool = False

    def paint(self, text: str, code: str) -> str:
        """Return the text in a colour, given as the number of an ANSI code."""
        return f'\x1b[{code}m{text}\x1b[0m' if self.colour and text.strip() else text

    def bar(self, part: float, width: int) -> str:
        """Return a bar of which a part from 0 to 1 is filled."""
        filled = round(min(max(part, 0.0), 1.0) * width)
        full, rest = ('━', '━' if self.colour else '╌') if self.unicode else ('#', '-')
        return self.paint(full * filled, '36') + self.paint(rest * (width - filled), '2')


def fixed(value: float, width: int, decimals: int) -> str:
    """Return a number right-aligned, with a blank before it."""
    text = f'{value:.{decimals}f}'
    if len(text) >= width:
        text = f'{value:.1e}'
    if float(text) == 0.0:
        text = text.removeprefix('-')
    return text.rjust(width)


def name_of(joint: str, width: int) -> str:
    """Return a joint's name; where it is too long, its middle is left out, for ends differ."""
    if len(joint) > width:
        ending = (width - 2) // 2
        joint = f'{joint[:width - 2 - ending]}..{joint[-ending:]}'
    return joint.ljust(width)


def level_of(value: float, tolerances: tuple[float, float]) -> str:
    """Return OK, WARN or ERROR."""
    warn, error = tolerances
    return LEVELS[0 if value <= warn else 1 if value <= error else 2]


def hertz_and_latency(seen: Seen) -> str:
    """Return rates and latencies in words."""
    rate_in, rate_out = seen.rates
    if math.isnan(rate_in):
        return 'no report yet, it comes once a second'
    text = f'{rate_in:.0f} Hz in, {rate_out:.0f} Hz out'
    if seen.latencies:
        p50, p99 = seen.latencies[-1]
        text += f', latency p50 {p50:.2f} ms, p99 {p99:.2f} ms'
    return text


def table(seen: Seen, elapsed: float, seconds: float, style: Style) -> list[str]:
    """Return the lines of the live table, each at most WIDTH characters wide.

    Args:
        seen: what there is to show.
        elapsed: [s] since the brakes opened, or since the start while they hold.
        seconds: [s] for which the arm is to be held.
        style: of the terminal.
    """
    def heading(text: str) -> str:
        return style.paint(text, '1;36')

    title = f' {seen.stem}'
    subtitle = f'  {seen.title}'
    engines = (f'{seen.engines[0]} checked by {seen.engines[1]} to {seen.tolerances[0]:.0e}'
               if seen.checks else '')
    if len(title) + len(subtitle) + 2 + len(engines) > WIDTH:
        subtitle = ''
    blank = ' ' * max(WIDTH - len(title) - len(subtitle) - len(engines), 2)
    lines = [style.paint(title, '1') + subtitle + blank + style.paint(engines, '2'), '']
    lines += _joint_rows(seen, heading)
    if seen.mass_matrix is not None:
        # As wide as the columns above, narrower where there are many.
        column, decimals = (11, 4) if len(seen.joints) <= 5 else (9, 3)
        lines += ['', heading(' ' + 'M'.ljust(12) + ''.join(
            ' ' + name_of(joint, column - 1).rstrip().rjust(column - 1) for joint in seen.joints))]
        lines += [' ' + name_of(joint, 12) + ''.join(fixed(m, column, decimals) for m in row)
                  for joint, row in zip(seen.joints, seen.mass_matrix, strict=True)]
    if seen.checks:
        lines += ['', heading(' ' + 'disagreement'.ljust(12) + ''.join(
            symbol.rjust(11).ljust(16) for symbol in TERMS.values()).rstrip())]
        for label, values in (('now', seen.disagreement), ('worst so far', seen.worst)):
            levels = {term: level_of(values[term], seen.tolerances) for term in TERMS}
            lines.append(' ' + label.ljust(12) + ''.join(
                f'{values[term]:11.1e}' + style.paint(f' {level:<4}', COLOURS[level])
                for term, level in levels.items()))
    lines.append('')
    if not seen.states:
        lines.append(' ' + style.paint('the processes start and find each other ...', '33'))
    elif seen.opened is None:
        lines.append(heading(' brakes ') + '     closed, until the first torque comes')
    else:
        lines.append(heading(' brakes ') + '     open: the computed torques alone hold the arm')
    lines.append(heading(' node   ') + f'     {hertz_and_latency(seen)}')
    held = elapsed if seen.opened is not None else 0.0
    clock = f'{min(held, seconds):.1f} of {seconds:g} s'
    lines.append(heading(' time   ') + '     ' + style.bar(held / seconds, 43) + '  ' + clock)
    return lines


def _joint_rows(seen: Seen, heading: Callable[[str], str]) -> list[str]:
    columns: list[tuple[str, Array | None]] = [
        ('position', seen.position), ('velocity', seen.velocity), ('gravity', seen.gravity),
        ('torque', seen.torque)]
    lines = [heading(' ' + 'joint'.ljust(12) + ''.join(name.rjust(11) for name, _ in columns)
                     + 'moved'.rjust(10) + '  unit')]
    for row, joint in enumerate(seen.joints):
        cells = ''.join('-'.rjust(11) if values is None else fixed(values[row], 11, 4)
                        for _, values in columns)
        moved = f'{seen.moved[row]:10.0e}' if len(seen.moved) else '-'.rjust(10)
        unit = 'rad, Nm' if seen.turns[row] else 'm, N'
        lines.append(' ' + name_of(joint, 12) + cells + moved + '  ' + unit)
    return lines


def fitted(lines: Sequence[str], height: int) -> list[str]:
    """Return the lines that a terminal of this height can redraw: blank ones go first."""
    room = max(height - 1, 1)  # the cursor rests below the table
    lines = list(lines)
    for index in reversed(range(len(lines))):
        if len(lines) > room and not lines[index]:
            del lines[index]
    return lines[:room]


def plain_line(seen: Seen, elapsed: float) -> str:
    """Return one line for where no table can be drawn."""
    if seen.position is None or not seen.checks or seen.gravity is None:
        return f'{elapsed:5.1f} s  the processes start and find each other ...'
    worst = max(seen.disagreement.values())
    parts = [
        f'{elapsed:5.1f} s',
        'q ' + ' '.join(f'{value:.4f}' for value in seen.position + 0.0),
        'g ' + ' '.join(f'{value:.4f}' for value in seen.gravity + 0.0),
        f'moved {seen.moved.max():.0e}',
        f'disagreement {worst:.1e} {level_of(worst, seen.tolerances)}',
    ]
    if seen.latencies:
        parts.append(f'{seen.rates[0]:.0f} Hz in, {seen.rates[1]:.0f} Hz out, '
                     f'{seen.latencies[-1][0]:.2f} ms')
    return '  '.join(parts)


def summary(seen: Seen, elapsed: float, faults: Sequence[str], style: Style) -> list[str]:
    """Return the lines that end the demo."""
    held = elapsed if seen.opened is not None else 0.0
    lines = ['', style.paint(f'{seen.stem}: {held:.1f} s without brakes', '1'),
             f'  messages      {seen.states} joint states, {seen.checks} cross-checks']
    if seen.checks:
        lines.append(f'  disagreement  {max(seen.worst.values()):.1e} at worst, '
                     f'tolerance {seen.tolerances[0]:.0e}')
    if seen.states:
        units = {'rad' if turns else 'm' for turns in seen.turns}
        lines.append(f'  pose          moved by {seen.moved.max():.1e} '
                     f'{" or ".join(sorted(units, reverse=True))} at most, tolerance {HELD:g}')
    p50, p99 = seen.latency
    lines.append('  latency       ' + (
        'no report in this time' if math.isnan(p50) else
        f'p50 {p50:.2f} ms, p99 {p99:.2f} ms at {seen.rates[0]:.0f} Hz in'))
    if faults:
        lines.append(style.paint('FAILED', COLOURS['ERROR']) + ': ' + '; '.join(faults))
    else:
        lines.append(style.paint('OK', COLOURS['OK'])
                     + ': the engines agree, and the computed torques held the arm')
    return lines


class Screen:
    """Where the demo writes: a table that is redrawn in place, or plain lines."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        """Find out what the stream can show."""
        self._stream = stream
        self.live = stream.isatty() and environment.get('TERM', 'dumb') != 'dumb'
        self.style = Style(
            colour=self.live and not environment.get('NO_COLOR'),
            unicode='utf' in (stream.encoding or '').lower())
        self._height = 0  # of the table on the screen
        self._touched = False

    def draw(self, lines: Sequence[str]) -> None:
        """Draw the table over the one before."""
        lines = fitted(lines, shutil.get_terminal_size().lines)
        up = f'\x1b[{self._height}A' if self._height else ''
        self._touched = True
        self._write(HIDE_CURSOR + NO_WRAP + '\r' + up
                    + ''.join(f'{line}\x1b[K\n' for line in lines) + '\x1b[J' + WRAP)
        self._height = len(lines)

    def print(self, *lines: str) -> None:
        """Write lines below what stands there."""
        self._write(''.join(f'{line}\n' for line in lines))

    def restore(self) -> None:
        """Leave the terminal as it was; where it is gone, so be it."""
        if self._touched:
            with suppress(OSError, ValueError):
                self._write(WRAP + SHOW_CURSOR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
