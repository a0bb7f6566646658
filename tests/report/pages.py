"""What a reader sees of a page."""

import re
from html import unescape


def visible(page: str) -> str:
    """The text of a page, or of a part of one, with plain spaces."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


def claim_rows(page: str) -> dict[str, str]:
    """Claim id -> HTML of its row, in the page's order."""
    return dict(re.findall(r'<tr id="claim-(\w+)">(.*?)</tr>', page, flags=re.DOTALL))
