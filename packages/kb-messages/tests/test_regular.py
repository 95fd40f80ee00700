"""Only regular files inside their folder are read, and none that is too large."""

import os
import socket

import pytest

from kb_messages import LogError, file_in, read_bytes


def test_a_regular_file_is_read_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert read_bytes(tmp_path / "a", LogError) == b"abc"


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda path: None, "no such file, needs a file"),
        (lambda path: path.mkdir(), "a folder, needs a regular file"),
        (pipe, "a pipe, needs a regular file"),
        (unix_socket, "a file that cannot be opened (No such device or address), needs a readable file"),
        (lambda path: path.symlink_to("/dev/zero"), "a device, needs a regular file"),
        (
            lambda path: path.symlink_to(path.name),
            "a file that cannot be opened (Too many levels of symbolic links), needs a readable file",
        ),
    ],
    ids=["missing", "folder", "pipe", "socket", "device", "circle of links"],
)  # fmt: skip
def test_what_is_no_regular_file_is_one_sentence(tmp_path, monkeypatch, make, got):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    path = tmp_path / "x"
    make(path)
    with pytest.raises(LogError) as caught:
        read_bytes(path, LogError)
    assert str(caught.value) == f"{path}: got {got}"


def test_a_file_beyond_the_limit_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(bytes(9))
    assert len(read_bytes(tmp_path / "a", LogError, 9)) == 9
    with pytest.raises(LogError, match=r": got 9 bytes, needs at most 8$"):
        read_bytes(tmp_path / "a", LogError, 8)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x.npy", "a/../../x", "a\\b", "a\0b", "..", "."])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    with pytest.raises(LogError, match=r"needs the relative path of a file in the same folder$"):
        file_in(tmp_path, name, LogError)


def test_a_link_is_refused_wherever_it_leads(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert file_in(tmp_path, "real/a.npy") == tmp_path / "real/a.npy"
    with pytest.raises(LogError, match="got a link"):
        file_in(tmp_path, "link/a.npy", LogError)
