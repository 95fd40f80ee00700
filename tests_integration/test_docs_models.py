"""The page on models: its commands are legal, its configuration runs, and its own model and op run by entry points."""

import json
import re
import shlex
from pathlib import Path

import pytest
from python_copies import kb, python

PAGE = (Path(__file__).parents[1] / "docs" / "models.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^kb run .*$", "".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)), re.MULTILINE)
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ENTRY_POINTS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
TINY = {"model_type": "squares", "hidden_size": 96, "num_hidden_layers": 6}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_are_legal(command: str, tmp_path: Path) -> None:
    """Each command lists its ops, which reads all of its options and makes its model, and runs nothing."""
    sizes = json.loads(re.search(r"tiny = (\{.*?\n\})", PAGE, re.DOTALL)[1].replace(",\n}", "\n}"))
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
    program, *words = shlex.split(command)
    assert program == "kb"
    done = kb(tmp_path, *words, *([] if "--list" in words else ["--list"]))
    assert done.returncode == 0, done.stderr
    assert "in the model" in done.stdout


def test_a_configuration_runs_from_python(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(EXAMPLES[0], encoding="utf-8")
    done = python(tmp_path, "tiny.py")
    assert done.returncode == 0, done.stderr


def test_a_model_and_an_op_of_another_package_run(tmp_path: Path) -> None:
    """The folder of a script is on the path of Python, so entry points in it are those of an installed package."""
    installed = tmp_path / "own_models-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: own-models\nVersion: 1.0\n", encoding="utf-8")
    points = ENTRY_POINTS[0].replace('[project.entry-points."', "[").replace('"]', "]").replace('"', "")
    (installed / "entry_points.txt").write_text(points, encoding="utf-8")
    (tmp_path / "own_models.py").write_text(EXAMPLES[1], encoding="utf-8")
    (tmp_path / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    arguments = ["run", "config.json", "--tokens", "9", "--topology", "one_cube", "--layers", "2", "--json"]
    (tmp_path / "start.py").write_text(f"from kb_cli.main import main\n\nmain({arguments})\n", encoding="utf-8")
    done = python(tmp_path, "start.py")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["verified"]
    assert [(op["name"], op["repeats"]) for op in result["workload_ops"]][:3] == [
        ("block0.norm", 3),
        ("block0.up", 3),
        ("block0.squared", 3),
    ]


def test_a_model_that_does_not_fit_is_refused_as_quoted(tmp_path: Path) -> None:
    quoted = re.search(r"```text\n(error: .*)\n```", PAGE)[1]
    assert kb(tmp_path, "run", "llama3-405b").stderr.strip() == quoted
