"""Members that are shared: written to a folder or the Hub, and read back with their task and what was measured."""

from typing import TYPE_CHECKING

from rb_interp.lazy import lazy_package

if TYPE_CHECKING:
    from rb_interp.runs.sharing.circuit import Circuit as Circuit
    from rb_interp.runs.sharing.hub import push_to_hub as push_to_hub
    from rb_interp.runs.sharing.member import SharedMember as SharedMember
    from rb_interp.runs.sharing.pretrained import from_pretrained as from_pretrained
    from rb_interp.runs.sharing.pretrained import zoo as zoo
    from rb_interp.runs.sharing.save import save_member as save_member
else:
    __getattr__, __dir__, __all__ = lazy_package(
        __name__,
        {
            "circuit": ("Circuit",),
            "hub": ("push_to_hub",),
            "member": ("SharedMember",),
            "pretrained": ("from_pretrained", "zoo"),
            "save": ("save_member",),
        },
    )
