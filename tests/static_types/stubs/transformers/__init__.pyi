"""TransformerLens's types without those of transformers: to read these takes longer than all else."""

from typing import Any

def __getattr__(name: str) -> Any: ...
