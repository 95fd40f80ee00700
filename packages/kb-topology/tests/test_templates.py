from kb_topology.chip.templates import LevelCopy, every, levels, places


def test_levels_nest_from_the_system_in(whole):
    system = levels(whole().spec)
    assert [(level.name, copies) for level, copies in every(system)] == [
        ("system", 1),
        ("sip", 2),
        ("io", 4),
        ("cube", 12),
        ("pe", 24),
    ]


def test_what_a_file_leaves_out_is_no_level(small):
    system = levels(small().spec)
    assert [(level.name, copies) for level, copies in every(system)] == [
        ("system", 1),
        ("sip", 1),
        ("cube", 1),
        ("pe", 4),
    ]


def test_nodes_are_counted_without_being_built(whole):
    topology = whole()
    # host and switch; 2 SIPs x (2 IO chiplets x 3 + 6 cubes x (2 + 1 + 4 + 2 PEs x 2))
    assert levels(topology.spec).node_count == 2 + 2 * (2 * 3 + 6 * (7 + 4)) == len(topology.graph.nodes)


def test_every_copy_has_its_place(whole):
    found = [(level.name, place) for level, place in places(levels(whole().spec), LevelCopy())]
    assert len(found) == 1 + 2 + 4 + 12 + 24
    assert found[0] == ("system", LevelCopy())
    assert found[-1] == ("pe", LevelCopy(prefix="sip1.cube5.pe1.", sip=1, cube=5, pe=1))


def test_an_endpoint_may_name_what_is_further_in(whole):
    system = levels(whole().spec)
    assert list(system.parts[0].endpoints) == [
        "io[...].pcie_ep",
        "io[...].io_noc",
        "io[...].io_cpu",
        "cube[...].hbm",
        "cube[...].noc",
        "cube[...].ucie",
        "cube[...].pe[...].pe_dma",
        "cube[...].pe[...].pe_tcm",
    ]
