"""A step that a CUDA graph records once and replays.

Whatever a step reads stands in tensors that are never replaced: an epoch's order of rows, the number
of the batch, and what the update reads of each step (``updates.NUMBERS``). Between chunks of steps
they are written anew. Nothing else may change from step to step, since a graph repeats a number of
Python's as it was when it was recorded.

`StaticStep` is an ordinary function, and runs as one on a CPU. On a GPU `Replayed` calls it three
times on a stream of its own, which are three steps of the training, records it, and replays it from
then on: so a graph's steps are those of the function, to the bit.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp.errors import ConfigError, first_line
from rb_interp.training.tracking import Batches
from rb_interp.training.updates import NUMBERS, StackedUpdate

WARM_UP = 3
"""Calls before a graph is recorded: libraries take their workspaces, compilers compile."""
CHUNK = 256
"""Steps whose numbers are on the device at once, at most."""
GRAPHS = WeakValueDictionary()
"""Device -> the graph that was recorded last. The next one shares its memory: nothing in it outlives
a replay, and replays follow each other."""


class StaticStep:
    """A step of a group of members on tensors that stay where they are.

    Args:
        batches: what is learned. gradients: those of every trained tensor, of the tokens and labels
            of each seed. update: what is done with them.
        before: is called with each member's learning rate before every step.
    """

    def __init__(
        self,
        batches: Batches,
        gradients: Callable[[Tensor, Tensor], Sequence[Tensor]],
        update: StackedUpdate,
        before: Callable[[Tensor], None],
    ) -> None:
        self.batches = batches
        self.gradients = gradients
        self.update = update
        self.before = before
        weights = update.weights
        self.numbers = weights.new_zeros(CHUNK, len(NUMBERS), len(weights))
        self.index = torch.zeros(1, dtype=torch.int64, device=weights.device)
        self.batch = torch.zeros_like(self.index)

    def __call__(self) -> None:
        """Take the next step of a chunk."""
        numbers = self.numbers.index_select(0, self.index)[0]
        self.before(numbers[0])
        gradients = self.gradients(*self.batches.rows(self.batch))
        self.update(gradients, numbers)
        self.index.add_(1)
        self.batch.add_(1)

    def advance(self, step: int, steps: int, take: Callable[[], None]) -> int:
        """Take steps, the first of which is ``step``, by a function that takes one; returns the
        step that follows."""
        last = step + steps
        while step < last:
            batch, left = self.batches.begin(step)
            chunk = range(step, min(last, step + left, step + CHUNK))
            numbers = np.stack([self.update.numbers(number) for number in chunk])
            self.numbers[: len(chunk)] = torch.from_numpy(numbers)
            self.index.zero_()
            self.batch.fill_(batch)
            for _ in chunk:
                take()
            step = chunk.stop
        return step


class Replayed:
    """A function without arguments that is recorded in a CUDA graph after WARM_UP calls, and
    replayed from then on.

    Where recording fails, the function is called as it is, and stderr has a sentence;
    ``required=True`` raises ConfigError instead.

    Attributes:
        replays: how often the graph was replayed. failure: why it was not recorded, or "".
    """

    def __init__(self, function: Callable[[], None], device: torch.device, required: bool) -> None:
        self.function = function
        self.device = device
        self.required = required
        self.calls = 0
        self.replays = 0
        self.failure = ""
        self.graph: Any = None

    def __call__(self) -> None:
        """Call the function, or replay it."""
        if self.graph is None and self.calls >= WARM_UP and not self.failure:
            self._record()
        if self.graph is not None:
            self.graph.replay()
            self.replays += 1
        elif self.failure:
            self.function()
        else:
            self._warm_up()

    def _warm_up(self) -> None:
        stream = recording_stream(self.device)
        current = torch.cuda.current_stream(self.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            self.function()
        current.wait_stream(stream)
        self.calls += 1

    def _record(self) -> None:
        stream = recording_stream(self.device)
        earlier = GRAPHS.get(self.device)
        pool = earlier.pool() if earlier else None
        graph = torch.cuda.CUDAGraph()
        # A recording that fails leaves its own stream in force, so the current one is put around it.
        current = torch.cuda.current_stream(self.device)
        try:
            with torch.cuda.stream(current), torch.cuda.graph(graph, pool, stream):
                self.function()
        except RuntimeError as error:
            self.failure = f"the step could not be recorded in a CUDA graph ({first_line(error)})"
            if self.required:
                raise ConfigError(f"cuda_graph='on': {self.failure}; set 'auto'.") from None
            tqdm.write(f"Single steps: {self.failure}.", file=sys.stderr)
        else:
            self.graph = GRAPHS[self.device] = graph


@cache
def recording_stream(device: torch.device) -> Any:
    """The stream of a device on which steps warm up and are recorded."""
    return torch.cuda.Stream(device)
