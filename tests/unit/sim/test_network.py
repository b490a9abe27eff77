"""What a network does to messages."""

from hotset.sim.network import Network, Quality
from hotset.sim.world import World


class Ear:
    def __init__(self, network: Network, address: str) -> None:
        self.heard: list[tuple[str, object]] = []
        network.attach(address, lambda source, message: self.heard.append((source, message)))


def run(world: World) -> None:
    while world.step():
        pass


def test_a_message_arrives_after_a_delay() -> None:
    world = World(1)
    network = Network(world, Quality(delay_s=0.01))
    ear = Ear(network, "b")
    network.send("a", "b", "hello")
    assert not ear.heard
    run(world)
    assert ear.heard == [("a", "hello")]
    assert 0.005 <= world.now_s <= 0.015


def test_messages_are_lost_repeated_and_late_as_often_as_asked() -> None:
    world = World(1)
    network = Network(world, Quality(lost_share=0.2, repeated_share=0.3, late_share=0.1, late_s=5.0))
    ear = Ear(network, "b")
    for index in range(1000):
        network.send("a", "b", index)
    run(world)
    assert 150 < network.num_lost < 250
    assert len(ear.heard) == 1000 - network.num_lost + network.num_repeated
    assert 60 < network.num_late < 150
    assert [message for _, message in ear.heard] != sorted(message for _, message in ear.heard)


def test_a_partition_keeps_sides_apart_also_what_is_under_way_until_it_heals() -> None:
    world = World(1)
    network = Network(world, Quality())
    ears = {address: Ear(network, address) for address in ("b", "c")}
    network.send("a", "b", "under way")
    network.split({"b": 1, "c": 1})
    network.send("a", "b", "no")
    network.send("c", "b", "same side")
    run(world)
    assert ears["b"].heard == [("c", "same side")]
    network.split({})
    network.send("a", "b", "healed")
    run(world)
    assert ears["b"].heard[-1] == ("a", "healed")


def test_nobody_hears_where_nobody_is() -> None:
    world = World(1)
    network = Network(world, Quality())
    ear = Ear(network, "b")
    network.send("a", "b", "to one that goes")
    network.detach("b")
    run(world)
    assert not ear.heard
