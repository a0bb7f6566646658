"""A hub in place of the real one."""

from __future__ import annotations

import pytest


class Hub:
    """Gives ``rows`` (or raises it), answers that a dataset is there (or raises ``info``), notes what was ``asked``."""

    rows: list | Exception
    info: Exception | None = None
    asked: tuple = ()

    def load_dataset(self, name, split, streaming):
        self.asked = (name, split, streaming)
        if isinstance(self.rows, Exception):
            raise self.rows
        return iter(self.rows)

    def dataset_info(self, name, timeout):
        assert timeout <= 10
        if self.info:
            raise self.info


@pytest.fixture
def hub(monkeypatch) -> Hub:
    import datasets
    from huggingface_hub import HfApi, constants

    fake = Hub()
    monkeypatch.setattr(datasets, "load_dataset", fake.load_dataset)
    monkeypatch.setattr(HfApi, "dataset_info", lambda _, name, timeout: fake.dataset_info(name, timeout))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.test")
    return fake
