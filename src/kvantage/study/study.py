"""The study: what is asked, of which arms, of which model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_serializer,
)

from kvantage.core import ArmSettings, Samplers, ServerSettings, StudyError, UsageError
from kvantage.core.arm import ALLOW_SIMULATED
from kvantage.study.arm import Arm
from kvantage.study.content import folder_digest
from kvantage.study.design import Order, Until
from kvantage.study.fields import (
    Count,
    Duration,
    FilePath,
    Section,
    Text,
    empty_if_nothing,
)
from kvantage.study.paths import PACKAGE, locate
from kvantage.study.phases import BUILTIN, PHASES, PhaseName, Phases
from kvantage.study.policy import Policy
from kvantage.study.servers import Attach, Boot, Node
from kvantage.study.settings import Settings
from kvantage.study.source import Source
from kvantage.study.subject import Control, EngineChoice, Model
from kvantage.study.words import no_such

_ARM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)


def _empty_arms(value: object) -> object:
    if isinstance(value, dict):
        return {name: {} if arm is None else arm for name, arm in value.items()}
    return value


_PATHS = WithJsonSchema(
    {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}], "default": []}
)


def _one_path(value: object) -> object:
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else () if value is None else value


def _arm_name(name: str) -> str:
    if not _ARM_NAME.fullmatch(name):
        raise ValueError("cannot name an arm: letters, digits, `.`, `_` and `-`, at most 40")
    return name


ArmName = Annotated[str, AfterValidator(_arm_name)]


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two arms differ, in the study's vocabulary; None is 'not given'."""

    field: str
    a: Any
    b: Any


ATTACHED = "openai"
"""The engine of an arm whose server runs already; the study's own engine is what stands behind it."""


