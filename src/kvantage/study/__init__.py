"""The study file: what is asked, of which arms, of which model. `load_study` reads one."""

from kvantage.study.arm import Arm, Drafter
from kvantage.study.environment import resolve_env
from kvantage.study.load import load_study, packaged_study, study_from_text
from kvantage.study.phases import BUILTIN, DOCUMENTS, PHASES, Cold, PhaseName, Phases, Probes, Repeat, Short
from kvantage.study.policy import Maximise, MinSessions, Policy
from kvantage.study.study import Difference, Study
from kvantage.study.subject import Control, EngineChoice, Model

__all__ = [
    "BUILTIN",
    "DOCUMENTS",
    "PHASES",
    "Arm",
    "Boot",
    "Cold",
    "Control",
    "Difference",
    "Drafter",
from kvantage.study.servers import Attach, Boot, Node, filled_in
    "EngineChoice",
    "Maximise",
    "MinSessions",
    "Model",
    "PhaseName",
    "Phases",
    "Policy",
    "Probes",
    "Repeat",
    "Attach",
    "Short",
    "Study",
    "load_study",
    "packaged_study",
    "resolve_env",
    "study_from_text",
]
    "Node",
