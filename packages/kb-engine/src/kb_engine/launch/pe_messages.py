"""PeMessages: what a PE does with the host's messages. A launch starts its kernel; other messages are for its MMU."""

from __future__ import annotations

from collections.abc import Mapping

from kb_engine.block.control_roles import respond
from kb_engine.launch.launch import Launch
from kb_engine.program.pe import ProcessingElement
from kb_messages import KbError, KernelError, KernelLaunch, MmuMessage, Refusal, Request


class PeMessages:
    """Takes the requests that reach the CPU of *pe*. *launches* holds the launches under way, by number."""

    def __init__(self, pe: ProcessingElement, launches: Mapping[int, Launch]) -> None:
        self._pe = pe
        self._launches = launches

    def take(self, request: Request) -> None:
        """*request* arrives at the PE now. Its answer leaves when the kernel is done or the MMU has obeyed."""
        message = request.message
        if isinstance(message, KernelLaunch):
            target_ps = self._pe.cpu.clock.now_ps if message.target_start_ps is None else message.target_start_ps
            launch = self._launches[message.launch]
            launch.reach(self._pe.pe_id, target_ps, lambda: respond(self._pe.cpu, request))
        else:
            respond(self._pe.cpu, request, self._obey(message))

    def _obey(self, message: MmuMessage) -> Refusal | None:
        try:
            if self._pe.mmu is None:
                raise KernelError("map", f"{self._pe.pe_id}, which has no MMU", "a pe_mmu in pe_template")
            self._pe.mmu.apply(message)
        except KbError as error:
            return Refusal(where=error.where, got=error.got, needs=error.needs, fix=error.fix)
        return None
