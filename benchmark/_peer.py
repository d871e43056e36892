# SPDX-License-Identifier: Apache-2.0
"""Processes that take part in a benchmark: started, told what to do by lines of JSON, ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
DEADLINE = 30.0  # [s], far above what a peer needs to start, to be discovered or to end


def environment() -> dict[str, str]:
    """Return the variables for peers: this host only, and the code of this checkout."""
    prefix = Path(sys.prefix)
    own = {'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST', 'ROS_DOMAIN_ID': str(os.getpid() % 100)}
    if (prefix / 'share' / 'ament_index').is_dir():  # ROS from PyPI: the venv is the prefix
        own['AMENT_PREFIX_PATH'] = str(prefix)
    # Of scripts here, too: PYTHONSAFEPATH leaves their folder out.
    paths = filter(None, [str(HERE.parent), str(HERE), os.environ.get('PYTHONPATH', '')])
    return {**own, **os.environ, 'PYTHONPATH': os.pathsep.join(paths)}


def script(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a file of this folder."""
    return [sys.executable, str(HERE / name), *arguments]


def node_of(module: str, namespace: str, params_file: Path, **parameters: str) -> list[str]:
    """Return the command that runs a node of ros_lagdyn as users do, such as dynamics_node."""
    settings = [text for name, value in parameters.items() for text in ('-p', f'{name}:={value}')]
    return [sys.executable, '-m', f'ros_lagdyn.ros_node.{module}', '--ros-args',
            '-r', f'__ns:=/{namespace}', '--params-file', str(params_file), *settings]


def write_params_file(folder: str, urdf: str) -> Path:
    """Write a file of parameters with a robot_description: it does not survive `-p`."""
    path = Path(folder) / 'parameters.yaml'
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': {'robot_description': urdf}}}))
    return path


class Peer:
    """A process with a line of JSON in for each line of JSON out."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, **order: Any) -> None:
        """Send an order without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + '\n')
        self.process.stdin.flush()

    def reply(self, deadline: float = DEADLINE) -> Any:
        """Wait for an answer.

        Raises:
            RuntimeError: none came within the deadline [s], or the process has ended.
        """
        stdout = self.process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], deadline)
        line = stdout.readline() if ready else ''
        if not line:
            raise RuntimeError(f'no answer from {" ".join(self.process.args)}')
        return json.loads(line)

    def ask(self, deadline: float = DEADLINE, **order: Any) -> Any:
        """Send an order and wait for the answer."""
        self.tell(**order)
        return self.reply(deadline)

    def cpu_time(self) -> float:
        """Return the CPU time of all its threads so far [s].

        The clock of another process by its id, as clock_getcpuclockid() makes it: nanoseconds,
        where /proc/<pid>/stat counts in hundredths of a second.
        """
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def end(self) -> None:
        """Ask it to end, and see that it does."""
        self.process.terminate()
        try:
            self.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def running(*commands: list[str]) -> Iterator[list[Peer]]:
    """Run peers for the time of a `with`; none is left behind."""
    peers: list[Peer] = []
    try:
        for command in commands:
            peers.append(Peer(command))
        yield peers
    finally:
        for peer in reversed(peers):
            peer.end()
