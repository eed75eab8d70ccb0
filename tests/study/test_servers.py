"""Three ways to a server, as a study says them."""

import re
from pathlib import Path

import pytest

from kvantage.study import Boot, Node, Study, filled_in
from tests.study.base import BASE, ROOT, read

PAGE = (ROOT / "docs" / "servers.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split(":")[0])
def test_every_block_of_the_page_is_part_of_a_study(block: str) -> None:
    text = re.sub(r"(?m)^engine: fast\n", "", BASE) if "engine:" in block else BASE
    if "arms:" in block:
        text = re.sub(r"(?ms)^arms:\n.*?(?=^phases)", "", text)
    if "hosts:" in block:
        text = text.replace("  context_length: 4096", "  context_length: 4096\n  nodes: 2")
    study = read(text + block, paths_must_exist=False)
    assert Study.from_json(study.to_json()).to_json() == study.to_json()


def test_the_page_names_every_field() -> None:
    assert [name for name in Boot.model_fields if name not in PAGE] == []
    assert [name for name in Node.model_fields if f"{name}" not in PAGE] == []


def test_braces_that_are_not_ours_are_left_alone() -> None:
    command = "docker run --format '{{.ID}}' -e X=${HOME} img {flags} # {arm} {port}"
    assert filled_in(command, flags="--a 'b c'", arm="mtp", port="1") == (
        "docker run --format '{{.ID}}' -e X=${HOME} img --a 'b c' # mtp 1"
    )


@pytest.mark.parametrize(
    ("text", "name", "user", "port"),
    [
        ("spark1", "spark1", None, 22),
        ("me@10.0.0.2:2222", "10.0.0.2", "me", 2222),
        ("[::1]:23", "[::1]", None, 23),
    ],
)
def test_a_host_in_a_word(text: str, name: str, user: str | None, port: int) -> None:
    node = Node.model_validate(text)
    assert (node.name, node.user, node.port) == (name, user, port)


def test_models_may_lie_elsewhere_where_the_server_does(tmp_path: Path) -> None:
    text = BASE.replace("org/target", "/models/there")
    own = "boot: {start: manual, url: http://x}\n"
    for more in (own, "attach: {mtp: http://x}\n", "hosts: [spark1]\n"):
        study = read(text + more, tmp_path, paths_must_exist=True)
        assert study.model.path == "/models/there"
        assert study.boot.own is (more == own)


def test_what_an_attached_arm_is_changes_with_what_its_server_said() -> None:
    one = read(BASE + "attach: {mtp: {url: http://x/v1/, served: a}}\n")
    other = read(BASE + "attach: {mtp: {url: http://x, served: b}}\n")
    assert one.attach["mtp"].url == "http://x"
    assert one.arm_settings("mtp").engine_options["behind"] == "fast"
    assert one.arm_settings("mtp").fingerprint() != other.arm_settings("mtp").fingerprint()
    assert one.served == "as_served"
    assert read().served == "controlled"
