"""Knowledge graphs in files of the layouts of FB15k, WN18RR and OpenKE, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decentorth.data import load_triples

WN18RR = {
    "train.txt": "00260881\t_hypernym\t00260622\n01332730\t_derivationally_related_form\t03122748\n06066555\t_hypernym\t08322981\n",
    "valid.txt": "02174461\t_hypernym\t02176268\n",
    "test.txt": "06845599\t_member_of_domain_usage\t03754979\n00260881\t_hypernym\t08322981\n",
}
FB15K = (
    "/m/027rn\t/location/country/form_of_government\t/m/06cx9\r\n"
    "/m/017dcd\t/tv/tv_program/regular_cast./tv/regular_tv_appearance/actor\t/m/06v8s0\r\n"
    "\r\n"
    "/m/06cx9\t/location/country/form_of_government\t/m/027rn"
)


OPENKE = {
    "train2id.txt": "4\n0 1 2\n1\t2\t0\n3 0 1\r\n0 3 0",
    "valid2id.txt": "1\n2 1 0\n",
    "test2id.txt": "2\n1 3 2\n3 2 1\n",
    "entity2id.txt": "4\n/m/027rn\t0\n/m/06cx9\t1\nD\u00fcrer A.\t2\n/m/06v8s0\t3\n",
    "relation2id.txt": "3\n/location/country/form_of_government\t0\n/tv/actor "
    "1\n/film/director\t2\n",
}
"""The layout of OpenKE's benchmarks: the number of lines, then head, tail, relation."""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())
    return folder


def test_a_folder_as_wn18rr_has_it(tmp_path: Path) -> None:
    found = load_triples(write(tmp_path, WN18RR))
    assert found.entities[:3] == ("00260881", "00260622", "01332730")
    assert found.relations == (
        "_hypernym",
        "_derivationally_related_form",
        "_member_of_domain_usage",
    )
    names = [
        [(found.entities[h], found.relations[r], found.entities[t]) for h, r, t in part.tolist()]
        for part in (found.train, found.valid, found.test)
    ]
    assert names == [
        [tuple(line.split("\t")) for line in WN18RR[f"{part}.txt"].splitlines()]
        for part in ("train", "valid", "test")
    ]
    assert found.train.dtype == np.int64


def test_one_file_as_of_fb15k_with_blank_lines_and_any_line_ends(tmp_path: Path) -> None:
    file = (
        write(tmp_path, {"freebase_mtr100_mte100-train.txt": FB15K})
        / "freebase_mtr100_mte100-train.txt"
    )
    for place in (file, tmp_path, str(file)):
        found = load_triples(place)
        np.testing.assert_array_equal(found.train, [[0, 0, 1], [2, 1, 3], [1, 0, 0]])
        assert found.entities == ("/m/027rn", "/m/06cx9", "/m/017dcd", "/m/06v8s0")
        assert found.valid.shape == found.test.shape == (0, 3)


def test_names_are_told_apart_whatever_bytes_they_are(tmp_path: Path) -> None:
    (tmp_path / "graph.tsv").write_bytes(b"\xff\tr\t\xfe\nD\xc3\xbcrer\tr s\t\xff\n")
    found = load_triples(tmp_path / "graph.tsv")
    np.testing.assert_array_equal(found.train, [[0, 0, 1], [2, 1, 0]])
    assert found.entities[2] == "Dürer"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("3", "'3'"),
        ("a\tb", r"'a\\tb'"),
        ("a\tb\tc\td", r"'a\\tb\\tc\\td'"),
        ("a\t\tc", r"'a\\t\\tc'"),
        ("a b c", "'a b c'"),
    ],
)
def test_a_line_that_is_no_triple_is_named(tmp_path: Path, line: str, shown: str) -> None:
    write(tmp_path, WN18RR | {"valid.txt": f"a\tb\tc\n\n{line}\n"})
    with pytest.raises(
        ValueError,
        match=rf"valid\.txt: line 3 must hold a head, a relation and a tail, .* but is {shown}",
    ):
        load_triples(tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: .*wn18r"):
        load_triples(tmp_path / "wn18r")
    (tmp_path / "wn18rr").mkdir()
    with pytest.raises(FileNotFoundError, match="did you mean 'wn18rr'"):
        load_triples(tmp_path / "wn18r")
    with pytest.raises(
        FileNotFoundError, match=r"lacks train\.txt or train\.tsv, and holds no file"
    ):
        load_triples(tmp_path / "wn18rr")
    write(tmp_path, {"train.txt": "a\tb\tc\n", "old-train.tsv": "a\tb\tc\n"})
    with pytest.raises(
        ValueError, match=r"more than one file of train triples, old-train\.tsv and train\.txt"
    ):
        load_triples(tmp_path)
    write(tmp_path, {"empty.txt": "\n \n"})
    with pytest.raises(ValueError, match=r"empty\.txt is empty: it holds no triples"):
        load_triples(tmp_path / "empty.txt")


def test_openke_has_the_tail_before_the_relation(tmp_path: Path) -> None:
    """Never read as head, relation, tail; the files of names are not needed."""
    found = load_triples(write(tmp_path, OPENKE))
    for part, name in ((found.train, "train"), (found.valid, "valid"), (found.test, "test")):
        lines = [line.split() for line in OPENKE[f"{name}2id.txt"].splitlines()[1:]]
        names = [
            (found.entities[h], found.relations[r], found.entities[t]) for h, r, t in part.tolist()
        ]
        assert names == [(h, r, t) for h, t, r in lines]
    assert (found.entities, found.relations) == (("0", "1", "2", "3"), ("2", "0", "1"))
    alone = load_triples(tmp_path / "train2id.txt")
    np.testing.assert_array_equal(alone.train, found.train)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {"train2id.txt": "3\n0 1 2\n1 2 0\n"},
            r"says that 3 lines follow its first line, but 2 do: is it cut off\?",
        ),
        (
            {"train2id.txt": "1\n0 1 -2\n"},
            r"line 2 must hold the numbers of a head, a tail and a relation, .* but is '0 1 -2'",
        ),
        (
            {"train2id.txt": "0\t1\t2\n"},
            r"train2id\.txt: line 1 must be the number of the lines below it, but is '0\\t1\\t2'",
        ),
        ({"train2id.txt": "0\n"}, r"train2id\.txt is empty: it holds no triples"),
        (
            {"test.txt": "0\t0\t1\n", "test2id.txt": None},
            r"mixes two layouts: \w+2id\.txt is in OpenKE's, .* test\.txt is not",
        ),
    ],
)
def test_damaged_files_of_openke_are_refused(
    tmp_path: Path, files: dict[str, str | None], words: str
) -> None:
    write(tmp_path, {name: text for name, text in (OPENKE | files).items() if text is not None})
    with pytest.raises(ValueError, match=words):
        load_triples(tmp_path)
