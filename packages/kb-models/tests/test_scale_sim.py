"""SCALE-Sim's tables are read in every form that its versions write; damaged ones name the cell."""

import pytest

from kb_messages import BenchmarkError
from kb_models.networks import Convolution, Layer, Product, read_table
from kb_models.networks.scale_sim import looks_like_table

HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"


def bare(layers: list[Layer]) -> list[Layer]:
    return [layer._replace(line=0) for layer in layers]


FIRST = Convolution("Conv1", (227, 227), (11, 11), 3, 96, (4, 4))
FC = Convolution("FC", (1, 1), (1, 1), 512, 1000, (1, 1))


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "Conv1, 227, 227,    11, 11,    3,      96,     4,\nFC, 1, 1, 1, 1, 512, 1000, 1,\n",
        "Conv1,227,227,11,11,3,96,4\nFC,1,1,1,1,512,1000,1",  # no header, no last commas
        HEADER + "\n,,,,,,,,\n  \nConv1,227,227,11,11,3,96,4,\r\n\r\nFC,1,1,1,1,512,1000,1, \n",
        HEADER.replace(",\n", ",, Target\n") + "Conv1,227,227,11,11,3,96,4, NPU\nFC,1,1,1,1,512,1000,1,#last\n",
        HEADER.replace("Strides", "Stride H,Stride W") + "Conv1,227,227,11,11,3,96,4,4,\nFC,1,1,1,1,512,1000,1,1,",
        HEADER.replace(",\n", ", Sparsity,\n") + "Conv1,227,227,11,11,3,96,4,1:1,\nFC,1,1,1,1,512,1000,1,4:4,\n",
        '\ufeff"Layer name","IFMAP Height"\n"Conv1","227", 227 ,"11",11,3,96,4,\nFC,1,1,1,1,512,1000,1,\n',
    ],
)
def test_convolutions_of_every_version(text: str) -> None:
    assert bare(read_table("net.csv", text)) == [FIRST, FC]


@pytest.mark.parametrize("header", ["Layer, M, N, K,\n", "Layer,M,N,K,Batch,\n", ""])
def test_products_are_in_the_order_m_n_k(header: str) -> None:
    text = f"{header}qkv,128,1536,512,\n\nscore,512,128,64,4,\nff,156,1536,384,2:4,\nlast,3,2,1,1:1,7,"
    assert bare(read_table("net.csv", text)) == [
        Product("qkv", 128, 1536, 512),
        Product("score", 512, 128, 64, batch=4),
        Product("ff", 156, 1536, 384, dense=False),
        Product("last", 3, 2, 1, batch=7),
    ]


def test_two_strides_and_sparsity_and_depthwise_rows() -> None:
    text = f"{HEADER}DP1,112,114,3,5,32,1,1,2,\nConv2,56,56,3,3,64,128,2,1,2:4,\n"
    one, other = read_table("net.csv", text)
    assert one == Convolution("DP1", (112, 114), (3, 5), 32, 1, (1, 2), depthwise=True, line=2)
    assert other == Convolution("Conv2", (56, 56), (3, 3), 64, 128, (2, 1), dense=False, line=3)


def test_the_last_window_may_reach_over_the_edge() -> None:
    """224 - 7 = 217 rows are 108 steps of 2 and a rest: SCALE-Sim counts ceil((224 - 7 + 2) / 2) = 110 windows."""
    [layer] = read_table("net.csv", "Conv1,224,229,7,7,3,64,2,")
    assert isinstance(layer, Convolution)
    assert layer.ofmap == (110, 112)
    assert layer.over_the_edge == (1, 0)


def test_equal_names_get_numbers() -> None:
    text = "a,1,2,3,\na,1,2,3,\na.2,1,2,3,\na,1,2,3,\n,1,2,3,\n,1,2,3,\nx\x07,1,2,3,"
    names = [layer.name for layer in read_table("net.csv", text)]
    assert names == ["a", "a.2", "a.2.2", "a.3", "line5", "line6", "x_"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            HEADER + "Conv1, 227, x27, 11,11,3,96,4,",
            "net.csv:2:13: got the cell 'x27', needs a whole number",
        ),
        (HEADER + "Conv1,227,,11,11,3,96,4,", "net.csv:2:11: got an empty cell"),
        (HEADER + "Conv1,227,227,11,11,3,96,0,", "net.csv:2:26: got 0, needs a whole number from 1 to 2147483647"),
        (HEADER + "Conv1,227,227,11,11,3,-96,4,", "net.csv:2:23: got the cell '-96'"),
        (HEADER + "Conv1,227.0,227,11,11,3,96,4,", "net.csv:2:7: got the cell '227.0'"),
        (HEADER + "Conv1,2" + "2" * 50 + ",227,11,11,3,96,4,", "net.csv:2:7: got 2222"),
        (HEADER + "Conv1,227,227,11,", "net.csv:2:15: got a row of 4 cells, needs 8 or more"),
        (HEADER + "Conv1,7,7,11,11,3,96,4,", "net.csv:2:11: got a filter of height 11 over an ifmap of height 7"),
        (HEADER + "Conv1,227,7,11,11,3,96,4,", "net.csv:2:16: got a filter of width 11 over an ifmap of width 7"),
        (HEADER + "Conv1,227,227,11,11,3,96,4,4,5,", "net.csv:2:30: got the cell '5'"),
        (HEADER + 'Conv1,"227"7,227,11,11,3,96,4,', "net.csv:2:7: got text behind a closing quote"),
        (HEADER, "net.csv: got a table without layers"),
        ("Layer, M, K, N,\nfc,1,2,3,", "net.csv:1:8: got the columns M, K, N, needs Layer, M, N, K"),
        ("a,1,2,3,\nb,1,2,", "net.csv:2:5: got a row of 3 cells, needs 4 or more: name, M, N, K"),
        ("a,1,2,3,\nb,1,2,3,f16,9,", "net.csv:2:9: got the cell 'f16', needs a ratio of sparsity"),
        ("a,1,2,3,\nConv,224,224,7,7,3,64,2,", "net.csv:2:18: got the cell '3'"),
    ],
)
def test_damaged_tables_name_the_cell(text: str, sentence: str) -> None:
    with pytest.raises(BenchmarkError) as found:
        read_table("net.csv", text)
    assert str(found.value).startswith(sentence)


def test_text_that_looks_like_a_table() -> None:
    assert looks_like_table(HEADER + "Conv1,227,227,11,11,3,96,4,")
    assert looks_like_table("fc,1,2,3")
    assert looks_like_table("Layer,M,N,K\nfc,x,2,3\nfc,1,2,3,4")
    assert not looks_like_table("import numpy as np\nx = [1, 2, 3]\nclass A: pass\n")
    assert not looks_like_table("hello, world\n")
    assert not looks_like_table("")
