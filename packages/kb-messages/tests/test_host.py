import msgspec

from kb_messages.host import KernelLaunch


def test_a_launch_carries_no_bytes_and_survives_json() -> None:
    launch = KernelLaunch(launch_id=1, kernel="gemm", target_pes=("sip0.cube0.pe0", "sip0.cube0.pe1"))
    assert launch.nbytes == 0
    assert msgspec.json.decode(msgspec.json.encode(launch), type=KernelLaunch) == launch
