"""Settings: one class is the Python object, the table of a TOML file, and the flags of the command
line.

A field's default, bound and meaning stand at the field:

    class Optimiser(Settings):
        lr: Rate = 1e-3
        \"\"\"Learning rate after warm-up.\"\"\"

A subclass of `Settings` is a frozen dataclass without a decorator. pydantic checks every value,
defaults too, and stores it in its plain kind: lists as tuples, whole numbers at a decimal field as
decimals, numpy's numbers as Python's. "3", True and 2.0 are no whole numbers.
"""

import hashlib
import json
import re
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from typing_extensions import Self, dataclass_transform

from rb_interp.errors import ConfigError, RbInterpError, TaskError, first_line, nearest

__all__ = ["Settings", "comparable", "differences", "distinct", "overlay", "read_toml", "to_toml"]

CONFIG = ConfigDict(
    extra="forbid",
    strict=True,
    validate_default=True,
    allow_inf_nan=False,
    arbitrary_types_allowed=True,
)


def distinct(values: tuple) -> tuple:
    """The values; ValueError if a value occurs twice."""
    if len(set(values)) < len(values):
        raise ValueError("name each once")
    return values


Steps = Annotated[int, Field(ge=1, le=99_999_999)]
"""Names of checkpoints have eight digits."""
RowCount = Annotated[int, Field(ge=1, le=2**31 - 1)]
ReadRows = Annotated[int, Field(ge=1, le=100_000_000)]
"""All rows where there are fewer."""
Draws = Annotated[int, Field(ge=0, le=100_000)]
Size = Annotated[int, Field(ge=1, le=1_000_000)]
Token = Annotated[int, Field(ge=0, le=999_999)]
Span = tuple[Token, Token]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0, le=1000)]
"""Beyond 1,000 a float32 can hold no result."""
Gamma = Annotated[float, Field(ge=0, le=20)]
"""Above 20 every weight starts at 0 in float32."""
Gammas = Annotated[
    tuple[Gamma, ...], Field(min_length=1, max_length=1000), AfterValidator(distinct)
]
LARGE, MIDDLE, SMALL = 0.3, 0.5, 0.8
"""The gammas of paper 1's claims. A larger gamma is a smaller initialisation."""
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seeds = Annotated[
    tuple[Seed, ...], Field(min_length=1, max_length=10_000), AfterValidator(distinct)
]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Settings:
    """Base of all settings: each subclass is a frozen dataclass, and refuses what does not fit.

    Attributes:
        PRESETS: name -> what differs from the defaults. ERROR: what is raised, with a line for each
            fault. LATER: fields that were added when runs had been kept; one at its default does
            not count in a fingerprint.

    >>> class Optimiser(Settings):
    ...     steps: Steps = 10
    >>> Optimiser(steps=0)
    Traceback (most recent call last):
    rb_interp.errors.ConfigError: steps=0: input should be greater than or equal to 1
    >>> Optimiser(stepz=3)
    Traceback (most recent call last):
    rb_interp.errors.ConfigError: Optimiser has no setting 'stepz'; did you mean 'steps'?
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    ERROR: ClassVar[type[RbInterpError]] = ConfigError
    LATER: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(cls, frozen=True, config=CONFIG)
        cls.__init__ = _with_our_errors(cls.__init__)

    def __post_init__(self) -> None:
        """Relations between settings are checked here, in subclasses."""

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Settings of a preset: ``smoke`` (a minute), ``quick`` (minutes) or ``paper`` (the paper's
        sizes)."""
        cls.check_preset(name)
        return cls(**{**cls.PRESETS[name], **changes})

    @classmethod
    def check_preset(cls, name: str) -> None:
        """Raise the class's ``ERROR`` for an unknown preset."""
        if name not in cls.PRESETS:
            raise cls.ERROR(f"{cls.__name__} has no preset '{name}'; {nearest(name, cls.PRESETS)}")


def _with_our_errors(init: Callable[..., None]) -> Callable[..., None]:
    """An ``__init__`` that takes lists and numpy's numbers too, and raises its class's ``ERROR``."""

    @wraps(init)
    def init_with_our_errors(self: Any, *args: Any, **keywords: Any) -> None:
        try:
            values = {name: _in_python(value) for name, value in keywords.items()}
            init(self, *map(_in_python, args), **values)
        except ValidationError as error:
            kind = type(self).__name__
            names = [f.name for f in fields(self)]
            lines = [_sentence(fault, kind, names) for fault in _faults(error)]
            raise self.ERROR("\n".join(lines)) from None

    return init_with_our_errors


def _in_python(value: Any) -> Any:
    """Lists and arrays as tuples, numpy's numbers as Python's, all else as it is."""
    if isinstance(value, list | tuple | range):
        return tuple(map(_in_python, value))
    return _in_python(value.tolist()) if hasattr(value, "tolist") else value


def _faults(error: ValidationError) -> list[Any]:
    """The faults, without lengths of lists that are short since one of their values is wrong."""
    faults = error.errors()
    lists = {fault["loc"][:-1] for fault in faults}
    return [fault for fault in faults if fault["type"] != "too_short" or fault["loc"] not in lists]


