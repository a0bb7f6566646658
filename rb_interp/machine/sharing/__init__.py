"""Members that are shared: written to a folder or the Hub, and read back with their task and what was measured."""

from rb_interp.lazy import lazy_names

_HERE = "rb_interp.machine.sharing."
_WHERE = {
    **{"Circuit": "circuit", "SharedMember": "member", "from_pretrained": "pretrained", "push_to_hub": "hub"},
    **{"save_member": "save", "zoo": "pretrained"},
}

__all__ = sorted(_WHERE)

__getattr__ = lazy_names(__name__, {name: _HERE + module for name, module in _WHERE.items()})
