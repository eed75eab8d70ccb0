"""Three ways to a server: started by kvantage, by commands of one's own, or running already."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from kvantage.study.fields import Duration, FilePath, Section, Text, as_text

PLACES = ("flags", "arm", "port")
"""What a command of one's own may name in braces."""

_PLACE = re.compile(r"(?<![${])\{([a-z_]+)\}(?!\})")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NODE = re.compile(r"(?:(?P<user>[^@\s:]+)@)?(?P<name>[^@\s:\[\]]+|\[[0-9a-fA-F:]+\])(?::(?P<port>\d+))?")


def filled_in(command: str, **words: str) -> str:
    """A command with `{flags}`, `{arm}` and `{port}` replaced; `${X}` and `{{.X}}` are left alone."""
    return _PLACE.sub(lambda match: words.get(match[1], match[0]), command)


def _command(text: str) -> str:
    from kvantage.study.words import did_you_mean

    for name in _PLACE.findall(text):
        if name not in PLACES:
            near = did_you_mean(name, PLACES) or f"; there are {', '.join(f'{{{one}}}' for one in PLACES)}"
            raise ValueError(f"`{{{name}}}` stands for nothing{near}")
    return text


def _address(text: str) -> str:
    plain = text.replace("{port}", "1")
    try:
        parts = urlsplit(plain)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"`{text}` is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in plain:
        raise ValueError(f"needs an address such as http://spark1:30000, not `{text}`")
    if parts.username or parts.password or parts.query:
        raise ValueError("holds a secret or a query: name the variable that has the key in `key_env`")
    return text.rstrip("/").removesuffix("/v1")


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError("needs the name of an environment variable; the key itself is never written down")
    return text


def _one_or_more(value: object) -> object:
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value


_LIST = WithJsonSchema(
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}], "default": []}
)
Command = Annotated[Text, AfterValidator(_command), WithJsonSchema({"type": "string"})]
Address = Annotated[Text, AfterValidator(_address), WithJsonSchema({"type": "string"})]
Variable = Annotated[Text, AfterValidator(_variable), WithJsonSchema({"type": "string"})]
Commands = Annotated[tuple[Command, ...], BeforeValidator(_one_or_more), _LIST]
Files = Annotated[tuple[FilePath, ...], BeforeValidator(_one_or_more), _LIST]


class _Brief(Section):
    """A group that is written back without what nobody gave."""

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: one for name, one in handler(self).items() if one not in (None, [], (), False)}


class Boot(_Brief):
    """How a server is started: by kvantage, unless `start` or `manual` says that you do it."""

    start: Command | None = Field(
        default=None,
        description="A command of yours that starts an arm's server, run by sh in the study's folder."
        " {flags}, {arm} and {port} are filled in.",
    )
    manual: bool = Field(
        default=False, description="true: you are asked to restart the server with the flags that are shown."
    )
    stop: Command | None = Field(default=None, description="A command that ends what `start` started.")
    url: Address | None = Field(
        default=None, description="Where the server answers. With {port} in it, a free port is chosen."
    )
    logs: Commands = Field(
        default=(), description="Files, or commands that follow: what they say is kept as the server's log."
    )
    ready_within: Duration = Field(
        default=1200.0,
        description="The longest that a server may take to answer its first request.",
        json_schema_extra={"default": "20m"},
    )
    record: Files = Field(
        default=(), description="Files and folders to keep with the results (scripts, patches)."
    )

    @model_validator(mode="before")
    @classmethod
    def _manual_start(cls, value: object) -> object:
        if isinstance(value, dict) and value.get("start") == "manual":
            return {**{name: one for name, one in value.items() if name != "start"}, "manual": True}
        return value

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.start and self.manual:
            raise ValueError("`start` and `manual` are two ways to start a server: give one")
        if not self.own and (self.stop or self.url or self.logs):
            raise ValueError("`stop`, `url` and `logs` belong to `start` or `manual`, which are missing")
        if self.own and not self.url:
            raise ValueError("`url` is missing: where the server that you start answers")
        if self.manual and self.stop:
            raise ValueError("`stop` belongs to `start`: with `manual`, you stop the server yourself")
        if self.manual and self.url and "{port}" in self.url:
            raise ValueError("`url`: with `manual` the port is yours to choose: write it")
        return self

    @property
    def own_settings(self) -> bool:
        """True where the person's command starts the servers and kvantage's flags are not handed to it."""
        return self.start is not None and "{flags}" not in self.start

    @property
    def own(self) -> bool:
        """True where the person starts the servers, by command or by hand."""
        return self.manual or self.start is not None


class Attach(_Brief):
    """A server that runs already. Short: `none: http://spark1:30000`."""

    url: Address = Field(description="Where it answers.")
    key_env: Variable | None = Field(
        default=None, description="The environment variable that holds its API key; it is never stored."
    )
    logs: Commands = Field(default=(), description="Files, or commands that follow, with the server's log.")
    served: Text | None = Field(
        default=None, description="Filled in by kvantage: a hash of what the server said that it is."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        return {"url": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler.resolve_ref_schema(handler(core))
        text = {"type": "string", "description": "Where it answers."}
        return {"description": full.get("description", ""), "anyOf": [text, {**full}]}


class Node(_Brief):
    """A machine that is reached by ssh. Short: `user@name:port`."""

    name: Text = Field(description="Its name or address, as in your known_hosts.")
    user: Text | None = Field(default=None, description="The user there; yours where left out.")
    port: int = Field(default=22, ge=1, le=65535, description="The port of its ssh server.")
    key: FilePath | None = Field(
        default=None, description="A file with the private key; else your agent's keys and default files."
    )
    known_hosts: FilePath | None = Field(
        default=None, description="A file of known hosts; else ~/.ssh/known_hosts. A host must be in it."
    )
    python: Text = Field(default="python3", description="A Python 3 there: it watches over the server.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        text = as_text(value)
        if not isinstance(text, str):
            return value
        found = _NODE.fullmatch(text)
        if found is None:
            raise ValueError(f"needs a host such as spark1 or me@spark1:22, not `{text}`")
        given = {name: one for name, one in found.groupdict().items() if one is not None}
        return {**given, "port": int(given["port"])} if "port" in given else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        full = handler.resolve_ref_schema(handler(core))
        text = {"type": "string", "description": "user@name:port; user and port may be left out."}
        return {"description": full.get("description", ""), "anyOf": [text, {**full}]}
