# SPDX-License-Identifier: Apache-2.0
"""The command of scripts/fuzz."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PROGRESS = 10.0  # [s] between two lines
MOST_GROWTH = 16.0  # [bytes] of memory per message: less than the smallest object of Python
CORPUS = tempfile.TemporaryDirectory(prefix='ros_lagdyn_fuzz_')
LONGEST_TEXT = 200_000  # characters that the guided fuzzer makes


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog='scripts/fuzz', description='Sends hostile input to the node or to the loader of '
        'URDFs. The exit code is 0 where nothing is wrong; 1 where something is, with the '
        'smallest input found that shows it.')
    parser.add_argument('what', choices=('messages', 'urdf'), help='messages: to the callbacks '
                        'of the real node, in this process; urdf: texts to the loader')
    parser.add_argument('--count', type=int, default=0, metavar='N',
                        help='of messages or texts; default 100000, or no limit with --seconds')
    parser.add_argument('--seconds', type=float, default=float('inf'), metavar='S',
                        help='how long at most')
    parser.add_argument('--seed', type=int, default=1, metavar='N',
                        help='the same seed sends the same, where coverage does not guide')
    parser.add_argument('--guide', choices=('coverage', 'none'), default=None,
                        help='what chooses the input: coverage of the code, by atheris (default '
                        'for urdf, where it is installed), or nothing but the seed')
    options = parser.parse_args()
    if options.count < 0 or not options.seconds > 0.0:
        parser.error('--count and --seconds must be positive')
    if not options.count:
        options.count = 100_000 if options.seconds == float('inf') else sys.maxsize
    guided = (options.guide or ('none' if options.what == 'messages' else 'coverage')) != 'none'
    if guided:
        try:
            import atheris  # noqa: F401 (is it there?)
        except ModuleNotFoundError:
            if options.guide:
                parser.error('atheris is not installed: it has wheels for few Pythons')
            print('atheris is not installed: the seed alone chooses', flush=True)
            guided = False
    with Lines() as lines:
        run = {'messages': Messages, 'urdf': Urdfs}[options.what](options, lines, guided)
        return run.guided() if guided else run.seeded()


class Lines:
    """Progress, a line at times; what other libraries say about bad input is dropped."""

    def __enter__(self) -> Lines:
        """Keep the terminal for the lines of this command."""
        self._out = os.fdopen(os.dup(1), 'w')
        self._next = time.monotonic() + PROGRESS
        sys.stdout.flush()
        self._quiet = os.open(os.devnull, os.O_WRONLY)
        self._before = os.dup(2)
        os.dup2(self._quiet, 2)
        return self

    def __exit__(self, *exception: object) -> None:
        os.dup2(self._before, 2)

    def say(self, text: str) -> None:
        """Print a line."""
        self._out.write(text + '\n')
        self._out.flush()

    def progress(self, text: str) -> None:
        """Print a line, if it is time for one."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PROGRESS
            self.say(text)


class Messages:
    """Messages to the node."""

    def __init__(self, options: argparse.Namespace, lines: Lines, guided: bool) -> None:
        """Take the options; code that is to guide must be imported with them known."""
        self._options, self._lines = options, lines
        with instrumented(guided, ['ros_lagdyn']):
            from fuzz import messages
        self._messages = messages

    def seeded(self) -> int:
        """Send what the seed says."""
        result = self._messages.run(
            self._options.count, self._options.seed, seconds=self._options.seconds,
            progress=lambda result: self._lines.progress(self._line(result)))
        return self._close(result)

    def guided(self) -> int:
        """Send what reaches new code; never returns."""
        from fuzz.hostile import STEP

        end = time.monotonic() + self._options.seconds
        queue: list[bytes] = []

        def steps() -> Iterator[bytes]:
            while queue:
                yield queue.pop(0)

        def one(data: bytes) -> None:
            queue[:] = [data[at:at + STEP] for at in range(0, len(data), STEP)]
            player.play_on(steps())
            result = player.result
            self._lines.progress(self._line(result))
            if result.fault or result.sent >= self._options.count or time.monotonic() > end:
                player.end()
                leave(self._close(result))

        generator = random.Random(self._options.seed)
        with self._messages.ros() as context:
            player = self._messages.Player(context, self._options.seed)
            fuzz(one, [generator.randbytes(16 * STEP) for _ in range(50)], self._options.seed,
                 longest=64 * STEP)
        return 1

    @staticmethod
    def _line(result: Any) -> str:
        return (f'{result.sent} messages in {result.seconds:.0f} s, '
                f'{result.sent / max(result.seconds, 1e-9):.0f} per s, '
                f'{(result.memory or [0.0])[-1]:.0f} MB')

    def _close(self, result: Any) -> int:
        say = self._lines.say
        for name, count in sorted(result.counts.items()):
            say(f'{count:>9} {name}')
        at_first = (result.memory or [0.0])[0]
        say(f'{self._line(result)} (at first {at_first:.0f} MB, {result.growth:+.1f} '
            f'bytes per message); {result.cpu_seconds:.0f} s of processor time, slowest message '
            f'{1e3 * result.slowest:.0f} ms of it; seed {self._options.seed}')
        if not result.fault and result.growth > MOST_GROWTH:
            result.fault = f'memory grows by {result.growth:.1f} bytes per message'
        say(f'FAULT\n{result.fault}' if result.fault else
            'nothing crashed, every output was finite and within limits, valid messages were '
            'answered correctly')
        return 1 if result.fault else 0


