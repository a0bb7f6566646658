"""The card of a shared member: ``README.md`` with the Hub's front matter, for a reader who has never seen this package.

Texts of a run may come from elsewhere: in the page they are escaped, in the front matter ``huggingface_hub`` quotes
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from textwrap import fill
from typing import Any

from rb_interp.errors import printable
from rb_interp.runs.sharing.content import DRAWN, STORED, Content

LIBRARY = "rb-interp"
TAGS = ("transformer-lens", "mechanistic-interpretability", "initialisation", LIBRARY)
MOST_READINGS = 20
"""Readings that a card shows; all of them stand in config.json."""
UNTRAINED = {
    DRAWN: "`member.untrained` is the same model at step 0, drawn again bit for bit from scheme, gamma and seed.",
    STORED: "`member.untrained` is the same model at step 0, from `untrained.safetensors`.",
    "none": "It has no untrained counterpart.",
}
UNKNOWN = "Nobody has named its circuit."
EXCHANGED = "Shares are of the change of the answer that a changed input makes, by exchange of activations."
SHARES = {
    "cause": EXCHANGED,
    "interchange": EXCHANGED,
    "ablation": "Shares are of the accuracy, lost where a component is replaced by its mean.",
}
"""How a circuit was named -> what its shares are of."""
EXPLAINED = (
    "A name and its shares are of the rows that the member answers rightly. What each number means, and how it can "
    "mislead, stands in the documentation of rb_interp under *probes* and *interventions*."
)


def card(content: Content) -> str:
    """The text of ``README.md``."""
    parts = [f"---\n{_front_matter(content)}\n---", f"# {text(content.name)}", _opening(content), _use(content)]
    parts += [_circuit(content), _accuracy(content), *_readings(content), _training(content)]
    return "\n\n".join(part for part in parts if part) + "\n"


def text(value: Any) -> str:
    r"""A text as Markdown shows it, on one line: nothing in it is markup.

    >>> text("a|b\n<img src=x> [c](d) `e`")
    'a\\|b &lt;img src=x&gt; \\[c\\](d) \\`e\\`'
    """
    line = escape(" ".join(printable(str(value)).split()), quote=False)
    return "".join(f"\\{letter}" if letter in "\\`*[]|#" else letter for letter in line)


def _front_matter(content: Content) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    task = content.task.kind.rpartition(":")[2]
    results = [
        EvalResult("other", task, task, "accuracy", value, task_name="right answers", dataset_split=name)
        for name, value in content.accuracy.items()
        if math.isfinite(value)
    ]
    circuit: dict[str, Any] = {} if content.circuit is None else {"circuit": content.circuit.name}
    data = ModelCardData(
        license=content.licence,
        library_name=LIBRARY,
        tags=list(TAGS),
        model_name=content.name,
        eval_results=results or None,
        **circuit,
    )
    return data.to_yaml().strip()


def _opening(content: Content) -> str:
    model = content.model
    kind = f"{model.n_layers}-layer transformer" if model.architecture == "transformer" else model.architecture
    drawn = "" if content.seed is None else f", gamma {_number(content.gamma)}, seed {content.seed}"
    task = content.task.kind.rpartition(":")[2]
    sizes = f"d_model {model.d_model}, norm {model.norm}"
    about = f"{text(content.description)}\n\n" if content.description else ""
    stage = f", at stage {text(content.stage)}" * bool(content.training)
    return f"{about}A {text(kind)} ({sizes}{drawn}) on the task `{text(task)}`{stage}."


def _use(content: Content) -> str:
    return (
        "```python\n"
        "import rb_interp as rb\n\n"
        'member = rb.from_pretrained("PATH OR HUB ID")\n'
        "member.model, member.task, member.untrained, member.circuit, member.readings\n"
        "```\n\n"
        f"`member.model` is a TransformerLens model. {UNTRAINED[content.untrained]}"
    )


def _circuit(content: Content) -> str:
    found = content.circuit
    if found is None:
        return f"## Circuit\n\n{UNKNOWN}"
    rule = f"\n\nThe rule of the name: {text(found.rule)}." if found.rule else ""
    rows = [(text(name), _number(share)) for name, share in found.shares.items()]
    about = fill(f"{SHARES.get(found.by, '')} {EXPLAINED}".strip(), 120)
    table = f"\n\n{_table(('share', 'value'), rows)}\n\n{about}" if rows else ""
    return f"## Circuit\n\n**{text(found.name)}**, named by {text(found.by)}.{rule}{table}"


def _accuracy(content: Content) -> str:
    rows = [(text(name), _number(value)) for name, value in content.accuracy.items()]
    return f"## Accuracy\n\n{_table(('set', 'rows answered rightly'), rows)}" if rows else ""


def _readings(content: Content) -> Iterable[str]:
    if not content.readings:
        return []
    columns = ("probe", "layer", "head", "quantity", "set", "value", "untrained", "null_mean", "n")
    seen: dict[Any, Mapping[str, Any]] = {}
    for row in content.readings:
        seen.setdefault((row.get("probe"), row.get("layer"), row.get("head"), row.get("set")), row)
    chosen = list(seen.values())[:MOST_READINGS]
    shown = [tuple(_cell(row.get(column)) for column in columns) for row in chosen]
    left = len(content.readings) - len(chosen)
    more = f"\n\n{left} further readings stand in `config.json`; `member.readings` is the table." if left else ""
    return [f"## Readings\n\n{_table(columns, shown)}{more}"]


def _training(content: Content) -> str:
    made = ", ".join(f"{text(name)} {text(version)}" for name, version in content.versions.items())
    scheme = (
        f"Initial weights: scheme {text(content.model.scheme)}, gamma {_number(content.gamma)}, seed {content.seed}."
    )
    rows = [(text(name), _cell(value)) for name, value in content.training.items()]
    table = f"{scheme} Step {content.step:,} of:\n\n{_table(('setting', 'value'), rows)}" if rows else "By hand."
    return f"## How it was made\n\n{table}\n\nVersions: {made}."


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    return _number(value) if isinstance(value, float) else "" if value is None else text(value)


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.4g}"
