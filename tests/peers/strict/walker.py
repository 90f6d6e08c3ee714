"""Checks JSON against the request types of an SDK, and refuses every key that the types do not have.

The SDKs describe requests with `TypedDict`s, which allow unknown keys. The real APIs refuse them, so the types are walked
here instead of handed to a validator.
"""

import collections.abc
import dataclasses
import functools
import typing

import typing_extensions

SEQUENCES = (list, tuple, collections.abc.Iterable, collections.abc.Sequence, collections.abc.Collection)
MAPPINGS = (dict, collections.abc.Mapping)
DISCRIMINATORS = ("type", "role", "mode")


@dataclasses.dataclass
class Fault:
    """What is wrong at one place. `kind` is one of unknown, missing, type and value."""

    path: tuple
    kind: str
    expected: typing.Any
    value: typing.Any = None


def is_typed_dict(kind):
    return isinstance(kind, type) and typing_extensions.is_typeddict(kind)


@functools.lru_cache(maxsize=None)
def fields(kind):
    """The keys of a `TypedDict`: name -> (type, whether it is required)."""
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    found = {}
    for name, hint in hints.items():
        required = name in kind.__required_keys__
        while typing.get_origin(hint) in (typing_extensions.Required, typing_extensions.NotRequired, typing.Required, typing.NotRequired, typing_extensions.Annotated):
            origin = typing.get_origin(hint)
            if origin in (typing_extensions.Required, typing.Required):
                required = True
            if origin in (typing_extensions.NotRequired, typing.NotRequired):
                required = False
            hint = typing.get_args(hint)[0]
        found[name] = (hint, required)
    return found


def literals(kind):
    """The values of a `Literal`, or nothing."""
    return list(typing.get_args(kind)) if typing.get_origin(kind) in (typing.Literal, typing_extensions.Literal) else None


class Walker:
    """Walks one vendor's types. `optional` names keys that the API takes as optional although the SDK's types say
    otherwise, as TypedDict name -> keys; `extra` adds keys that the types lack, as TypedDict name -> {key: type}.
    `open_kinds` are TypedDicts that take any key."""

    def __init__(self, optional=None, extra=None, open_kinds=()):
        self.optional = optional or {}
        self.extra = extra or {}
        self.open_kinds = set(open_kinds)

    def check(self, kind, value, path=()):
        """All faults of `value`, which should be of `kind`."""
        origin = typing.get_origin(kind)
        if isinstance(kind, typing_extensions.TypeAliasType):
            return self.check(kind.__value__, value, path)
        if origin in (typing_extensions.Annotated, typing_extensions.Required, typing.Required):
            return self.check(typing.get_args(kind)[0], value, path)
        if kind is typing.Any or kind is object or isinstance(kind, typing.TypeVar):
            return []
        if kind is None or kind is type(None):
            return [] if value is None else [Fault(path, "type", "null", value)]
        allowed = literals(kind)
        if allowed is not None:
            return [] if value in allowed and isinstance(value, type(allowed[0])) else [Fault(path, "value", allowed, value)]
        if is_typed_dict(kind):
            return self.check_dict(kind, value, path)
        if origin in (typing.Union, __import__("types").UnionType):
            return self.check_union(typing.get_args(kind), value, path)
        base = origin or kind
        if base in MAPPINGS:
            if not isinstance(value, dict):
                return [Fault(path, "type", "object", value)]
            items = (typing.get_args(kind) or (str, object))[1]
            return [fault for key, item in value.items() for fault in self.check(items, item, (*path, key))]
        if self.is_sequence(base):
            if not isinstance(value, list):
                return [Fault(path, "type", "array", value)]
            items = (typing.get_args(kind) or (object,))[0]
            return [fault for at, item in enumerate(value) for fault in self.check(items, item, (*path, at))]
        return self.check_plain(base, value, path)

    @staticmethod
    def is_sequence(base):
        return base in SEQUENCES or getattr(base, "__name__", "") == "SequenceNotStr"

    @staticmethod
    def check_plain(kind, value, path):
        is_bool = isinstance(value, bool)
        fits = {
            str: isinstance(value, str),
            bool: is_bool,
            int: isinstance(value, int) and not is_bool,
            float: isinstance(value, (int, float)) and not is_bool,
        }.get(kind)
        if fits is None:
            # Files and the like, which no JSON body has.
            return [Fault(path, "type", str(kind), value)]
        names = {str: "string", bool: "boolean", int: "integer", float: "number"}
        return [] if fits else [Fault(path, "type", names[kind], value)]

    def check_dict(self, kind, value, path):
        if not isinstance(value, dict):
            return [Fault(path, "type", "object", value)]
        known = {**fields(kind), **{key: (hint, False) for key, hint in self.extra.get(kind.__name__, {}).items()}}
        optional = self.optional.get(kind.__name__, ())
        faults = [
            Fault((*path, name), "missing", None)
            for name, (_, required) in known.items()
            if required and name not in value and name not in optional
        ]
        for key, item in value.items():
            if key in known:
                faults += self.check(known[key][0], item, (*path, key))
            elif kind.__name__ not in self.open_kinds:
                faults.append(Fault((*path, key), "unknown", None, item))
        return faults

    def flatten(self, kinds):
        """The members of a union, unions in it included."""
        for kind in kinds:
            if isinstance(kind, typing_extensions.TypeAliasType):
                yield from self.flatten([kind.__value__])
            elif typing.get_origin(kind) is typing_extensions.Annotated:
                yield from self.flatten([typing.get_args(kind)[0]])
            elif typing.get_origin(kind) in (typing.Union, __import__("types").UnionType):
                yield from self.flatten(typing.get_args(kind))
            else:
                yield kind

    def check_union(self, kinds, value, path):
        members = list(self.flatten(kinds))
        if isinstance(value, dict):
            dicts = [kind for kind in members if is_typed_dict(kind)]
            if dicts and (found := self.discriminated(dicts, value)) is not None:
                if not found and any(key in value for key in DISCRIMINATORS):
                    return self.no_member(dicts, value, path)
                found = found or dicts
                members = found + [kind for kind in members if (typing.get_origin(kind) or kind) in MAPPINGS]
        best = None
        for kind in members:
            faults = self.check(kind, value, path)
            if not faults:
                return []
            # The member whose kind of value fits tells best what is wrong.
            rank = (faults[0].path == path and faults[0].kind == "type", len(faults), -max(len(fault.path) for fault in faults))
            if best is None or rank < best[0]:
                best = (rank, faults)
        return best[1]

    def discriminated(self, dicts, value):
        """The members whose `type` and `role` are those of `value`."""
        fitting = []
        for kind in dicts:
            known = fields(kind)
            for key in DISCRIMINATORS:
                allowed = literals(known[key][0]) if key in known else None
                if allowed is None:
                    continue
                is_needed = known[key][1] and key not in self.optional.get(kind.__name__, ())
                if value[key] not in allowed if key in value else is_needed and key == "type":
                    break
            else:
                fitting.append(kind)
        return fitting

    def no_member(self, dicts, value, path):
        for key in DISCRIMINATORS:
            allowed = []
            for kind in dicts:
                for each in (literals(fields(kind)[key][0]) or []) if key in fields(kind) else []:
                    if each not in allowed:
                        allowed.append(each)
            if key in value and allowed and value[key] not in allowed:
                return [Fault((*path, key), "value", allowed, value[key])]
        return [Fault(path, "value", [kind.__name__ for kind in dicts], value)]
