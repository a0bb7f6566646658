"""The tables that the anchor study measures beside its readings."""

from rb_interp.runs.schema import TableSchema, over_seeds

TABLES = {
    "circuits": TableSchema(
        "gamma seed",
        "circuit:str cause:str tv_half key_attention anchor_attention carry accuracy key_from_key anchors_L0_at_last "
        "key_from_last_anchor first_anchors_from_last_anchor key_from_anchors anchors_from_anchors",
    ),
    "circuit_counts": TableSchema("gamma named_by:str circuit:str", "n total:int share low high"),
    "circuit_disagreement": TableSchema("gamma", "n total:int share low high"),
    "effects": TableSchema(
        "gamma seed stage set intervention:str quantity",
        "step site:str effect low high control control_low control_high difference difference_low "
        "difference_high p_value control_name:str n reached",
    ),
    "effects_summary": over_seeds("gamma stage set intervention:str"),
    "ablations": TableSchema(
        "gamma seed stage set component method:str",
        "accuracy accuracy_drop loss_increase control_accuracy_drop control_loss_increase n reached",
    ),
    "ablations_summary": over_seeds("gamma stage set component method:str"),
    "patching": TableSchema(
        "gamma seed stage counterfactual:str component layer:int role:str", "recovered low high control n reached"
    ),
    "patching_summary": over_seeds("gamma stage circuit:str counterfactual:str component layer:int role:str"),
    "patching_circuits": TableSchema("gamma stage circuit:str", "n"),
    "patching_controls": TableSchema("gamma stage", "largest"),
    "dynamics": TableSchema("gamma seed step quantity", "value"),
    "checkpoints": TableSchema("gamma step", "every_seed:bool"),
    "events": TableSchema("gamma seed event:str", "event_of:str step:float censored:bool"),
    "events_summary": TableSchema(
        "gamma event:str", "event_of:str n n_start:int n_never:int n_during:int mean low high mean_reached"
    ),
    "event_order": TableSchema(
        "gamma circuit:str mechanism:str loss:str",
        "n n_both:int n_first:int n_after:int log2_ratio low high n_never:int n_loss_never:int",
    ),
    "own_signs": TableSchema("gamma", "n n_first:int"),
    "disagreement": TableSchema(
        "battery:str gamma seed_a:int seed_b:int", "circuit_a:str circuit_b:str disagreement n"
    ),
    "disagreement_means": TableSchema("battery:str gamma circuit_a:str circuit_b:str", "mean smallest largest n"),
    "equivalence": TableSchema(
        "battery:str gamma", "groups:str within between difference p_value n_relabelings:int exact:bool n_members:int"
    ),
    "battery_accuracy": TableSchema("battery:str gamma seed", "circuit:str accuracy second_accuracy n"),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
