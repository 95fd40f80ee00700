"""Known integers and masks that are data: operands of math get their bytes as constants of the op log."""

from __future__ import annotations

from kb_engine.language.access.masks import constants
from kb_engine.language.access.piece_transfers import PieceTransfers
from kb_engine.language.rules.math_results import Argument
from kb_engine.program.values.handles import LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_messages import DType


class KnownOperands(PieceTransfers):
    """Math with known integers and masks that follow from no range: data, such as `tl.arange(0, 8) & 3`."""

    def _as_operand(self, argument: Argument, line: str) -> Argument:
        given = self._with_bytes(argument) if isinstance(argument, HostValue) else argument
        return given if isinstance(given, LoadedTensor) else super()._as_operand(given, line)

    def stored(self, known: HostValue, dtype: DType, line: str) -> LoadedTensor:
        """*known* in TCM as *dtype*: computed if it follows from ranges, else constants.

        Raises KernelError for a number that an integer *dtype* does not have.
        """
        data = constants(known.data, dtype, line)
        return self._call("copy", [known], dtype=dtype) if _is_computed(known) else self.constants(data, dtype, line)

    def _with_bytes(self, known: HostValue) -> HostValue | LoadedTensor:
        """*known* as constants in TCM, i32 where that is enough, or as it is if it is computed."""
        if _is_computed(known):
            return known
        line, dtype = self._port.line(), known.integers
        return self.constants(constants(known.data, dtype, line), dtype, line)


def _is_computed(known: HostValue) -> bool:
    """Whether math makes the bytes of *known* from the indices of its axes, of which there are one or two."""
    return known.form is not None and len(known.shape) in (1, 2)
