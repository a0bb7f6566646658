"""What training does on a GPU, in about three minutes: bits, speed, memory, and where the time goes.

    python experiments/gpu_check.py [--out gpu_check.csv]
    python experiments/gpu_check.py --device cpu --preset smoke --steps 5

One table, which is written to ``--out`` row by row:

    bits      tensors of weights and moments that differ between steps of a CUDA graph and single
              ones, for three members with learning rates and weight decays of their own; 0 is wanted
    rounding  largest difference of weights between GPU and CPU in float64; at most 1e-5 is wanted
    speed     member-steps a second. The peers train pre-norm models on the same batches with torch's
              fused AdamW: a HookedTransformer in a plain loop, and torch.func with all members at once
    memory    the most that was allocated and reserved meanwhile
    share     share of the device's float32 peak, by the operations of matrix products that torch
              counts in forward and backward pass (``operations``)
    update    clipping and AdamW alone
    kernels   how many a step has, how long they take, and those that take longest

On a CPU there is no graph. There the step that a graph would record is compared with that of the
fused optimiser (which differs in the last digits), and timed.
"""

from __future__ import annotations

import argparse
import csv
import gc
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.loop import torch_settings
from rb_interp.training.member_group import LastGroup, Member
from rb_interp.training.updates import clip_per_member

WIDTHS = {"check": 10, "norm": 5, "members": 7, "way": 46, "value": 12, "unit": 14, "wanted": 7}
"""Column -> its width in print."""
PEAKS = {"H100": 67.0, "H200": 67.0}
"""TFLOPS of float32 without tensor cores."""
MEMBERS = [Member(0.3, 0, 3e-4, 0.1), Member(0.8, 1), Member(0.5, 2, 1e-5, 0.0)]
NORMS = ("none", "pre", "post")
GOALS = {1: "2500", 8: "9000"}
"""Members of a stack -> member-steps a second that are wanted on an H200."""
WAYS = {
    "as set": {},
    "single steps": {"cuda_graph": "off"},
    "compiled": {"compile": True},
}
"""How the package takes steps: a CUDA graph on a GPU, static steps on a CPU; no graph; compiled."""
LISTED = 12
"""Kernels that are listed."""


