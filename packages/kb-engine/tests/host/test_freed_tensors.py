"""Errors of a host about freed tensors, and about tensors of other chips."""

import numpy as np
import pytest

from kb_dataexec import StoreError
from kb_engine.host import Host
from kb_messages import KernelError

NUMBERS = np.arange(70, dtype=np.int32).reshape(10, 7)


def test_freed_memory_can_be_allocated_again_and_is_unwritten(toy_host):
    host = toy_host()
    a = host.tensor("a", np.ones((1000, 1000), np.int8), "i8")
    host.free(a)
    b = host.empty("b", (1000, 1000), "i8")
    assert b.addresses == a.addresses
    with pytest.raises(StoreError, match="were released"):
        host.read(b)


USES = pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda host, a: host.read(a), "read"),
        (lambda host, a: host.write(a, NUMBERS), "write"),
        (lambda host, a: host.free(a), "free"),
        (lambda host, a: host.map(a), "map"),
        (lambda host, a: host.warm(a), "warm"),
        (lambda host, a: host.launch(lambda tl, a: None, [a]), "launch"),
        (lambda host, a: host.launch(lambda tl, a: None, a.ref[0:2]), "launch"),
    ],
)


@USES
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_freed_tensor_cannot_be_used(toy_host, use, what, name):
    host = toy_host()
    a = host.tensor("a", NUMBERS, "i32")
    host.free(a)
    host.tensor(name, NUMBERS, "i32")  # in the same place
    with pytest.raises(KernelError) as caught:
        use(host, a)
    got = "a tensor after host.free, or of another chip"
    assert str(caught.value) == f"{what} of a: got {got}, needs one that holds memory of this chip"


@USES
def test_an_equal_tensor_of_another_chip_cannot_be_used(toy_host, use, what):
    host, a = toy_host(), toy_host().tensor("a", NUMBERS, "i32")
    assert host.tensor("a", NUMBERS, "i32") == a
    with pytest.raises(KernelError) as caught:
        use(host, a)
    got = "a tensor after host.free, or of another chip"
    assert str(caught.value) == f"{what} of a: got {got}, needs one that holds memory of this chip"


@pytest.mark.parametrize("is_reused", [False, True])
def test_a_load_of_a_freed_tensor_names_the_tensor_in_its_place_or_the_free(toy_host, is_reused):
    def kernel(tl, b):
        tl.load(freed[0:2])

    host = toy_host()
    a, b = host.tensor("a", NUMBERS, "i32"), host.tensor("b", NUMBERS, "i32")
    freed = a.ref
    host.free(a)
    if is_reused:
        assert host.empty("c", NUMBERS.shape, "i32").addresses == a.addresses
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, b, pes=[0])
    said = (
        "first that of c[0, 0], needs initialised bytes; store to"
        if is_reused
        else (
            "needs initialised bytes; the tensor that was there has been freed (host.free): launch before that, or on"
        )
    )
    assert said in str(caught.value)


def test_a_freed_tensor_in_a_dict_is_refused_before_a_store(toy_host):
    host = toy_host()
    a = host.tensor("a", NUMBERS, "i32")
    host.free(a)
    with pytest.raises(KernelError, match="launch of a: got a tensor after host"):
        host.launch(lambda tl, named: tl.store(named["a"][0, 0], 1), {"a": a.ref}, pes=[0])


def test_hosts_of_one_chip_know_of_each_others_tensors(toy_host):
    host = toy_host()
    other = Host(host.engine)
    a, b = host.tensor("a", NUMBERS, "i32"), other.tensor("b", NUMBERS + 1, "i32")
    np.testing.assert_array_equal(host.read(a), NUMBERS)
    np.testing.assert_array_equal(host.read(b), NUMBERS + 1)
    other.free(a)
    with pytest.raises(KernelError, match=r"read of a: got a tensor after host\.free"):
        host.read(a)


def test_a_host_from_before_a_rebase_is_refused(toy_host):
    host = toy_host()
    a = host.tensor("a", NUMBERS, "i32")
    host.engine.rebase(host.engine.memory.store.snapshot())
    for use in (lambda: host.read(a), lambda: host.empty("b", (4,), "i32")):
        with pytest.raises(KernelError, match=r"got a host from before Engine\.rebase, needs a new Host"):
            use()
    Host(host.engine).tensor("b", NUMBERS, "i32")
