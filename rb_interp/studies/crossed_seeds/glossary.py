"""What the words of the report on crossed seeds mean."""

from rb_interp.interventions.circuit_names import CAUSE_RULES
from rb_interp.report.glossary import shared

GLOSSARY: dict[str, str] = {
    **shared("memory, reasoning"),
    "seed, member": "A member is one model: one γ, one seed of the data and one seed of the initial weights.",
    "seed of the data": "Fixes rows, label table and order of batches; sweep data_3 has the data of seed 3.",
    "seed of the initial weights": (
        "Fixes the standard normal draws. A member whose two seeds are the same is the anchor study's member of that "
        "seed."
    ),
    "share of the key's effect": (
        "Another key changes the logit of the new answer less that of the old one. The share is what remains of this "
        "change where only the last layer's input at some positions (a route) is taken from the row with the other "
        "key; sum over rows by sum over rows, cut off at 0 and 1."
    ),
    "circuit by cause": (
        "What a member learned, named by the routes of the key and of the anchors; the first rule that fits is the "
        f"name. {'. '.join(f'{name}: {rule}' for name, rule in CAUSE_RULES.items())}."
    ),
    "share of variance": (
        "Seeds of both kinds count as samples of all seeds. The rest is interaction of the two and noise, which one "
        "member in each cell cannot tell apart."
    ),
}
