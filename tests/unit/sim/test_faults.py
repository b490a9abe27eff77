"""Cutting a plan down to the faults that matter."""

from hotset.sim.faults import Fault, Plan, cut_down


def faults(count: int) -> Plan:
    return tuple(Fault("crash", f"node-{index}", float(index)) for index in range(count))


def test_one_fault_that_matters_is_found_among_many() -> None:
    plan = faults(33)
    assert cut_down(plan, lambda part: plan[20] in part, tries_max=100) == (plan[20],)


def test_two_that_matter_together_are_both_kept() -> None:
    plan = faults(16)
    assert cut_down(plan, lambda part: plan[3] in part and plan[12] in part, tries_max=200) == (plan[3], plan[12])


def test_a_plan_that_does_not_matter_is_cut_to_nothing() -> None:
    assert cut_down(faults(5), lambda part: True, tries_max=50) == ()


def test_tries_are_bounded() -> None:
    tried: list[Plan] = []

    def never(part: Plan) -> bool:
        tried.append(part)
        return False

    plan = faults(40)
    assert cut_down(plan, never, tries_max=7) == plan
    assert len(tried) == 7


def test_a_fault_reads_as_a_sentence() -> None:
    assert str(Fault("slow disk", "agent-1", 2.0, 0.5, 10.0)) == "2.00 s: slow disk of agent-1 for 0.50 s (10)"
