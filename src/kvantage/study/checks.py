"""What is wrong, or doubtful, between fields of a study that are each right."""

from __future__ import annotations

from kvantage.core import ArmSettings
from kvantage.study.phases import PHASES
from kvantage.study.policy_checks import policy_checks
from kvantage.study.source import Problem
from kvantage.study.study import Study
from kvantage.study.words import no_such


def checks(study: Study) -> list[Problem]:
    """What is wrong between fields, each problem at its place."""
    found: list[Problem] = []
    for name in study.arms:
        arm = study.arm_settings(name)
        if arm.settings.memory_fraction is not None and arm.settings.pool_bytes is not None:
            given = "pool_bytes" if study.arms[name].pool_bytes is not None else "memory_fraction"
            other = "memory_fraction" if given == "pool_bytes" else "pool_bytes"
            found.append(
                Problem(
                    ("arms", name, given),
                    f"`{other}` of `common` sizes the pool too",
                    f"Add `{other}:` with nothing after it to the arm, to leave it out there.",
                )
            )
        found += _lengths(study, name, arm)
    found += _control(study)
    found += _servers(study)
    found += _boots(study)
    if study.phases.repeat and not study.phases.cold:
        found.append(Problem(("phases", "repeat"), "repeats the cold waves, and there is no phase `cold`"))
    if not study.phase_names:
        found.append(Problem(("phases",), f"names no phase; there are {', '.join(PHASES)}"))
    if study.policy:
        found += policy_checks(study, study.policy)
    return found


def _lengths(study: Study, name: str, arm: ArmSettings) -> list[Problem]:
    limit = arm.settings.context_length
    if limit is None:
        return []
    own = study.arms[name].context_length is not None
    whose = f"the context of arm `{name}`" if own else "`context_length`"
    document = study.phases.cold.document_tokens if study.phases.cold else 0
    rung = study.phases.ttft.lengths[-1] if study.phases.ttft else 0
    needs = {"cold": document, "repeat": document, "ttft": rung}
    found = []
    for phase in study.phase_names:
        output, needed = getattr(study.phases, phase).output_tokens, needs.get(phase, 0)
        if needed + output > limit:
            total = f"{needed:,} + {output:,}" if needed else f"{output:,}"
            field = "lengths" if phase == "ttft" else "output_tokens"
            found.append(Problem(("phases", phase, field), f"{total} tokens do not fit {whose} of {limit:,}"))
    return found


def _control(study: Study) -> list[Problem]:
    control = study.control
    if control.arm not in study.arms:
        return [Problem(("control",), no_such("arm", control.arm, study.arms))]
    method = study.arms[control.arm].speculation.method
    if method != "none" and not control.speculates:
        hint = f"If that is meant, write `control: {{arm: {control.arm}, speculates: true}}`."
        return [Problem(("control",), f"arm `{control.arm}` speculates ({method})", hint)]
    return []


def _servers(study: Study) -> list[Problem]:
    """One way to a server in a study, and as many machines as the arms are for."""
    ways = {
        "attach": bool(study.attach),
        "hosts": bool(study.hosts),
        "boot": study.boot.own,
    }
    given = [name for name, used in ways.items() if used]
    found: list[Problem] = []
    if len(given) > 1:
        meant = " and ".join(
            f"`boot.{'manual' if study.boot.manual else 'start'}`" if one == "boot" else f"`{one}`"
            for one in given
        )
        found.append(Problem((given[0],), f"{meant} are different ways to a server: keep one"))
    found += [
        Problem(("attach", name), no_such("arm", name, study.arms))
        for name in study.attach
        if name not in study.arms
    ]
    for name in study.arms if study.hosts else ():
        wanted = study.arm_settings(name).settings.nodes or 1
        if wanted != len(study.hosts):
            machines = f"{wanted} machine{'s' if wanted > 1 else ''}"
            found.append(
                Problem(
                    ("hosts",), f"arm `{name}` is for {machines} (`nodes`), and there are {len(study.hosts)}"
                )
            )
    if study.serving == "as_served" and not study.attach and not study.boot.own_settings:
        found.append(
            Problem(
                ("serving",),
                "`as_served` is for servers with their owner's settings: kvantage pins those that it starts",
                "Leave it out (`flags` of yours win over pins), start them yourself (`boot.start` without"
                " {flags}), or `attach`.",
            )
        )
    return found


def _boots(study: Study) -> list[Problem]:
    """Servers that run already are not started anew; a target needs room above the fewest boots."""
    if study.attach and study.most_boots > 1:
        field = "until" if study.until else "boots"
        message = "servers that run already (`attach`) are not started anew: leave it out"
        hint = "For several boots, restart them and measure into another folder, or give `boot.start`."
        return [Problem((field,), message, hint)]
    if study.until and study.until.max_boots < study.boots:
        few = f"is fewer than the {study.boots} `boots` that there are in any case"
        return [Problem(("until", "max_boots"), few)]
    return []


def doubts(study: Study) -> tuple[str, ...]:
    """What is allowed and yet likely to be a mistake, as sentences."""
    found = []
    arms = {name: study.arm_settings(name) for name in study.arms}
    most = study.highest_concurrency
    for name, arm in arms.items():
        running = arm.settings.max_running_requests
        if running is not None and running < most:
            found.append(f"arm `{name}` runs {running} requests at once: {most} at once will measure a queue")
    names = list(arms)
    for index, a in enumerate(names):
        for b in names[index + 1 :]:
            if arms[a].fingerprint() == arms[b].fingerprint():
                found.append(f"arms `{a}` and `{b}` ask for the same thing: they show boot noise")
            elif arms[a].samplers != arms[b].samplers:
                found.append(f"arms `{a}` and `{b}` differ in their samplers: speeds do not compare")
    least = study.policy.min_sessions if study.policy else None
    limits = [arm.settings.context_length for arm in arms.values() if arm.settings.context_length]
    if least and limits and least.tokens > min(limits):
        found.append(
            f"`min_sessions` counts sessions of {least.tokens:,} tokens, and the longest that can be served "
            f"holds {min(limits):,}: that is arithmetic on the pool only"
        )
    if study.policy is None:
        found.append("there is no `policy`, so no arm will be recommended")
    return tuple(found)
