"""Remedies of a kernel stand in the tables of `kb run`, `kb report` and `kb exec`, and on the page."""

import json

import kernbench as kb

BENCH = """
import numpy as np

import kernbench as kb


def double(tl, x, y):
    for block in range(tl.program_id(), 9, tl.num_programs()):
        part = slice(block * 64, (block + 1) * 64)
        tl.store(y[part, :], tl.load(x[part, :]) * 2)


x = np.ones((9 * 64, 512), np.float16)
print(kb.run(double, x, kb.empty(x.shape, "f16"), folder="runs").folder)
"""


def folder_of_a_flawed_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flawed.py").write_text(BENCH)
    exec(compile(BENCH, str(tmp_path / "flawed.py"), "exec"), {"__name__": "flawed"})
    return capsys.readouterr().out.strip()


def test_a_report_lists_the_flaws_of_a_kernel(invoke, tmp_path, monkeypatch, capsys):
    folder = folder_of_a_flawed_run(tmp_path, monkeypatch, capsys)
    result = json.loads((tmp_path / folder / "run.json").read_text())["results"]
    remedy = result["remedies"][0]
    assert remedy["rule"] == "tail"
    gain = f"{100 * remedy['gain']:.1f} % estimated"
    shown = invoke("report", folder).stdout
    assert "what a rewrite would gain" in shown
    assert remedy["flaw"] in shown
    assert gain in shown
    page = invoke("report", folder, "-o", "page.html")
    assert page.exit_code == 0
    text = (tmp_path / "page.html").read_text()
    assert "<h2>Flaws of the kernel</h2>" in text
    assert remedy["change"] in text
    assert gain in text
    assert json.loads(invoke("report", folder, "--json").stdout)["remedies"] == result["remedies"]


def test_a_run_without_flaws_has_no_table(invoke):
    shown = invoke("run", "gemm", "-p", "M=64", "-p", "N=64", "-p", "K=64", "--topology", "one_pe").stdout
    assert "what a rewrite would gain" not in shown
    assert kb.run("gemm", chip="one_pe", M=64, N=64, K=64, compute=False).result.remedies == []