def _sentence(fault: Any, kind: str, names: list[str]) -> str:
    """A fault of one value in a sentence."""
    first, *inner = fault["loc"] or ("value",)
    name = str(first)
    if isinstance(first, int) and first < len(names):
        name = names[first]
    path = ".".join([name, *map(str, inner)])
    input_text = reprlib.repr(fault["input"])
    if fault["type"] == "unexpected_keyword_argument":
        return f"{kind} has no setting '{name}'; {nearest(name, names)}"
    if fault["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
        return f"{path}={input_text} is not known; {nearest(fault['input'], known)}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{path}={input_text}: {message[0].lower()}{message[1:]}"


def fitted(value: Any, hint: Any, name: str) -> Any:
    """A value in the plain kind of an annotation; ConfigError if it does not fit."""
    try:
        return TypeAdapter(hint, config=CONFIG).validate_python(_in_python(value))
    except ValidationError as error:
        faults = [{**fault, "loc": (name, *fault["loc"])} for fault in _faults(error)]
        lines = [_sentence(fault, name, []) for fault in faults]
        raise ConfigError("\n".join(lines)) from None


def overlay(base: Any, data: Mapping[str, Any], source: str, path: str = "") -> Any:
    """A dataclass with fields replaced from nested plain data, as of a TOML file.

    ``source`` is the data's name in messages, ``path`` the tables around it. Raises ConfigError for
    unknown keys and for what does not fit.
    """
    known = [f.name for f in fields(base)]
    hints = get_type_hints(type(base), include_extras=True)
    lines = []
    for key in [key for key in data if key not in known]:
        hint = nearest(key, known)
        for name in flat(plain(base)):
            if name.endswith(f".{key}"):
                hint = f"did you mean '{path}{name}'?"
        lines.append(f"{source}: unknown key '{path}{key}'; {hint}")
    if lines:
        raise ConfigError("\n".join(lines))
    changes = {}
    for key, value in data.items():
        current = getattr(base, key)
        if isinstance(value, Mapping) and is_dataclass(current):
            changes[key] = overlay(current, value, source, f"{path}{key}.")
        elif issubclass(type(base), Settings):  # which checks it
            changes[key] = value
        else:
            changes[key] = fitted(value, hints[key], key)
    try:
        return replace(base, **changes)
    except RbInterpError as error:
        table = f"{source}, [{path[:-1]}]" if path else source
        lines = [f"{table}: {line}" for line in str(error).split("\n")]
        raise type(error)("\n".join(lines)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; ConfigError if it cannot be read."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}); give an existing TOML file."
        ) from None
    except ValueError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {first_line(error)}. Mend that line and try again."
        ) from None


def to_toml(study: str, config: Any) -> str:
    """A study's configuration as TOML text; None is left out and means a default."""
    import tomli_w

    return tomli_w.dumps({"study": study, **_without_none(asdict(config))}, multiline_strings=False)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list | tuple) else value


def plain(config: Any) -> dict[str, Any]:
    """A configuration as nested plain data, in the form of its TOML file."""
    return json.loads(json.dumps(asdict(config)))


def class_name(value: Any) -> str:
    """``module:qualname`` of a value's class."""
    return f"{type(value).__module__}:{type(value).__qualname__}"


def fingerprint(task: Any) -> str:
    """Twelve hex digits that two dataclasses share exactly when class and settings are the same.

    The class counts as ``module:qualname``, so a subclass differs from its parent. Fields with
    ``compare=False`` do not count.

    Raises TaskError for what is no dataclass, and for a setting that is no plain data.

    >>> from rb_interp.tasks import AnchorTask
    >>> [AnchorTask().fingerprint() == other.fingerprint() for other in (AnchorTask(q=2), AnchorTask(length=6))]
    [True, False]
    """
    if not is_dataclass(task) or isinstance(task, type):
        raise TaskError(
            f"{reprlib.repr(task)} is no instance of a dataclass; write a fingerprint() of its own."
        )
    return digest(_data(task, ""))


def digest(data: Any) -> str:
    """Twelve hex digits of plain data."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]


def _data(value: Any, name: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        settings = {}
        for f in counted_fields(value):
            if f.compare:
                settings[f.name] = _data(getattr(value, f.name), f"{name}.{f.name}")
        return {"class": class_name(value), "settings": settings}
    if hasattr(value, "tolist"):
        return value.tolist()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(value, list | tuple):
        return [_data(item, name) for item in value]
    if isinstance(value, dict):
        return {str(key): _data(item, f"{name}[{key!r}]") for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TaskError(
        f"the setting '{name[1:]}' is a {type(value).__name__}, which is no plain data; give "
        f"numbers, texts, lists, "
        f"mappings or dataclasses, or mark the field with field(compare=False)."
    )


def counted_fields(config: Any) -> list[Any]:
    """Fields of a dataclass, less later ones at their default."""
    later = getattr(config, "LATER", ())
    return [
        f for f in fields(config) if f.name not in later or getattr(config, f.name) != f.default
    ]


def comparable(config: Any) -> Any:
    """A configuration as plain data without host fields; a task says its class too."""
    if is_dataclass(config):
        host_fields = getattr(config, "host_fields", ())
        names = [f.name for f in counted_fields(config) if f.name not in host_fields]
        values = {name: comparable(getattr(config, name)) for name in names}
        if hasattr(config, "fingerprint"):
            return {"type": class_name(config), **values}
        return values
    if isinstance(config, Mapping):
        return {str(key): comparable(value) for key, value in config.items()}
    return [comparable(value) for value in config] if isinstance(config, list | tuple) else config


def flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with keys such as ``train.steps``."""
    values: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values


def differences(old: Any, new: Any) -> str:
    """The first settings that differ, as ``model.norm: 'none' there, 'pre' here``."""
    before = flat(comparable(old))
    after = flat(comparable(new))
    changes = []
    for key in {**before, **after}:
        if before.get(key) != after.get(key):
            changes.append(f"{key}: {before.get(key)!r} there, {after.get(key)!r} here")
    if len(changes) > 3:
        changes[3:] = [f"and {len(changes) - 3} more"]
    return "; ".join(changes)
