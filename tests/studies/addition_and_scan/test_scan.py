"""Commands, each row worked out again by the interpreter, which examples by hand check."""

import numpy as np
from studies.addition_and_scan.interpreter import is_right

from rb_interp.studies.addition_and_scan.scan import (
    LONGEST_ANSWER,
    LONGEST_COMMAND,
    VERBS,
    ScanTask,
    sentences,
)

TASK = ScanTask(verbs=4, n_sequences=500)
DATA = TASK.dataset(seed=3)
BY_HAND = {
    "jump": "JUMP",
    "look right": "TURN_RIGHT LOOK",
    "run thrice": "RUN RUN RUN",
    "hop left twice": "TURN_LEFT HOP TURN_LEFT HOP",
    "walk and jump": "WALK JUMP",
    "walk after jump": "JUMP WALK",
    "walk left after run twice": "RUN RUN TURN_LEFT WALK",
    "look twice and look right thrice": "LOOK LOOK TURN_RIGHT LOOK TURN_RIGHT LOOK TURN_RIGHT LOOK",
}


def test_the_generator_lists_every_command_once_with_what_the_interpreter_orders():
    every = sentences(VERBS)
    assert len(every) == len({sentence.command for sentence in every}) == 9 * 12 + 2 * (9 * 12) ** 2
    for command, actions in every:
        assert is_right(" ".join(command), " ".join(actions)), command
    assert max(len(sentence.command) for sentence in every) == LONGEST_COMMAND
    assert max(len(sentence.actions) for sentence in every) == LONGEST_ANSWER
    listed = {" ".join(sentence.command): " ".join(sentence.actions) for sentence in every}
    assert {command: listed[command] for command in BY_HAND} == BY_HAND


def test_every_row_obeys_the_definition():
    commands = {
        name: [TASK.command(DATA.tokens[row]) for row in DATA.rows(name)] for name in TASK.sets
    }
    for row in range(len(DATA)):
        tokens, labels = DATA.tokens[row], DATA.labels[row]
        written = [TASK.words[token] for token in tokens]
        arrow = written.index("=>")
        answer = [TASK.words[token] for token in labels if token >= 0]
        assert is_right(" ".join(written[:arrow]), " ".join(answer[:-1]))
        assert answer[-1] == "<end>"
        assert TASK.answer(labels) == " ".join(answer[:-1])
        assert np.flatnonzero(labels >= 0).tolist() == list(range(arrow, arrow + len(answer)))
        following = [*written[arrow + 1 :], "<end>"]  # a model sees the row without its last token
        assert following[: len(answer)] == answer
        assert set(following[len(answer) :]) <= {"<end>"}
    alone = commands["train"].count("jump")
    rest = [command for command in commands["train"] if command != "jump"]
    assert (alone, len(rest), len(set(rest))) == (50, 450, 450)
    for command in (*rest, *commands["seen_test"]):
        assert "jump" not in command.split()
    assert not set(rest) & set(commands["seen_test"])
    every = {" ".join(sentence.command) for sentence in sentences(VERBS[:4])}
    assert {"jump", *rest, *commands["seen_test"], *commands["composites"]} == every
    for command in commands["composites"]:
        assert "jump" in command.split()
        assert command != "jump"
    assert len(commands["composites"]) == len(set(commands["composites"]))


def test_a_smaller_number_of_rows_is_part_of_a_larger_one_and_a_seed_draws_them():
    trained = [
        {TASK.command(data.tokens[row]) for row in data.rows("train")}
        for data in (
            ScanTask(4, n).dataset(seed) for n, seed in ((200, 3), (500, 3), (500, 3), (500, 4))
        )
    ]
    assert trained[0] < trained[1] == trained[2] != trained[3]
