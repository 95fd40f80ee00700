"""An engine's launches: what is refused, and what an engine forgets."""

import gc
import weakref

import numpy as np
import pytest

from kb_messages import KernelError


def test_a_launch_on_no_pe_is_refused(toy_engine, tmp_path):
    with pytest.raises(KernelError) as caught:
        toy_engine().launch(lambda tl: None, [], [], tmp_path)
    assert str(caught.value) == "launch: got no PEs, needs at least one"


def test_an_engine_forgets_what_a_launch_was_given_when_the_launch_ends(toy_host):
    class Marked:
        """An argument of a kernel."""

    def kernel(tl, marked, a):
        tl.load(a)

    host, seen = toy_host(), []
    a = host.tensor("a", np.zeros((16, 16), np.float16), "f16")
    for _ in range(3):
        marked = Marked()
        seen.append(weakref.ref(marked))
        host.launch(kernel, marked, a)
    del marked
    gc.collect()
    assert [each() for each in seen] == [None, None, None]
