"""What is wrong with a study, in the words of the person who wrote it."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kvantage.study.source import Loc, Problem
from kvantage.study.units import show

NOT_YET = {
    "phases.admission": "measured admission",
    "phases.sessions": "growing sessions",
    "phases.trace": "a recorded trace",
}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean `drafts`?`, or nothing where no known word is near."""
    near = nearest(word, known)
    return f"; did you mean `{near}`?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a mistyped one is likely to be, whatever its case and dashes."""
    by_lower = {name.lower().replace("-", "_"): name for name in known}
    near = difflib.get_close_matches(word.lower().replace("-", "_"), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else None


def no_such(noun: str, word: str, known: Iterable[str]) -> str:
    """`there is no arm `mpt`; did you mean `mtp`?`, or the list of what there is."""
    names = list(known)
    near = did_you_mean(word, names)
    listed = f"; there {'is' if len(names) == 1 else 'are'} " + ", ".join(f"`{name}`" for name in names)
    return f"there is no {noun} `{word}`{near or (listed if names else '')}"


def problems(error: ValidationError, root: type[BaseModel]) -> list[Problem]:
    """Each of a validation's errors as a sentence at its place."""
    errors = error.errors(include_url=False)
    meant = {
        (*one["loc"][:-1], _meant(one["loc"], root)) for one in errors if one["type"] == "extra_forbidden"
    }
    return [
        _problem(one, root) for one in errors if one["type"] != "missing" or tuple(one["loc"]) not in meant
    ]


def _meant(loc: Loc, root: type[BaseModel]) -> str | None:
    """The field that an unknown one was meant to be, so that it is not called missing as well."""
    section = section_at(root, loc[:-1])
    return nearest(str(loc[-1]), section.model_fields) if section else None


def _problem(error: ErrorDetails, root: type[BaseModel]) -> Problem:
    loc: Loc = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        return Problem(loc, _unknown_field(loc, root))
    if error["type"] == "missing":
        section = section_at(root, loc[:-1])
        field = section.model_fields.get(str(loc[-1])) if section else None
        about = f": {_lower_first(field.description)}" if field and field.description else ""
        return Problem(loc[:-1], f"`{loc[-1]}` is missing{about}")
    return Problem(loc, _sentence(error))


def _sentence(error: ErrorDetails) -> str:
    given = show(error["input"])
    context = error.get("ctx", {})
    match error["type"]:
        case "value_error":
            return str(context["error"])
        case "int_type" | "int_parsing" | "int_from_float":
            return f"needs a whole number, not {given}"
        case "float_type" | "float_parsing":
            return f"needs a number, not {given}"
        case "bool_type" | "bool_parsing":
            return f"needs true or false, not {given}"
        case "string_type" if isinstance(error["input"], bool):
            return f"needs text, not {given}; quote it if the word itself is meant"
        case "string_type":
            return f"needs text, not {given}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"needs a group of fields, not {given}"
        case "list_type" | "tuple_type":
            return f"needs a list, not {given}"
        case "too_short":
            return "is empty: needs at least one"
        case "greater_than_equal":
            return f"needs at least {context['ge']:g}, not {given}"
        case "greater_than":
            return f"needs more than {context['gt']:g}, not {given}"
        case "less_than_equal":
            return f"needs at most {context['le']:g}, not {given}"
        case "less_than":
            return f"needs less than {context['lt']:g}, not {given}"
        case "literal_error":
            words = [word.strip(" '") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
            if len(words) == 1:
                return f"can only be `{words[0]}` in this version of kvantage, not {given}"
            near = did_you_mean(str(error["input"]), words) if isinstance(error["input"], str) else ""
            return f"is one of {', '.join(words)}, not {given}{near}"
    return error["msg"][:1].lower() + error["msg"][1:]


def _unknown_field(loc: Loc, root: type[BaseModel]) -> str:
    name = str(loc[-1])
    soon = NOT_YET.get(".".join(str(part) for part in loc))
    if soon:
        return f"`{name}` ({soon}) is not supported by this version of kvantage"
    section = section_at(root, loc[:-1])
    if section is None:
        return f"there is no field `{name}` here"
    if name == "speculation" and "flags" in section.model_fields:
        return "speculation belongs to an arm: move it under `arms`"
    return no_such("phase" if loc[:-1] == ("phases",) else "field", name, section.model_fields)


def section_at(root: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """The group of fields at `loc`, where there is one."""
    here: Any = root
    for part in loc:
        here = _step(here, part)
        if here is None:
            return None
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _step(here: Any, part: str | int) -> Any:
    if isinstance(here, type) and issubclass(here, BaseModel):
        field = here.model_fields.get(str(part))
        return _bare(field.annotation) if field else None
    args = typing.get_args(here)
    return _bare(args[1] if typing.get_origin(here) is dict else args[0]) if args else None


def _bare(annotation: Any) -> Any:
    """An annotation without `Annotated` and `| None`."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in (typing.Union, types.UnionType):
            kept = [one for one in typing.get_args(annotation) if one is not type(None)]
            if len(kept) != 1:
                return None
            annotation = kept[0]
        else:
            return annotation


def _lower_first(text: str) -> str:
    """The first sentence of a description, to stand after a colon."""
    first = text.partition(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]
