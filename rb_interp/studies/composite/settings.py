"""Settings of a composite task that contradict each other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rb_interp.errors import TaskError

if TYPE_CHECKING:
    from rb_interp.studies.composite.task import CompositeTask


def random_candidates(task: CompositeTask) -> list[tuple[int, int]]:
    """Pairs that random exceptions are drawn from: trained ones with a trained mirror, which are no exceptions yet."""
    taken = {*task.held_out, *(pair[::-1] for pair in task.held_out), *(pair for pair, _ in task.exceptions)}
    return [pair for pair in task.trained if pair not in taken]


def random_shifts(task: CompositeTask, pair: tuple[int, int]) -> list[int]:
    """Shifts that a random exception may have."""
    own = sum(task.shifts[anchor - 1] for anchor in pair)
    return [shift for shift in range(2 * min(task.shifts), 2 * max(task.shifts) + 1) if shift != own]


def check(task: CompositeTask) -> None:
    """Raise TaskError, saying what to change, where the settings contradict each other."""
    n, (low, high) = len(task.shifts), task.items
    if low > high:
        raise TaskError(f"items=({low}, {high}) is no range of tokens; expected low <= high.")
    if low <= n:
        raise TaskError(f"items=({low}, {high}) overlap the anchors 1 to {n}; start items at {n + 1} or above.")
    if high >= task.d_vocab:
        raise TaskError(f"items=({low}, {high}) reach outside d_vocab={task.d_vocab}; raise d_vocab above {high}.")
    if high - low + 1 < task.modulus:
        raise TaskError(
            f"items=({low}, {high}) with split='{task.split}' leave some position without a test key; use at least "
            f"{task.modulus} items."
        )
    _check_pairs(task)
    _check_answers(task)
    _check_random(task)
    _check_counts(task)


def _check_pairs(task: CompositeTask) -> None:
    """Exceptions and held-out pairs are known, given once, and apart; something is held out and something trained."""
    n, excepted, held_out = len(task.shifts), [pair for pair, _ in task.exceptions], set(task.held_out)
    for name, pairs in (("exceptions", excepted), ("held_out", task.held_out)):
        counts = Counter(pairs)
        for pair in pairs:
            if not all(1 <= anchor <= n for anchor in pair):
                raise TaskError(f"{name} has the pair {pair}, which is none of the anchors 1 to {n}; use those.")
            if counts[pair] > 1:
                raise TaskError(f"{name} has the pair {pair} twice; give it once.")
    for pair, shift in task.exceptions:
        if pair in held_out:
            raise TaskError(f"the pair {pair} is an exception and held out; exceptions are trained, so choose one.")
        if shift == sum(task.shifts[anchor - 1] for anchor in pair):
            raise TaskError(
                f"the exception {pair} has the shift {shift}, its anchors' sum; give another or leave it out."
            )
    if len(task.held_out) == n**2:
        raise TaskError(f"all {n**2} pairs are held out; leave one to be trained.")


def _check_answers(task: CompositeTask) -> None:
    """Every answer that the task can ask for, inferential ones of exceptions included, is a token."""
    shifts = [2 * min(task.shifts), 2 * max(task.shifts), *(shift for _, shift in task.exceptions)]
    lowest, highest = task.items[0] + min(shifts), task.items[1] + max(shifts)
    if lowest < 0 or highest >= task.d_vocab:
        raise TaskError(
            f"answers run from {lowest} to {highest}, outside 0..{task.d_vocab - 1}; change items, shifts or d_vocab."
        )


def _check_random(task: CompositeTask) -> None:
    free = len(random_candidates(task))
    if task.random_exceptions > free:
        raise TaskError(
            f"random_exceptions={task.random_exceptions}, but {free} trained pairs can become one: those with a "
            f"trained mirror that are no exceptions yet; ask for at most {free}."
        )
    if task.random_exceptions and min(task.shifts) == max(task.shifts):
        raise TaskError("random_exceptions with equal shifts leave no other shift to draw; use different shifts.")


def _check_counts(task: CompositeTask) -> None:
    if task.rows_per_pair < 1:
        raise TaskError(
            f"n_sequences={task.n_sequences} with test_share={task.test_share:g} leaves {len(task.shifts) ** 2} pairs "
            f"without a row to train on; raise n_sequences or lower test_share."
        )
