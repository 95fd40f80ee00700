from msgspec.structs import replace

from kb_messages import (
    DType,
    GemmCommand,
    LoadCommand,
    MathAttributes,
    MathCommand,
    MathInput,
    Matrix,
    StoreCommand,
    TileShape,
)
from kb_plans import (
    TileRoom,
    generate_gemm_plan,
    generate_math_plan,
    generate_plan,
    generate_transfer_plan,
    suggest_math_tile,
    suggest_tile,
)

SQUARE = Matrix.packed(64, 64, DType.F16)
ROOM = TileRoom(input_nbytes=4096, output_nbytes=4096, register_nbytes=8192)
GEMM = GemmCommand(a=SQUARE, b=SQUARE, out=SQUARE)
EXP = MathCommand(math=MathAttributes(op="exp"), inputs=(MathInput(matrix=SQUARE),), out=SQUARE)


def test_an_open_tile_is_the_suggested_one() -> None:
    assert generate_plan(GEMM, "pe0", ROOM) == generate_gemm_plan(replace(GEMM, tile=suggest_tile(GEMM, ROOM)), "pe0")
    suggested = replace(EXP, tile=suggest_math_tile(EXP, ROOM))
    assert generate_plan(EXP, "pe0", ROOM) == generate_math_plan(suggested, "pe0")


def test_a_tile_that_is_given_is_taken() -> None:
    gemm, exp = replace(GEMM, tile=TileShape(2, 4, 8)), replace(EXP, tile=TileShape(2, 4, 1))
    assert generate_plan(gemm, "pe0", ROOM) == generate_gemm_plan(gemm, "pe0")
    assert generate_plan(exp, "pe0", ROOM) == generate_math_plan(exp, "pe0")


def test_transfers_have_no_tile() -> None:
    for command in (LoadCommand(src=SQUARE, dst=SQUARE), StoreCommand(src=SQUARE, dst=SQUARE)):
        assert generate_plan(command, "pe0", ROOM) == generate_transfer_plan(command, "pe0")