class Study(Section):
    """A study: one model, one engine, several arms, the same work for each."""

    model: Model = Field(description="The target model, the same in every arm.")
    engine: EngineChoice = Field(description="The serving engine, the same in every arm.")
    common: Annotated[Settings, BeforeValidator(empty_if_nothing)] = Field(
        default_factory=Settings, description="Settings of every arm."
    )
    control: Control = Field(description="The arm that the others are compared with.")
    arms: Annotated[dict[ArmName, Arm], BeforeValidator(_empty_arms)] = Field(
        min_length=1,
        description="The serving configurations to compare, by name: what each changes of `common`.",
    )
    phases: Phases = Field(description="What is asked of each arm, and how much of it.")
    policy: Policy | None = Field(
        default=None, description="How the arms are judged. Without it no arm is recommended."
    )
    budget: Duration | None = Field(
        default=None,
        description="The longest that the study may take, such as 2h or 90m; what fits is said first.",
    )
    seed: int = Field(default=0, ge=0, description="Seeds every document and every random choice.")
    boot: Annotated[Boot, BeforeValidator(empty_if_nothing)] = Field(
        default_factory=Boot, description="How each arm's server is started."
    )
    hosts: Annotated[tuple[Node, ...], BeforeValidator(_listed)] = Field(
        default=(),
        description="Machines to start servers on, by ssh, the first serving requests; else this one.",
    )
    attach: Annotated[dict[ArmName, Attach], BeforeValidator(empty_if_nothing)] = Field(
        default_factory=dict, description="Servers that run already, by the arm that each is."
    )
    serving: Literal["as_served", "controlled"] | None = Field(
        default=None,
        description="`controlled`: kvantage's pins in every arm; `as_served`: the servers' own settings,"
        " whose differences are printed. Left out: `as_served` for servers that run already.",
    )
    boots: Count = Field(
        default=1, description="Starts of each arm's server; with `until`, the fewest before it may stop."
    )
    order: Order = Field(
        default="abba",
        description="The order of arms in a block, in which each is started once: `fixed` is that of the"
        " file, `abba` turns every other block round, `randomised` shuffles each by the seed.",
    )
    until: Until | None = Field(
        default=None, description="Go on with blocks of boots until the arms are told apart."
    )
    record: Annotated[tuple[FilePath, ...], BeforeValidator(_one_path), _PATHS] = Field(
        default=(),
        description="Files and folders to keep with the results (patches, scripts), by hash and copy.",
    )
    notice: Text | None = Field(default=None, description="A sentence that stands first in every report.")

    _source: Source | None = PrivateAttr(default=None)
    _path: Path | None = PrivateAttr(default=None)

    @field_validator("notice")
    @classmethod
    def _one_line(cls, notice: str | None) -> str | None:
        return " ".join(notice.split()) if notice else notice

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain = {name: value for name, value in handler(self).items() if value is not None}
        return {name: value for name, value in plain.items() if value or name not in ("hosts", "attach")}

    # Where it comes from

    @property
    def path(self) -> Path | None:
        """The study file, where it was read from one."""
        return self._path

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self._path.stem if self._path else "study"

    def where(self, *loc: str | int) -> str:
        """`file:line: field` of a place, for errors that other rooms find: `where("arms", "mtp")`."""
        return (self._source or Source("study", {}, {})).where(loc)

    def error(self, loc: Sequence[str | int], message: str, hint: str | None = None) -> StudyError:
        """An error at a place of this study, to be raised."""
        return StudyError(message, where=self.where(*loc), hint=hint)

    def to_json(self) -> dict[str, Any]:
        """The study as plain JSON, defaults filled in, in the shape of a study file. `from_json` reads it.

        Paths are absolute, `${NAME}` stays `${NAME}`; settings that nobody gave are left out.
        """
        plain_json = self.model_dump(mode="json")
        assert isinstance(plain_json, dict)
        return plain_json

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """A study that `to_json` wrote, its files not looked for. Raises StudyError on anything else."""
        from kvantage.study.load import validate

        return validate(cls, Source("study", dict(data), {}), folder=None, paths_must_exist=False)

    # Arms

    @property
    def arm_names(self) -> tuple[str, ...]:
        """In the order of the file."""
        return tuple(self.arms)

    @property
    def control_arm(self) -> str:
        """The control's name."""
        return self.control.arm

    def arm_settings(self, name: str) -> ArmSettings:
        """All that an arm is: its own settings over `common`. Raises UsageError for a name not there.

        Samplers, flags and env are merged one by one; a flag given as nothing is taken away, any other
        setting given as nothing is left to the engine.
        """
        self.select_arms([name])
        arm, common = self.arms[name], self.common
        said = {**_said(common), **_said(arm)}
        servers = {field.name for field in dataclasses.fields(ServerSettings)}
        flags = {flag: value for flag, value in {**common.flags, **arm.flags}.items() if value is not None}
        speculation = arm.speculation.to_core()
        if speculation.draft:
            speculation = dataclasses.replace(speculation, draft=locate(speculation.draft))
        model = locate(self.model.path)
        held = {"model": folder_digest(model), "draft": folder_digest(speculation.draft or "-")}
        engine, options = self._engine_of(name)
        return ArmSettings(
            name=name,
            engine=engine,
            model=model,
            revision=self.model.revision,
            settings=ServerSettings(**{field: said[field] for field in servers if field in said}),
            speculation=speculation,
            samplers=Samplers(**{**_said(common.samplers), **_said(arm.samplers)}),
            flags=_located(flags),
            env={**common.env, **arm.env},
            engine_options=options,
            contents={place: digest for place, digest in held.items() if digest is not None},
        )

    def _engine_of(self, name: str) -> tuple[str, dict[str, Any]]:
        """An arm's engine and its options: of a server that runs already, its address and what it said."""
        attached = self.attach.get(name)
        if attached is None:
            return self.engine.name, _located(self.engine.options)
        options = {"url": attached.url, "key_env": attached.key_env, "served": attached.served}
        options[ALLOW_SIMULATED] = self.engine.options.get(ALLOW_SIMULATED)
        options["behind"] = self.engine.name if self.engine.name != ATTACHED else None
        return ATTACHED, {option: value for option, value in options.items() if value is not None}

    def allowing_simulated(self) -> Self:
        """The same study, in which acceptance that is made up is measured, and every figure marked."""
        options = {**self.engine.options, ALLOW_SIMULATED: True}
        return self.model_copy(update={"engine": self.engine.model_copy(update={"options": options})})

    def every_arm(self) -> tuple[ArmSettings, ...]:
        """`arm_settings` of each, in the order of the file."""
        return tuple(self.arm_settings(name) for name in self.arms)

    def declared_differences(self, a: str, b: str) -> tuple[Difference, ...]:
        """In what two arms differ by what they declare: `speculation.drafts`, `kv_dtype`, `flags.tp`."""
        left, right = (_flat_identity(self.arm_settings(name)) for name in (a, b))
        names = [*left, *(name for name in right if name not in left)]
        return tuple(
            Difference(name, left.get(name), right.get(name))
            for name in names
            if left.get(name) != right.get(name)
        )

    def select_arms(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those arms, in the order of the file. Raises UsageError for a name that is not there."""
        for name in names:
            if name not in self.arms:
                raise UsageError(no_such("arm", name, self.arms), where=self.where("arms"))
        return tuple(name for name in self.arms if name in names)

    @property
    def served(self) -> str:
        """`controlled` or `as_served`."""
        own = self.attach or self.boot.own_settings
        return self.serving or ("as_served" if own else "controlled")

    @property
    def most_boots(self) -> int:
        """The most starts of each arm's server."""
        return self.until.max_boots if self.until else self.boots

    @property
    def ready_within_s(self) -> float:
        """Seconds that a server may take to answer its first request."""
        return self.boot.ready_within

    # Phases

    @property
    def phase_names(self) -> tuple[PhaseName, ...]:
        """The phases that are run, in the order in which they are."""
        return tuple(name for name in PHASES if getattr(self.phases, name) is not None)

    def select_phases(self, names: Sequence[str]) -> tuple[PhaseName, ...]:
        """Those phases, in the order of work. Raises UsageError for one not there, or `repeat` alone."""
        for name in names:
            if name not in self.phase_names:
                raise UsageError(no_such("phase", name, self.phase_names), where=self.where("phases"))
        if "repeat" in names and "cold" not in names:
            raise UsageError(
                "`repeat` repeats the cold waves: take `cold` with it", where=self.where("phases")
            )
        return tuple(name for name in self.phase_names if name in names)

    @property
    def highest_concurrency(self) -> int:
        """The most requests at once of any wave; probes are run at this many too. A sweep goes past what
        the server runs at once on purpose, and is left out.
        """
        return max(self.phases.cold.concurrency) if self.phases.cold else 1

    @property
    def longest_output(self) -> int:
        """The longest answer asked for, in tokens."""
        return max((getattr(self.phases, name).output_tokens for name in self.phase_names), default=0)

    def phase_fingerprint(self, phase: str, workload: str | None = None) -> str:
        """A hash of the work of a phase: results of an arm may be kept under it and the arm's fingerprint.

        It covers the phase's sizes, the seed and the prompts by content (of one `workload`, where given);
        for `repeat` also its cold waves. Concurrencies and lengths are not in it: each has cells and chains
        of its own, so that adding one keeps the others; nor are limits, which the analysis applies. Raises
        UsageError for a phase that is not run.
        """
        self.select_phases([phase] if phase != "repeat" else ["cold", "repeat"])
        work: dict[str, Any] = {"phase": phase, "seed": self.seed, "work": self._work(phase)}
        if phase == "repeat":
            work["cold"] = self._work("cold")
        if phase in ("short", "sweep"):
            prompts = getattr(self.phases, phase).prompts
            if workload is not None and workload not in prompts:
                raise UsageError(no_such("workload", workload, prompts), where=self.where("phases", phase))
            chosen = {name: text for name, text in prompts.items() if workload in (None, name)}
            work["prompts"] = {name: _content(name, text) for name, text in chosen.items()}
        if phase == "exactness" and self.phases.exactness:
            work["prompts"] = _content(phase, self.phases.exactness.prompts)
        text = json.dumps(work, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def fingerprint(self) -> str:
        """A hash of the whole workload side: seed, phases and prompts, concurrency included."""
        parts = [self.phase_fingerprint(phase) for phase in self.phase_names]
        waves = list(self.phases.cold.concurrency) if self.phases.cold else []
        more = [list(self.phases.sweep.concurrency)] if self.phases.sweep else []
        more += [list(self.phases.ttft.lengths)] if self.phases.ttft else []
        return hashlib.sha256(json.dumps([parts, waves, *more]).encode()).hexdigest()[:16]

    def _work(self, phase: str) -> dict[str, Any]:
        section: Section = getattr(self.phases, phase)
        return section.model_dump(mode="json", exclude=_NOT_WORK)

    def warnings(self) -> tuple[str, ...]:
        """What is allowed and yet likely to be a mistake, as sentences."""
        from kvantage.study.checks import doubts

        return doubts(self)


_NOT_WORK = {"concurrency", "prompts", "lengths", "ttft_limit", "tpot_limit", "quantile", "margin"}
"""Fields that a phase's fingerprint leaves out: what has chains or a hash of its own, and limits."""


def _said(section: Section) -> dict[str, Any]:
    return {name: getattr(section, name) for name in section.model_fields_set}


def _located(value: Any) -> Any:
    """`package:` paths as they lie on this machine."""
    if isinstance(value, dict):
        return {name: _located(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_located(one) for one in value]
    return locate(value) if isinstance(value, str) and value.startswith(PACKAGE) else value


def _flat_identity(arm: ArmSettings) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for group, value in arm.identity().items():
        if isinstance(value, dict):
            prefix = "" if group == "settings" else f"{group}."
            flat.update({f"{prefix}{name}": one for name, one in value.items()})
        else:
            flat[group] = value
    return flat


def _content(name: str, text: str) -> str:
    """What a set of prompts holds, as a hash; of a built-in set its file in the package."""
    path = Path(locate(f"{PACKAGE}workloads/prompts/{name}.jsonl" if text == BUILTIN else text))
    if not path.is_file():
        return text
    return hashlib.sha256(path.read_bytes()).hexdigest()
