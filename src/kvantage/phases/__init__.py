"""What is measured. Each phase is a small file with `chains(study)`; adding one is adding it here."""

from kvantage.phases import exactness, probes, recheck, short, sweep, ttft, waves
from kvantage.phases.bench import Ask, Bench
from kvantage.phases.chain import ChainPlan, Load
from kvantage.study import Study

__all__ = ["Ask", "Bench", "ChainPlan", "Load", "chains_of", "recheck"]


def chains_of(study: Study) -> list[ChainPlan]:
    """Everything that the study asks of an arm, in the order of measuring: the first request after boot
    before anything else, short before long.
    """
    alone, crowded = probes.chains(study)[:1], probes.chains(study)[1:]
    ladder, loops = ttft.chains(study), sweep.chains(study)
    asked = [*ladder, *alone, *short.chains(study), *loops, *waves.chains(study), *crowded]
    return [*asked, *exactness.chains(study)]
