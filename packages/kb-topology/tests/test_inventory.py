from kb_topology import LinkGroup, count_kinds, link_groups


def test_nodes_are_counted_by_kind(small):
    assert count_kinds(small().graph) == {"hbm": 4, "xbar": 2, "bridge": 1, "pe_dma": 4, "pe_tcm": 4}


def test_links_are_counted_once_there_and_back(small):
    groups = link_groups(small("length_mm: 2.5}", "length_mm: 2.5, both_ways: false}").graph)
    assert [(group.a, group.b, group.both_ways, group.links) for group in groups] == [
        ("pe_dma", "xbar", True, 4),
        ("xbar", "hbm", True, 4),
        ("xbar", "bridge", False, 2),
    ]
    # 4 slices of 102.4 GB/s; 3 mm x 7 ps
    assert groups[1] == LinkGroup(
        a="xbar", b="hbm", both_ways=True, links=4, bw_gbs=102.4, total_gbs=409.6, length_mm=3, latency_ps=21
    )


def test_links_of_a_mesh_are_between_nodes_of_one_kind(whole):
    # 2 SIPs with 2 rows of 2 links and 3 columns of 1
    (mesh,) = [group for group in link_groups(whole().graph) if group.a == group.b == "ucie"]
    assert mesh.links == 2 * (2 * 2 + 3 * 1)
