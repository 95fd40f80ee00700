"""Vector programs and their commands, for tests of plans."""

from kb_messages import (
    DType,
    MathAttributes,
    Matrix,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
)

F32, F16 = DType.F32, DType.F16


def value(rows: int, cols: int, dtype: DType = F32) -> VectorValue:
    return VectorValue(rows, cols, dtype)


def op(name: str, result: VectorValue, *arguments: int, axis: int | None = None, **more: object) -> VectorOp:
    attributes = MathAttributes(op=name, axis=axis, **more)  # type: ignore[arg-type]
    return VectorOp(math=attributes, arguments=arguments, result=result, line=f"k.py:{len(arguments)}")


def softmax(rows: int, cols: int) -> VectorProgram:
    """x in f16; its f32, the largest, the difference, the power, the sum, the quotient, and that in f16."""
    wide, column, narrow = value(rows, cols), value(rows, 1), value(rows, cols, F16)
    return VectorProgram(
        inputs=(narrow,),
        ops=(
            op("copy", wide, 0),
            op("max", column, 1, axis=1),
            op("sub", wide, 1, 2),
            op("exp", wide, 3),
            op("sum", column, 4, axis=1),
            op("div", wide, 4, 5),
            op("copy", narrow, 6),
        ),
        outputs=(7,),
    )


def command_of(program: VectorProgram) -> VectorCommand:
    values = program.values
    return VectorCommand(
        program=program,
        inputs=tuple(_matrix(each, number) for number, each in enumerate(program.inputs)),
        outputs=tuple(_matrix(values[each], 16 + each) for each in program.outputs),
    )


def _matrix(each: VectorValue, number: int) -> Matrix:
    return Matrix.packed(each.rows, each.cols, each.dtype, (1 << 40) + (number << 20))
