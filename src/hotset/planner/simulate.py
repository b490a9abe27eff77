"""Runs seeds and says of each whether the rules held; a seed that fails is told so that it can be run again."""

from dataclasses import dataclass

from hotset.planner.fleet import Fleet
from hotset.planner.rules import BrokenRuleError
from hotset.sim.faults import Plan, cut_down

_CUT_TRIES_MAX = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one seed came to."""

    seed: int
    #: Empty where every rule held; else the rule, or the name of the error that was met in its place.
    rule: str
    message: str
    num_events: int
    #: Virtual seconds.
    lasted_s: float
    digest: str
    #: The last lines of the log.
    last: tuple[str, ...]
    plan: Plan
    #: Requests by outcome and code.
    endings: dict[str, int]

    @property
    def is_clean(self) -> bool:
        """Whether every rule held."""
        return not self.rule


def run_seed(seed: int, num_events: int, plan: Plan | None = None) -> Verdict:
    """Run one seed to its end or to the first rule that breaks.

    Args:
        seed: What the whole world is drawn from.
        num_events: Events before the fleet is let come to rest.
        plan: Faults in place of the drawn ones.
    """
    fleet = Fleet(seed, plan)
    rule = message = ""
    try:
        fleet.run(num_events)
    except AssertionError as error:
        rule, message = _rule_of(error), str(error)
    except Exception as error:  # noqa: BLE001 - a seed's outermost loop: whatever a policy dies of is a finding
        rule, message = type(error).__name__, str(error)
    world = fleet.world
    endings = {f"{outcome} {code}".strip(): count for (outcome, code), count in sorted(fleet.rules.endings.items())}
    endings |= {f"job {state}": count for state, count in sorted(fleet.job_rules.endings.items())}
    log = world.log
    return Verdict(seed, rule, message, log.num_events, world.now_s, log.digest(), log.last(), fleet.plan, endings)


def cut_plan(verdict: Verdict, num_events: int) -> Plan:
    """Return as few of a failed seed's faults as still break the same rule."""

    def still_fails(plan: Plan) -> bool:
        return run_seed(verdict.seed, num_events, plan).rule == verdict.rule

    return cut_down(verdict.plan, still_fails, tries_max=_CUT_TRIES_MAX)


def _rule_of(error: AssertionError) -> str:
    """Return the rule that an assertion names, such as ``I3``; production's own totals that disagree name none."""
    if isinstance(error, BrokenRuleError):
        return error.rule
    word = str(error).partition(":")[0]
    return word if word[:1] == "I" and word[1:].isdigit() else "invariant"