class Urdfs:
    """Texts to the loader."""

    def __init__(self, options: argparse.Namespace, lines: Lines, guided: bool) -> None:
        """Take the options; code that is to guide must be imported with them known."""
        self._options, self._lines = options, lines
        with instrumented(guided, ['ros_lagdyn', 'urdf_parser_py']):
            from fuzz import urdfs
        self._urdfs = urdfs
        self._loader = urdfs.Loader()
        self._loader.load(urdfs.seeds()[0])  # what is imported late, and once
        self._loader.slowest = 0.0
        self._begin = time.monotonic()
        self._at_first = urdfs.peak_memory()
        self._texts = 0

    def seeded(self) -> int:
        """Load what the seed says."""
        mutants = self._urdfs.Mutants(self._options.seed)
        while not self._is_over():
            text = mutants.next()
            if fault := self._load(text):
                return self._close(fault)
            if self._is_arm:
                mutants.keep(text)
        return self._close('')

    def guided(self) -> int:
        """Load what reaches new code; never returns."""
        import atheris

        pool = self._urdfs.seeds()

        def one(data: bytes) -> None:
            fault = self._load(data.decode('utf-8', 'replace'))
            if fault or self._is_over():
                leave(self._close(fault))

        def mutate(data: bytes, longest: int, seed: int) -> bytes:
            if seed % 4 == 0:
                return bytes(atheris.Mutate(data, longest))
            text = self._urdfs.mutated(
                data.decode('utf-8', 'replace'),
                self._urdfs.Source(random.Random(seed).randbytes(32)), pool)
            return text.encode('utf-8', 'replace')[:longest]

        fuzz(one, [text.encode() for text in pool], self._options.seed, longest=LONGEST_TEXT,
             custom_mutator=mutate)
        return 1

    def _is_over(self) -> bool:
        return (self._texts >= self._options.count
                or time.monotonic() - self._begin > self._options.seconds)

    def _load(self, text: str) -> str:
        """Load a text; return what went wrong."""
        self._texts += 1
        try:
            self._is_arm = self._loader.load(text)
        except Exception:
            return f'{traceback.format_exc()}\nShown by the text:\n\n{text[:20_000]}\n'
        self._lines.progress(self._line())
        return ''

    def _line(self) -> str:
        seconds = time.monotonic() - self._begin
        return (f'{self._texts} texts in {seconds:.0f} s, {self._texts / seconds:.0f} per s, '
                f'at most {1e3 * self._loader.slowest:.0f} ms of processor time and '
                f'{self._urdfs.peak_memory():.0f} MB')

    def _close(self, fault: str) -> int:
        for name, count in sorted(self._loader.counts.items()):
            self._lines.say(f'{count:>9} {name}')
        self._lines.say(self._line() + f' (at first {self._at_first:.0f} MB); '
                        f'seed {self._options.seed}')
        self._lines.say(f'FAULT\n{fault}' if fault else
                        'each text was an arm or a LagdynError, in time and in little memory')
        return 1 if fault else 0


def instrumented(guided: bool, packages: list[str]) -> Any:
    """Return a block in which imported code of packages notes what of it runs, if wanted."""
    if not guided:
        import contextlib

        return contextlib.nullcontext()
    import atheris

    return atheris.instrument_imports(include=packages)


def fuzz(one: Any, corpus: list[bytes], seed: int, *, longest: int, **more: Any) -> None:
    """Let atheris call `one` with what reaches new code, for ever."""
    import atheris

    for number, data in enumerate(corpus):
        (Path(CORPUS.name) / f'{number}').write_bytes(data)
    atheris.Setup([
        'fuzz', f'-seed={seed}', f'-max_len={longest}', '-timeout=60', '-rss_limit_mb=4000',
        f'-artifact_prefix={tempfile.gettempdir()}/', '-verbosity=0', CORPUS.name], one, **more)
    atheris.Fuzz()


def leave(code: int) -> None:
    """End the process from inside of what atheris calls: it lets no exception through."""
    CORPUS.cleanup()
    os._exit(code)


if __name__ == '__main__':
    sys.exit(main())
