"""The command as a user meets it: results, and mistakes that get one clear line and exit code 2."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_pairs, small_recipe, write_tsv


def regard(*words: object, cwd: Path | None = None, text: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "regard", *map(str, words)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, timeout=120, check=False, env=environment)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned the small corpus."""
    from regard.api import train

    out = tmp_path_factory.mktemp("model") / "run"
    pairs = make_pairs()
    recipe = small_recipe(
        steps=150, batch_tokens=512, lr=0.01, validate_every=150, save_every=50, log_every=50, average=2
    )
    recipe["train"]["precision"] = "float32"  # what it has learned does not hang on the processor
    recipe["model"] |= {"d_model": 32, "d_ff": 64, "dropout": 0.0, "norm": "pre"}
    recipe["decode"] = {"beam": 3}
    train(recipe, pairs=pairs[:200], dev=pairs[200:], out=out, quiet=True)
    return out


def assert_one_line(done: "subprocess.CompletedProcess[bytes]", *words: str) -> None:
    error = done.stderr.decode()
    assert done.returncode == 2, error
    assert error.count("\n") == 1, error
    for word in words:
        assert word in error


def test_it_learns_and_translates_line_for_line(model: Path) -> None:
    lines = b"the man eats the bread\n\n  \nmy sister wants a cake now\r\nthe boy sees the fish today"
    done = regard("translate", model, text=lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split("\n") == [
        "el hombre come el pan",
        "",
        "",
        "mi hermana quiere un pastel ahora",
        "el chico ve el pescado hoy",
        "",
    ]


def test_line_separators_inside_a_line_do_not_split_it(model: Path) -> None:
    done = regard("translate", model, text="the man\u2028eats\u0085the bread\nthe boy eats the bread\n".encode())
    assert done.stdout.count(b"\n") == 2


def test_files_output_and_n_best(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the man eats the bread\nthe boy buys the apple\n")
    done = regard("translate", model, tmp_path / "in.txt", "--output", tmp_path / "out.txt", "--n-best", 3)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "2", "2"]
    assert rows[0][2] == "el hombre come el pan"
    assert float(rows[0][1]) >= float(rows[1][1]) >= float(rows[2][1])


def test_json_lines_carry_scores(model: Path) -> None:
    done = regard("translate", model, "--json", text=b"the man eats the bread\n")
    (line,) = done.stdout.decode().splitlines()
    best = json.loads(line)["translations"][0]
    assert best["text"] == "el hombre come el pan"
    assert 0 < best["confidence"] <= 1


def test_over_long_input_is_split_with_a_warning_and_nothing_is_lost(model: Path) -> None:
    text = " ".join(["the man eats the bread ."] * 80)
    done = regard("translate", model, "--beam", 1, text=text.encode())
    assert done.returncode == 0, done.stderr
    assert b"translated in" in done.stderr
    assert done.stdout.count(b"\n") == 1
    assert done.stdout.decode().count("hombre") >= 2


def test_evaluate_agrees_with_the_model_card(model: Path, tmp_path: Path) -> None:
    write_tsv(tmp_path / "dev.tsv", make_pairs()[200:])
    done = regard("evaluate", model, tmp_path / "dev.tsv", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["scores"]["BLEU"]
    card = json.loads((model / "model/model.json").read_text())["scores"]["dev"]["BLEU"]
    assert found == card
    assert f"{card['value']:.2f}" in (model / "model/README.md").read_text()


def test_evaluate_against_a_file_tests_the_difference(model: Path, tmp_path: Path) -> None:
    pairs = make_pairs()[200:]
    write_tsv(tmp_path / "dev.tsv", pairs)
    (tmp_path / "theirs.txt").write_text("".join("el pan come\n" for _ in pairs))
    done = regard("evaluate", model, tmp_path / "dev.tsv", "--against", tmp_path / "theirs.txt", "--json")
    comparison = json.loads(done.stdout)["against"][0]
    assert comparison["ours"] > comparison["theirs"]
    assert comparison["p_value"] < 0.05


def test_evaluate_says_what_it_left_out(model: Path, tmp_path: Path) -> None:
    pairs = make_pairs()[200:]
    write_tsv(tmp_path / "dev.tsv", [*pairs[:3], ("", "nada"), *pairs[3:]])
    done = regard("evaluate", model, tmp_path / "dev.tsv", "--with", model)
    assert f"{len(pairs)} pairs; dropped 1 with an empty side" in done.stdout.decode()
    (tmp_path / "theirs.txt").write_text("x\n" * (len(pairs) + 1))
    asked = ("evaluate", model, tmp_path / "dev.tsv", "--output", tmp_path / "ours.txt", "--against")
    done = regard(*asked, tmp_path / "theirs.txt")
    assert_one_line(done, f"theirs.txt has {len(pairs) + 1} lines", "dropped 1 with an empty side")
    assert_one_line(regard(*asked, tmp_path / "none.txt"), "no model and no file")
    assert not (tmp_path / "ours.txt").exists()  # it is told before anything is translated


def test_average_makes_a_model_of_a_runs_checkpoints(model: Path, tmp_path: Path) -> None:
    done = regard("average", model, "--last", 2, "--out", tmp_path / "mean")
    assert done.returncode == 0, done.stderr
    assert regard("translate", tmp_path / "mean", text=b"the man eats the bread\n").stdout == b"el hombre come el pan\n"


def test_ensemble(model: Path) -> None:
    done = regard("translate", model, "--with", model, text=b"the man eats the bread\n")
    assert done.stdout == b"el hombre come el pan\n"


def test_a_model_trained_on_a_file_alone_is_evaluated_on_what_was_held_out(tmp_path: Path) -> None:
    write_tsv(tmp_path / "pairs.tsv", make_pairs())
    words = ["steps=2", "validate_every=2", "train.batch_tokens=256", "threads=1", "tokenizer.size=300"]
    assert regard("train", tmp_path / "pairs.tsv", *words, "--out", tmp_path / "run").returncode == 0
    done = regard("evaluate", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    held = [json.loads(line) for line in (tmp_path / "run/dev.jsonl").read_text(encoding="utf-8").splitlines()]
    assert json.loads(done.stdout)["pairs"] == len(held) == 5
    assert all((pair["source"], pair["target"]) in make_pairs() for pair in held)
    assert_one_line(regard("evaluate", tmp_path / "run", "-o", tmp_path / "run/dev.jsonl"), "also the input")


def test_lines_that_are_not_utf8_can_be_skipped(tmp_path: Path) -> None:
    write_tsv(tmp_path / "pairs.tsv", make_pairs())
    with (tmp_path / "pairs.tsv").open("ab") as file:
        file.write(b"caf\xe9\tcoffee\n")
    words = ["steps=1", "train.batch_tokens=256", "threads=1", "tokenizer.size=300", "--out", tmp_path / "run"]
    assert_one_line(regard("train", tmp_path / "pairs.tsv", *words), "line 257", "--skip-bad")
    done = regard("train", tmp_path / "pairs.tsv", *words, "--skip-bad", "--resume")
    assert done.returncode == 0, done.stderr
    assert b"1 unreadable" in done.stderr


def test_the_input_is_never_overwritten(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the man eats the bread\n")
    assert_one_line(regard("translate", model, tmp_path / "in.txt", "-o", tmp_path / "in.txt"), "also the input")
    assert_one_line(regard("data", "splice", tmp_path / "in.txt", "-o", tmp_path / "in.txt"), "also the input")
    assert (tmp_path / "in.txt").read_text() == "the man eats the bread\n"


def test_evaluate_never_overwrites_what_it_compares_with(model: Path, tmp_path: Path) -> None:
    (tmp_path / "in.en").write_text("the man eats the bread\n")
    (tmp_path / "in.es").write_text("el hombre come el pan\n")
    (tmp_path / "theirs").write_text("el hombre come\n")
    (tmp_path / "linked").symlink_to(tmp_path / "in.es")
    asked = ("evaluate", model, tmp_path / "in.en", tmp_path / "in.es", "--against", tmp_path / "theirs", "-o")
    for name in ("in.en", "in.es", "linked", "theirs"):
        assert_one_line(regard(*asked, tmp_path / name), "also the input")
    assert (tmp_path / "in.es").read_text() == "el hombre come el pan\n"
    assert (tmp_path / "theirs").read_text() == "el hombre come\n"


def test_models_and_info(model: Path) -> None:
    rows = {(row["model"], row["size"]): row for row in json.loads(regard("models", "--json").stdout)}
    assert rows["transformer", "base"]["parameters"] == 63_045_632
    assert rows["transformer", "big"]["parameters"] == 214_171_648
    assert rows["bert", "base"]["parameters"] == 109_482_240 - 768 * 769  # the published count has a pooler
    for row in rows.values():
        assert row["parameters"] == row["closed_form"]
        if row["published"]:
            assert abs(row["parameters"] / row["published"] - 1) < 0.04
    assert b"sound" in regard("info", model).stdout


def test_training_on_a_file_alone_and_going_on_from_a_bundle(model: Path, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "pairs.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{s}\t{t}\n" for s, t in make_pairs())
    words = ["steps=2", "validate_every=2", "train.batch_tokens=256", "threads=1"]
    done = regard("train", tmp_path / "pairs.tsv.gz", *words, "tokenizer.size=300", "--out", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert b"held out" in done.stderr
    done = regard(
        "train",
        tmp_path / "pairs.tsv.gz",
        *words,
        "--from",
        model,
        "--out",
        tmp_path / "more",
        "lr=0.0001",
        "matrix_lr=0.0001",
    )
    assert done.returncode == 0, done.stderr
    more = regard("translate", tmp_path / "more", text=b"the man eats the bread\n")
    assert more.stdout == b"el hombre come el pan\n"


def test_mistakes_are_one_line_and_exit_code_2(model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[train]\nstepps = 3\n")
    (tmp_path / "not.toml").write_text("this is not toml")
    (tmp_path / "latin.tsv").write_bytes("caf\xe9\tcoffee\n".encode("latin-1"))
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "folder").mkdir()
    out = ["--out", tmp_path / "out"]
    assert_one_line(regard("train", tmp_path / "none.toml", *out), "none.toml")
    assert_one_line(regard("train", tmp_path / "not.toml", *out), "not TOML")
    assert_one_line(regard("train", tmp_path / "bad.toml", *out), "stepps", "steps")
    assert_one_line(regard("train", tmp_path / "missing.tsv", *out), "missing.tsv")
    assert_one_line(regard("train", tmp_path / "latin.tsv", *out), "latin.tsv", "line 1")
    assert_one_line(regard("train", tmp_path / "a.en", tmp_path / "a.de", *out), "2", "1")
    assert_one_line(regard("train", tmp_path / "empty.tsv", *out), "empty.tsv")
    assert_one_line(regard("train", tmp_path / "folder", *out), "recipe.toml")
    assert_one_line(regard("train", *out), "recipe")
    assert_one_line(regard("train", tmp_path / "gone", "--resume"), "there is no run at")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "gone").exists()
    assert_one_line(regard("translate", tmp_path / "nothing"), "nothing")
    assert_one_line(regard("translate", tmp_path / "folder"), "model.json")
    assert_one_line(regard("translate", model, tmp_path / "nofile.txt"), "nofile.txt")
    assert_one_line(regard("translate", model, "--beam", 0), "beam")
    assert_one_line(regard("translate", model, text=b"\xff\xfe bad\n"), "line 1")
    assert_one_line(regard("evaluate", model, tmp_path / "empty.tsv"), "empty.tsv")
    assert_one_line(regard("data", "get", "multi30"), "multi30k")
    assert_one_line(regard("data", "check", tmp_path / "missing.tsv"), "missing.tsv")
    assert_one_line(regard("average", model, "--out", model), str(model))
    assert_one_line(regard("look", model, ""), "text")


def test_files_of_a_model_can_be_read_by_all_who_can_read_one_of_them(model: Path) -> None:
    modes = {path.stat().st_mode for path in (model / "model").iterdir()}
    assert len(modes) == 1


def test_data_check_fails_on_what_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("only one column\nhere too\n")
    done = regard("data", "check", tmp_path / "one.tsv")
    assert_one_line(done, "no pair in it can be used")


def test_a_damaged_model_is_named(model: Path, tmp_path: Path) -> None:
    import shutil

    for file in ("model.safetensors", "tokenizer.json", "model.json"):
        copy = tmp_path / file
        shutil.copytree(model / "model", copy)
        content = bytearray((copy / file).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / file).write_bytes(content)
        done = regard("translate", copy, text=b"x\n")
        if file != "model.json" or done.returncode:  # a flipped letter inside a text of model.json may be harmless
            assert_one_line(done, file)
    copy = tmp_path / "climbs"
    shutil.copytree(model / "model", copy)
    facts = json.loads((copy / "model.json").read_text())
    facts["tokenizers"]["source"] = "../model.safetensors/tokenizer.json"
    (copy / "model.json").write_text(json.dumps(facts))
    assert_one_line(regard("translate", copy, text=b"x\n"), "outside its folder")


def test_a_reader_that_leaves_is_no_error(model: Path) -> None:
    text = b"the man eats the bread\n" * 2000
    command = ["bash", "-o", "pipefail", "-c", f"'{sys.executable}' -m regard translate '{model}' --beam 1 | head -1"]
    done = subprocess.run(command, input=text, capture_output=True, timeout=120, check=False)
    assert done.stdout == b"el hombre come el pan\n"
    assert done.stderr == b""
    assert done.returncode == 0


def test_what_the_system_refuses_is_one_line(model: Path, tmp_path: Path) -> None:
    assert_one_line(regard("info", "x" * 300), "File name too long")
    assert_one_line(regard("train", model, "--resume", f"licence={'x' * 300}", "stepps=1"), "stepps")
    assert_one_line(regard("demo", "--out", model / "recipe.toml"), "recipe.toml")
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "regard", "translate", str(model)]
        done = subprocess.run(command, input=b"a man\n", stdout=full, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr == b"regard: No space left on device\n"


def test_what_is_not_a_runs_is_not_written_over(model: Path, tmp_path: Path) -> None:
    write_tsv(tmp_path / "pairs.tsv", make_pairs())
    for name in ("dev.jsonl", "log.jsonl", "tokenizer.json"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).write_text("mine")
        done = regard("train", tmp_path / "pairs.tsv", "--out", folder)
        assert_one_line(done, name, "choose another folder")
        assert [(p.name, p.read_text()) for p in folder.iterdir()] == [(name, "mine")]
    for words in ([], ["--fresh"]):
        assert_one_line(regard("demo", "--out", tmp_path / "dev-jsonl", *words), "dev.jsonl, which is not the demo's")
    text = tmp_path / "text"
    text.write_text("the man eats the bread\n")
    command = f"'{sys.executable}' -m regard translate '{model}' -o '{text}' < '{text}'"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=120, check=False)
    assert_one_line(done, "is also the input")
    assert text.read_text() == "the man eats the bread\n"


def test_options_that_would_do_nothing_are_told(model: Path, tmp_path: Path) -> None:
    assert_one_line(regard("translate", model, "--temperature", 0.5), "--temperature goes with --sample")
    assert_one_line(regard("translate", model, "--seed", 1), "--seed goes with --sample")
    assert_one_line(
        regard("evaluate", model, "--text", "a"), "--text names columns; a model for translation reads none"
    )
    assert_one_line(
        regard("evaluate", model, "--label", "a"), "--label names columns; a model for translation reads none"
    )
    write_tsv(tmp_path / "dev.tsv", make_pairs()[200:])
    done = regard("evaluate", model, tmp_path / "dev.tsv", "-o", tmp_path / "nowhere" / "x")
    assert_one_line(done, "there is no folder")
    done = regard("train", tmp_path / "dev.tsv", "task=classification", "--skip-bad", "--out", tmp_path / "run")
    assert_one_line(done, "skip_bad is for sentence pairs")


def test_a_finished_run_does_not_pass_for_another(model: Path, tmp_path: Path) -> None:
    """Asked for with other data or another seed, it is refused, not given as the answer."""
    assert_one_line(regard("train", model, "--resume", "seed=7"), "seed was 1, now 7")
    assert regard("train", model, "--resume").returncode == 0


def test_spliced_sentences_are_printed_or_written_and_a_refusal_loses_no_file(tmp_path: Path) -> None:
    (tmp_path / "some.en").write_text("a b c d\nx b c y\n", encoding="utf-8")
    printed = regard("data", "splice", tmp_path / "some.en", "--count", 2)
    assert printed.returncode == 0
    assert sorted(printed.stdout.decode().splitlines()) == ["a b c y", "x b c d"]
    out = tmp_path / "more.en"
    assert regard("data", "splice", tmp_path / "some.en", "--count", 2, "-o", out).returncode == 0
    assert out.read_bytes() == printed.stdout
    assert_one_line(regard("data", "splice", tmp_path / "some.en", "--count", 3, "-o", out), "2 new sentences")
    assert out.read_bytes() == printed.stdout
