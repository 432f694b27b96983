"""Bad input: one clear sentence, exit status 2, in under two seconds, before torch is imported."""

import json

import pytest

SECONDS = 2.0  # the whole command, interpreter included

BAD = {
    "unknown option": (("--target", "toy:llama", "--nonsense", "1"), "unknown option '--nonsense'"),
    "no target": ((), "--target"),
    "missing file": (("--target", "/no/such/model.gguf"), "there is no model"),
    "not a model": (("--target", "text.txt"), "is not a model"),
    "empty directory": (("--target", "empty"), "is not a model"),
    "damaged header": (("--target", "damaged.gguf"), "damaged.gguf"),
    "damaged config": (("--target", "broken"), "is damaged"),
    "unknown architecture": (("--target", "other"), "other_arch"),
    "tokenizers that differ": (("--target", "toy:llama?vocab=512", "--draft", "swapped"), "tokenizers"),
    "too long": (("--target", "toy:llama?max_len=64", "--prompt-file", "long.txt"), "tokens"),
    "device that does not exist": (("--target", "toy:llama", "--target-device", "cpu:512"), "'cpu:512' does not exist"),
    "draft device": (
        ("--target", "toy:llama", "--draft", "toy:llama", "--draft-device", "gpu"),
        "'gpu' is not understood",
    ),
    "ssd without draft": (("--target", "toy:llama", "--mode", "ssd"), "needs a draft"),
    "temperature": (("--target", "toy:llama", "--temperature", "-1"), "temperature"),
    "no number": (("--target", "toy:llama", "--lookahead", "many"), "'many' is not a whole number"),
    "lookahead": (("--target", "toy:llama", "--draft", "toy:llama", "--lookahead", "99"), "lookahead"),
    "fan-out": (("--target", "toy:llama", "--draft", "toy:llama", "--fan-out", "1,2", "--lookahead", "4"), "fan_out"),
    "fallback": (("--target", "toy:llama", "--draft", "toy:llama", "--fallback", "neurol"), "did you mean 'neural'"),
    "profile": (("--target", "toy:llama", "--profile", "x.json"), "profile x.json does not exist"),
    "no choices": (("--target", "toy:llama", "--n", "0"), "n must be a whole number in 1"),
    "a stream of choices": (("--target", "toy:llama", "--n", "2", "--stream"), "--stream gives one text"),
    "logprobs without a place": (("--target", "toy:llama", "--logprobs", "2"), "--logprobs needs --json"),
    "too many logprobs": (("--target", "toy:llama", "--logprobs", "21", "--json"), "logprobs must be"),
    "drafter": (("--target", "toy:llama", "--draft", "toy:llama", "--drafter", "eagel"), "unknown"),
    "context": (("--target", "toy:llama?max_len=64", "--max-model-len", "128"), "max_model_len"),
    "missing prompt file": (("--target", "toy:llama", "--prompt-file", "absent.txt"), "absent.txt"),
    "prompt file is a folder": (("--target", "toy:llama", "--prompt-file", "empty"), "empty"),
    "not text": (("--target", "toy:llama", "--prompt-file", "binary"), "not UTF-8"),
    "empty prompt": (("--target", "toy:llama", "--prompt", ""), "empty"),
    "two streams": (("--target", "toy:llama", "--prompt", "b", "--stream"), "--stream takes one prompt"),
    "bad schema": (("--target", "toy:llama", "--json-schema", '{"type": "objekt"}'), "Invalid type: objekt"),
    "bad grammar": (("--target", "toy:llama", "--grammar", "start: nowhere"), "unknown name"),
    "schema that is no JSON": (("--target", "toy:llama", "--json-schema", "{"), "json_schema is no JSON"),
    "two grammars": (("--target", "toy:llama", "--regex", "a", "--json-object"), "one grammar at a time"),
    "system alone": (("--target", "toy:llama", "--system", "b"), "--system needs --chat"),
}


@pytest.fixture
def folder(tmp_path, models_directory):
    """Files that are no models, and a pair of tokenizers of one size with other meanings."""
    (tmp_path / "text.txt").write_text("not a model")
    (tmp_path / "long.txt").write_text("word " * 500)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 64)
    for name in ("empty", "broken", "other", "swapped"):
        (tmp_path / name).mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    (tmp_path / "other" / "config.json").write_text(
        json.dumps({"architectures": ["other_arch"], "model_type": "other_arch"})
    )
    sizes = {
        "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 128, "vocab_size": 512, "rms_norm_eps": 1e-5, "max_position_embeddings": 512,
        "rope_theta": 10000.0,
    }  # fmt: skip
    llama = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **sizes}
    (tmp_path / "swapped" / "config.json").write_text(json.dumps(llama))
    vocabulary = {f"word{index}": index for index in range(512)}
    tokenizer = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    (tmp_path / "swapped" / "tokenizer.json").write_text(json.dumps(tokenizer))
    return tmp_path


@pytest.mark.parametrize("name", BAD)
def test_one_sentence_and_exit_2(command, folder, name):
    arguments, text = BAD[name]
    prompt = () if "--prompt-file" in arguments else ("--prompt", "a")
    done = command("generate", *arguments, *prompt)
    assert done.status == 2, done.err
    assert text in done.err
    assert done.err.count("\n") == 1
    assert done.err.rstrip().endswith((".", "?"))
    assert (done.out, "Traceback" in done.err) == ("", False)
    assert done.seconds < SECONDS


@pytest.mark.parametrize(
    "name", ["missing file", "tokenizers that differ", "too long", "device that does not exist", "bad schema"]
)
def test_before_torch(command, folder, name):
    """Torch alone takes longer than the whole refusal may; a broken one shows that nothing imports it."""
    broken = folder / "torch"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('torch was imported')")
    arguments, text = BAD[name]
    prompt = () if "--prompt-file" in arguments else ("--prompt", "a")
    done = command("generate", *arguments, *prompt, environment={"PYTHONPATH": str(folder)})
    assert text in done.err
    assert "torch was imported" not in done.err


@pytest.mark.parametrize("command_name", ["chat", "bench", "doctor", "demo"])
def test_every_engine_command_refuses_the_same(here, command_name, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "a"}\n')
    more = {
        "bench": ("--prompts", prompts, "--num-prompts", 1, "--draft", "toy:llama"),
        "demo": ("--draft", "toy:llama"),
    }
    done = here(command_name, "--target", "/no/such/model", *more.get(command_name, ()))
    assert (done.status, "there is no model" in done.err) == (2, True)


def test_tokenizers_of_real_models_differ(here, models_directory):
    names = ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "smollm2-135m-instruct-q4_1.gguf")
    target, draft = (models_directory / name for name in names)
    if not (target.exists() and draft.exists()):
        pytest.skip(f"{names[0]} and {names[1]} are not in {models_directory}")
    done = here("generate", "--target", target, "--draft", draft, "--prompt", "a")
    assert done.status == 2
    assert "id 0 is" in done.err
    assert done.seconds < SECONDS