class Check:
    """The checks of one device, and the table of what they gave.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = torch.device(options.device)
        self.on_gpu = self.device.type == "cuda"
        self.task = AnchorTask.preset(options.preset)
        self.data = self.task.dataset(0)
        self.train = replace(TrainConfig.preset("paper"), eval_rows=50, lr=1e-4, warmup=5)
        self.flops: dict[str, float] = {}

    def add(self, check: str, value: Any, unit: str = "", **labels: Any) -> None:
        """Print a row and write it behind those that are there."""
        row = dict.fromkeys(WIDTHS, "") | {"check": check, "value": value, "unit": unit} | labels
        with Path(self.options.out).open("a", newline="") as file:
            csv.DictWriter(file, list(WIDTHS)).writerow(row)
        print("  ".join(f"{row[name]!s:>{width}}" for name, width in WIDTHS.items()), flush=True)

    def model(self, norm: str) -> ModelConfig:
        """The preset's sizes with a norm."""
        return replace(ModelConfig.preset(self.options.preset), norm=norm)

    def group(
        self,
        members: list[Member],
        norm: str,
        *,
        cpu: bool = False,
        static: bool = True,
        **changes: Any,
    ) -> LastGroup:
        """Members that learn the same rows."""
        data = dict.fromkeys([member.seed for member in members], self.data)
        train = replace(self.train, **changes)
        device = torch.device("cpu") if cpu else self.device
        return LastGroup(members, self.model(norm), self.task, train, device, data, static)

    def wait(self) -> None:
        """Wait for the device."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def seconds_a_step(self, advance: Callable[[int], object]) -> float:
        """Time steps for some seconds; the first ones, which record, do not count."""
        advance(min(10, self.options.steps))
        self.wait()
        started = time.perf_counter()
        steps = 0
        while not steps or (self.on_gpu and time.perf_counter() - started < 2):
            advance(self.options.steps)
            self.wait()
            steps += self.options.steps
        return (time.perf_counter() - started) / steps

    def check_bits(self) -> None:
        """Graph against single steps; on a CPU static steps against the fused optimiser's."""
        for norm in NORMS:
            graph = self.group(MEMBERS, norm)
            single = self.group(MEMBERS, norm, cuda_graph="off", static=self.on_gpu)
            for group in (graph, single):
                group.advance(self.options.steps)
            state = single.state()
            differing = [name for name, v in graph.state().items() if not v.equal(state[name])]
            replays = graph.replayed.replays if graph.replayed else 0
            way = f"{self.options.steps} steps, {replays} of them replays"
            labels = {"norm": norm, "members": len(MEMBERS), "way": way}
            wanted = 0 if self.on_gpu else ""
            self.add("bits", len(differing), f"of {len(state)} tensors", **labels, wanted=wanted)

    def check_rounding(self) -> None:
        """The device against a CPU; on a CPU static steps against the fused optimiser's."""
        steps = min(50, self.options.steps)
        for norm in NORMS:
            ours = self.group(MEMBERS, norm, dtype="float64")
            theirs = self.group(MEMBERS, norm, dtype="float64", cpu=True, static=False)
            for group in (ours, theirs):
                group.advance(steps)
            state = theirs.state(moments=False)
            apart = [(v - state[name]).abs().max().item() for name, v in ours.state(False).items()]
            labels = {"norm": norm, "members": len(MEMBERS), "way": f"{steps} steps in float64"}
            self.add("rounding", f"{max(apart):.1e}", **labels, wanted="1e-05")

    def speed(self, way: str, n: int, norm: str, advance: Callable[[int], object]) -> None:
        """Time a way of training, and say what it needs."""
        gc.collect()
        if self.on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        seconds = self.seconds_a_step(advance)
        labels = {"norm": norm, "members": n, "way": way}
        goal = GOALS.get(n, "") if norm == "post" and self.on_gpu else ""
        self.add("speed", round(n / seconds), "member-steps/s", **labels, wanted=goal)
        if self.on_gpu:
            used = torch.cuda.max_memory_allocated() / 2**30
            reserved = torch.cuda.max_memory_reserved() / 2**30
            self.add("memory", f"{used:.2f}", "GiB", **labels)
            self.add("memory", f"{reserved:.2f}", "GiB reserved", **labels)
        if way in WAYS:
            share = n * self.flops[norm] / seconds / 1e12 / self.peak
            self.add(
                "share", f"{share:.3f}", "of the peak", **labels, wanted="0.5" if n == 64 else ""
            )

    def measure_peak(self) -> None:
        """The float32 peak of the device's name, and what a large product reaches."""
        size = 8192 if self.on_gpu else 512
        matrix = torch.randn(size, size, device=self.device)

        def multiply(steps: int) -> None:
            for _ in range(steps):
                torch.mm(matrix, matrix)

        seconds = self.seconds_a_step(multiply)
        reached = 2 * size**3 / seconds / 1e12
        name = torch.cuda.get_device_name() if self.on_gpu else "CPU"
        known = [peak for part, peak in PEAKS.items() if part in name]
        self.peak = known[0] if known else reached
        self.add(
            "peak", f"{reached:.2f}", "TFLOPS", way=f"{name}, a product of {size}", wanted=self.peak
        )
        for norm in NORMS:
            group = self.group([Member(0.8, 0)], norm, cuda_graph="off")
            with FlopCounterMode(display=False) as counter:
                group.gradients()
            self.flops[norm] = counter.get_total_flops()
            self.add(
                "operations", f"{self.flops[norm] / 1e9:.3f}", "GFLOP a step", norm=norm, members=1
            )

    def updates(self, n: int) -> None:
        """Time clipping and AdamW alone, beside torch's fused AdamW without clipping."""
        ours = self.group([Member(0.8, seed) for seed in range(n)], "post").update
        gradients = [torch.randn_like(weight) for weight in ours.trained.values()]
        numbers = torch.from_numpy(ours.numbers(0)).to(ours.weights)
        weights = ours.weights.clone()
        weights.grad = torch.randn_like(weights)
        fused = torch.optim.AdamW([weights], lr=1e-4, fused=True)
        ways = {
            "clipping and AdamW": lambda: ours(gradients, numbers),
            "torch's fused AdamW": fused.step,
        }
        for way, update in ways.items():
            seconds = self.seconds_a_step(
                lambda steps, update=update: [update() for _ in range(steps)]
            )
            self.add("update", f"{seconds * 1e6:.0f}", "us", members=n, way=way)

    def ours(self, n: int, norm: str, **changes: Any) -> Callable[[int], object]:
        """Steps of the package."""
        return self.group([Member(0.8, seed) for seed in range(n)], norm, **changes).advance

    def plain(self) -> Callable[[int], object]:
        """Steps of a HookedTransformer in a plain loop."""
        group = self.group([Member(0.8, 0)], "pre", cuda_graph="off")
        model = self.hooked(group, 0)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

        def advance(steps: int) -> None:
            for step in range(steps):
                tokens, targets = group.batches.of_step(step)
                loss = F.cross_entropy(model(tokens[0])[:, -1], targets[0])
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()

        return advance

    def functional(self, n: int) -> Callable[[int], object]:
        """Steps of HookedTransformers under ``vmap``."""
        group = self.group([Member(0.8, seed) for seed in range(n)], "pre", cuda_graph="off")
        models = [self.hooked(group, index) for index in range(n)]
        stacked, buffers = stack_module_state(models)
        weights = list(stacked.values())
        optimiser = torch.optim.AdamW(weights, lr=1e-4, weight_decay=0.01, fused=True)

        def loss_of(weights: Any, buffers: Any, tokens: Any, labels: Any) -> Any:
            logits = functional_call(models[0], (weights, buffers), (tokens,))
            return F.cross_entropy(logits[:, -1], labels)

        gradients_of = vmap(grad(loss_of), in_dims=(0, 0, None, None))

        def advance(steps: int) -> None:
            for step in range(steps):
                tokens, targets = group.batches.of_step(step)
                gradients = gradients_of(stacked, buffers, tokens[0], targets[0])
                clip_per_member(list(gradients.values()), 1.0)
                for weight, gradient in zip(weights, gradients.values(), strict=True):
                    weight.grad = gradient
                optimiser.step()

        return advance

    def hooked(self, group: LastGroup, index: int) -> Any:
        """A member as a HookedTransformer on the device."""
        weights = {name: value[index].detach() for name, value in group.weights.items()}
        sizes = (self.task.d_vocab, self.task.length)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model: Any = lens_model(group.model, *sizes, weights, torch.float32)
            return model.to(self.device, print_details=False)

    def kernels(self, n: int) -> None:
        """What a step consists of, and what of it takes longest."""
        advance = self.ours(n, "post")
        advance(10)
        self.wait()
        activities = [ProfilerActivity.CUDA if self.on_gpu else ProfilerActivity.CPU]
        steps = min(10, self.options.steps)
        with profile(activities=activities) as profiler:
            advance(steps)
            self.wait()
        events = []
        for event in profiler.key_averages():
            total = event.self_device_time_total if self.on_gpu else event.self_cpu_time_total
            events.append((total / steps, event.count / steps, event.key))
        total = sum(event[0] for event in events)
        count = sum(event[1] for event in events)
        self.add("kernels", f"{total:.0f}", "us", norm="post", members=n, way=f"{count:.0f} a step")
        for used, times, name in sorted(events, reverse=True)[:LISTED]:
            way = f"{times:.0f} x {name}"[:46]
            self.add(
                "kernels", f"{used:.0f}", f"us, {used / total:.0%}", norm="post", members=n, way=way
            )

    def run(self) -> None:
        """All checks, the shortest first."""
        with Path(self.options.out).open("w", newline="") as file:
            csv.writer(file).writerow(WIDTHS)
        self.check_bits()
        self.check_rounding()
        self.measure_peak()
        members = self.options.members
        for n in members:
            for way in ("as set", "single steps"):
                self.speed(way, n, "post", self.ours(n, "post", **WAYS[way]))
        self.speed("as set", 1, "pre", self.ours(1, "pre"))
        self.speed("HookedTransformer, plain loop", 1, "pre", self.plain())
        for n in members:
            self.speed("torch.func", n, "pre", self.functional(n))
        for n in members[-2:]:
            self.updates(n)
            self.kernels(n)
        for n in members if self.options.compile else ():
            self.speed("compiled", n, "post", self.ours(n, "post", compile=True))


def main(arguments: list[str] | None = None) -> None:
    """Run all checks; see the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--preset", default="paper", help="sizes of task and model")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--compile", action="store_true", help="time torch.compile too")
    parser.add_argument("--out", default="gpu_check.csv")
    check = Check(parser.parse_args(arguments))
    with torch_settings(check.train):
        check.run()


if __name__ == "__main__":
    main()
