"""The study file: what is asked, of which arms, of which model. `load_study` reads one."""

from kvantage.study.arm import Arm, Drafter
from kvantage.study.environment import resolve_env
from kvantage.study.load import load_study, packaged_study, study_from_text
from kvantage.study.phases import (
    BUILTIN,
    DOCUMENTS,
    FIRST,
    PHASES,
    Cold,
    PhaseName,
    Phases,
    Probes,
    Repeat,
    Short,
    Sweep,
    Ttft,
)
from kvantage.study.policy import Maximise, MaxTtft, MinSessions, MinUserSpeed, Policy
from kvantage.study.servers import Attach, Boot, Node, filled_in
from kvantage.study.study import Difference, Study
from kvantage.study.subject import Control, EngineChoice, Model

__all__ = [
    "BUILTIN",
    "DOCUMENTS",
    "FIRST",
    "PHASES",
    "Arm",
    "Attach",
    "Boot",
    "Cold",
    "Control",
    "Difference",
    "Drafter",
    "EngineChoice",
    "MaxTtft",
    "Maximise",
    "MinSessions",
    "MinUserSpeed",
    "Model",
    "Node",
    "PhaseName",
    "Phases",
    "Policy",
    "Probes",
    "Repeat",
    "Short",
    "Study",
    "Sweep",
    "Ttft",
    "filled_in",
    "load_study",
    "packaged_study",
    "resolve_env",
    "study_from_text",
]
